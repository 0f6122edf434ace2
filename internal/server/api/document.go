package api

import (
	"fmt"
	"io"
	"strings"
)

// WriteDocument writes docs/apis.md: what is served, made from the registrations.
func WriteDocument(to io.Writer) error {
	var w strings.Builder
	w.WriteString(`# Kafka APIs that kbroker serves

Generated from the registrations in internal/server/api by ` + "`go generate ./internal/server/api`" + `; do not edit.

A key that is not listed is not told to clients and not answered: the connection is closed, as Apache Kafka does with a key
it does not know. So is it for a version outside the range, save for ApiVersions. Versions in brackets are told to clients and
answered with UNSUPPORTED_VERSION.

| Key | API | Versions | What versions brought |
|--:|--|--|--|
`)
	apis := NewTable().APIs()
	for _, a := range apis {
		fmt.Fprintf(&w, "| %d | %s | %s | %s |\n", a.Key, a.Name(), a.versions(), strings.Join(a.Since, "; "))
	}
	w.WriteString("\n## Differences from Apache Kafka\n\nThrottle times are always 0: there are no quotas.\n")
	for _, a := range apis {
		if len(a.Deviations) == 0 {
			continue
		}
		fmt.Fprintf(&w, "\n### %s (%d)\n\n", a.Name(), a.Key)
		for _, d := range a.Deviations {
			fmt.Fprintf(&w, "* %s\n", d)
		}
	}
	_, err := io.WriteString(to, w.String())
	return err
}

func (a *API) versions() string {
	text := fmt.Sprintf("%d-%d", a.Min, a.Max)
	if a.Min == a.Max {
		text = fmt.Sprint(a.Min)
	}
	if a.Refused > 0 {
		text += fmt.Sprintf(" (%d-%d)", a.Lowest(), a.Min-1)
	}
	return text
}
