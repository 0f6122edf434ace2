package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// validator checks a parsed value beyond its type. allowed says in words what passes.
type validator interface {
	check(name string, v value) error
	allowed() string
}

// parseValidator reads the valid column of a key table:
//
//   - anything, null included
//     LOW..HIGH      a number in the range; either end may be missing
//     -1|LOW..HIGH   the same, or -1
//     in:A,B         one of the texts; in~: ignores case
//     list:A,B       a list of these, not empty; list?: may be empty; without names any element passes
//     nonempty       null or a text that is not empty
//     nonnull        any text
//     throttled      '*' or pairs partition:broker
//     voters         id@host:port, ...
//     servers        host:port, ...
//     offset-reset   latest, earliest, by_duration:ISO-8601
func parseValidator(s string) (validator, error) {
	kind, arg, hasArg := strings.Cut(s, ":")
	var names []string
	if hasArg {
		names = splitList(arg)
	}
	switch kind {
	case "-":
		return anything{}, nil
	case "in":
		return oneOf{names: names}, nil
	case "in~":
		return oneOf{names: names, anyCase: true}, nil
	case "list":
		return listOf{names: names}, nil
	case "list?":
		return listOf{names: names, empty: true}, nil
	case "nonempty":
		return nonEmpty{}, nil
	case "nonnull":
		return nonNull{}, nil
	case "throttled":
		return throttled{}, nil
	case "voters":
		return votersText{}, nil
	case "servers":
		return serversText{}, nil
	case "offset-reset":
		return offsetReset{}, nil
	}
	return parseRange(s)
}

type anything struct{}

func (anything) check(string, value) error { return nil }
func (anything) allowed() string           { return "" }

// numRange bounds INT, SHORT, LONG and DOUBLE values. The ends are kept as text as well, to be quoted as Kafka does.
type numRange struct {
	low, high         float64
	lowText, highText string
	minusOne          bool
}

func parseRange(s string) (validator, error) {
	var r numRange
	s, r.minusOne = strings.CutPrefix(s, "-1|")
	var ok bool
	if r.lowText, r.highText, ok = strings.Cut(s, ".."); !ok {
		return nil, fmt.Errorf("unknown validator %q", s)
	}
	r.low, r.high = math.Inf(-1), math.Inf(1)
	var err error
	if r.lowText != "" {
		if r.low, err = strconv.ParseFloat(r.lowText, 64); err != nil {
			return nil, fmt.Errorf("lower end of range %q: %w", s, err)
		}
	}
	if r.highText != "" {
		if r.high, err = strconv.ParseFloat(r.highText, 64); err != nil {
			return nil, fmt.Errorf("upper end of range %q: %w", s, err)
		}
	}
	return r, nil
}

func (r numRange) check(name string, v value) error {
	if v.null {
		return invalidValue(name, "null", "Value must be non-null")
	}
	n, text := float64(v.num), strconv.FormatInt(v.num, 10)
	if v.real != 0 {
		n, text = v.real, formatReal(v.real)
	}
	switch {
	case r.minusOne && (n < r.low || n > r.high) && n != -1:
		return invalidValue(name, text, fmt.Sprintf("Value must be between %s and %s or equal to -1", r.lowText, r.highText))
	case r.minusOne:
		return nil
	case n < r.low:
		return invalidValue(name, text, "Value must be at least "+r.lowText)
	case n > r.high:
		return invalidValue(name, text, "Value must be no more than "+r.highText)
	}
	return nil
}

func (r numRange) allowed() string {
	var s string
	switch {
	case r.highText == "":
		s = "at least " + r.lowText
	case r.lowText == "":
		s = "at most " + r.highText
	default:
		s = r.lowText + " to " + r.highText
	}
	if r.minusOne {
		s = "-1 or " + s
	}
	return s
}

type oneOf struct {
	names   []string
	anyCase bool
}

func (o oneOf) check(name string, v value) error {
	for _, n := range o.names {
		if !v.null && (n == v.text || o.anyCase && strings.EqualFold(n, v.text)) {
			return nil
		}
	}
	how := "String must be one of: "
	if o.anyCase {
		how = "String must be one of (case insensitive): "
	}
	return invalidValue(name, orNull(v), how+strings.Join(o.names, ", "))
}

func (o oneOf) allowed() string { return "one of " + strings.Join(o.names, ", ") }

func orNull(v value) string {
	if v.null {
		return "null"
	}
	return v.text
}

type listOf struct {
	names []string
	empty bool
}

// check lets null pass; parseValue has refused it for keys that have a default.
func (l listOf) check(name string, v value) error {
	if v.null {
		return nil
	}
	if len(v.list) == 0 && !l.empty {
		valid := "any non-empty value"
		if len(l.names) > 0 {
			valid = "[" + strings.Join(l.names, ", ") + "]"
		}
		return invalidf("Configuration '%s' must not be empty. Valid values include: %s", name, valid)
	}
	for _, e := range v.list {
		if e == "" {
			return invalidf("Configuration '%s' values must not be empty.", name)
		}
		if len(l.names) > 0 && !slices.Contains(l.names, e) {
			return invalidValue(name, e, "String must be one of: "+strings.Join(l.names, ", "))
		}
	}
	return nil
}

func (l listOf) allowed() string {
	switch {
	case len(l.names) > 0:
		return "any of " + strings.Join(l.names, ", ")
	case l.empty:
		return ""
	}
	return "not empty"
}

type nonEmpty struct{}

func (nonEmpty) check(name string, v value) error {
	if !v.null && v.text == "" {
		return invalidValue(name, "", "String must be non-empty")
	}
	return nil
}

func (nonEmpty) allowed() string { return "not empty" }

type nonNull struct{}

func (nonNull) check(name string, v value) error {
	if v.null {
		return invalidValue(name, "null", "entry must be non null")
	}
	return nil
}

func (nonNull) allowed() string { return "" }

type throttled struct{}

func (t throttled) check(name string, v value) error {
	if v.null {
		return invalidValue(name, "null", "Value must be non-null")
	}
	if len(v.list) == 1 && v.list[0] == "*" {
		return nil
	}
	for _, e := range v.list {
		partition, broker, ok := strings.Cut(e, ":")
		if !ok || !isDigits(partition) || !isDigits(broker) {
			return invalidValue(name, "["+strings.Join(v.list, ", ")+"]", name+" must be the literal '*' or a list of"+
				" replicas in the following format: "+throttledForm)
		}
	}
	return nil
}

const throttledForm = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

func (throttled) allowed() string { return "'*' or " + throttledForm }

func isDigits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

type votersText struct{}

func (votersText) check(name string, v value) error {
	_, err := parseVoters(name, v.list)
	return err
}

func (votersText) allowed() string { return "id@host:port, ..." }

type serversText struct{}

func (serversText) check(name string, v value) error {
	for _, e := range v.list {
		if _, _, err := splitHostPort(e); err != nil {
			return invalidf("Failed to parse host name from %s for the configuration %s."+
				" Each entry should be in the form \"{host}:{port}\"", e, name)
		}
	}
	return nil
}

func (serversText) allowed() string { return "host:port, ..." }

type offsetReset struct{}

func (offsetReset) check(name string, v value) error {
	if v.text == "latest" || v.text == "earliest" {
		return nil
	}
	if iso, ok := strings.CutPrefix(v.text, "by_duration:"); ok && isPositiveISODuration(iso) {
		return nil
	}
	return invalidValue(name, v.text, fmt.Sprintf("Invalid value `%s` for configuration %s. The value must be either"+
		" 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.", v.text, name))
}

func (offsetReset) allowed() string { return "latest, earliest or by_duration:PnDTnHnMn.nS" }

// isPositiveISODuration recognises PnDTnHnMn.nS with at least one part and no sign.
func isPositiveISODuration(s string) bool {
	rest, ok := strings.CutPrefix(s, "P")
	if !ok || rest == "" {
		return false
	}
	days, clock, hasClock := strings.Cut(rest, "T")
	if hasClock && clock == "" || !consumeParts(days, "D") {
		return false
	}
	return consumeParts(clock, "HMS")
}

// consumeParts reads numbers that each end in one of the units, in that order, every unit at most once.
func consumeParts(s, units string) bool {
	for s != "" {
		end := strings.IndexAny(s, "DHMS")
		if end < 1 {
			return false
		}
		at := strings.IndexByte(units, s[end])
		if at < 0 {
			return false
		}
		whole, frac, hasFrac := strings.Cut(s[:end], ".")
		if !isDigits(whole) || hasFrac && (s[end] != 'S' || !isDigits(frac)) {
			return false
		}
		units, s = units[at+1:], s[end+1:]
	}
	return true
}
