package config

import (
	_ "embed" // the page
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/twmb/franz-go/pkg/kmsg"
)

//go:embed reference.tmpl
var referencePage string

// WriteReference writes docs/configuration.md: every key of every resource with its type, default, bounds and meaning.
func WriteReference(w io.Writer) error {
	page, err := template.New("reference").Funcs(template.FuncMap{
		"lower":  strings.ToLower,
		"cell":   func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"own":    func(r string) []*Key { return keysWhere(r, func(k *Key) bool { return k.Own }) },
		"acting": func(r string) []*Key { return keysWhere(r, func(k *Key) bool { return k.Acts && !k.Own }) },
		"idle":   func(r string) []*Key { return keysWhere(r, func(k *Key) bool { return !k.Acts }) },
		"default": func(k *Key) string {
			switch d := k.shownDefault(); {
			case d == nil:
				return "none"
			case *d == "":
				return "empty"
			default:
				return "`" + strings.ReplaceAll(*d, ",", ", ") + "`"
			}
		},
		"change": func(k *Key) string {
			return map[Dynamic]string{ReadOnly: "restart", PerBroker: "broker", ClusterWide: "cluster"}[k.Dynamic]
		},
		"broker": func(k *Key) string {
			if len(k.Synonyms) == 0 || k.Synonyms[0] == k.Name {
				return ""
			}
			return "`" + strings.Join(k.Synonyms, "`, `") + "`"
		},
	}).Parse(referencePage)
	if err != nil {
		return fmt.Errorf("reference page: %w", err)
	}
	if err := page.Execute(w, nil); err != nil {
		return fmt.Errorf("reference page: %w", err)
	}
	return nil
}

// shownDefault is the default of a node that nobody configured.
func (k *Key) shownDefault() *string {
	if d, ok := chosenDefaults[k.Name]; ok && brokerKeys.byName[k.Name] == k {
		return &d
	}
	return k.Default
}

var resourceWords = map[string]kmsg.ConfigResourceType{
	"broker": ResourceBroker, "topic": ResourceTopic, "group": ResourceGroup, "client-metrics": ResourceClientMetrics,
}

func keysWhere(resource string, pick func(*Key) bool) []*Key {
	var keys []*Key
	for _, k := range Keys(resourceWords[resource]) {
		if pick(k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// WriteHelp writes the broker keys that act, one line each, for the broker's --help. Without all it leaves out those of
// low importance and those that a small cluster never touches.
func WriteHelp(w io.Writer, all bool) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range keysWhere("broker", func(k *Key) bool { return k.Acts && (all || k.Importance == "high" || k.Own) }) {
		d := orEmpty(k.shownDefault())
		if d == "" {
			d = "-"
		}
		if _, err := fmt.Fprintf(tab, "  %s\t%s\t%s\n", k.Name, d, k.Doc); err != nil {
			return fmt.Errorf("help: %w", err)
		}
	}
	return tab.Flush()
}
