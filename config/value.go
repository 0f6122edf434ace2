package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InvalidError says what is wrong with a configuration in Kafka's words. It carries kerr.InvalidConfig (or Code, when
// that is set), and its text is fit for the ErrorMessage of an answer.
type InvalidError struct {
	Message string
	// Code replaces kerr.InvalidConfig when it is not nil.
	Code *kerr.Error
}

// Error returns Message.
func (e *InvalidError) Error() string { return e.Message }

// Unwrap makes the Kafka error visible to errors.As.
func (e *InvalidError) Unwrap() error {
	if e.Code != nil {
		return e.Code
	}
	return kerr.InvalidConfig
}

func invalidf(format string, args ...any) error {
	return &InvalidError{Message: fmt.Sprintf(format, args...)}
}

func invalidValue(name, val, why string) error {
	return invalidf("Invalid value %s for configuration %s: %s", val, name, why)
}

// value is a parsed configuration value: one of the fields is set, by the key's type, unless it is null.
type value struct {
	null bool
	text string // STRING, CLASS, PASSWORD
	num  int64  // INT, SHORT, LONG
	real float64
	flag bool
	list []string
}

// parseValue reads text as a value of the key's type and checks it against what the key allows. Blanks around the text
// do not count.
func parseValue(k *Key, text *string) (value, error) {
	v, err := parseType(k, text)
	if err != nil {
		return value{}, err
	}
	if _, ok := k.valid.(listOf); ok {
		if v.null && k.Default != nil {
			return value{}, invalidf("Configuration '%s' values must not be null.", k.Name)
		}
		v.list = withoutRepeats(v.list)
	}
	return v, k.valid.check(k.Name, v)
}

// withoutRepeats keeps the first of equal elements: a repeated one in a file is harmless.
func withoutRepeats(list []string) []string {
	var out []string
	for _, e := range list {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

func parseType(k *Key, text *string) (value, error) {
	if text == nil {
		return value{null: true}, nil
	}
	s := strings.TrimSpace(*text)
	switch k.Type {
	case kmsg.ConfigTypeBoolean:
		switch {
		case strings.EqualFold(s, "true"):
			return value{flag: true}, nil
		case strings.EqualFold(s, "false"):
			return value{}, nil
		}
		return value{}, invalidValue(k.Name, s, "Expected value to be either true or false")
	case kmsg.ConfigTypeShort:
		return parseInt(k, s, 16, "SHORT")
	case kmsg.ConfigTypeInt:
		return parseInt(k, s, 32, "INT")
	case kmsg.ConfigTypeLong:
		return parseInt(k, s, 64, "LONG")
	case kmsg.ConfigTypeDouble:
		return parseReal(k, s)
	case kmsg.ConfigTypeList:
		return value{list: splitList(s)}, nil
	default: // STRING, CLASS, PASSWORD
		return value{text: s}, nil
	}
}

func parseInt(k *Key, s string, bits int, typeName string) (value, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		return value{}, invalidValue(k.Name, s, "Not a number of type "+typeName)
	}
	return value{num: n}, nil
}

// parseReal takes what Java's Double.valueOf takes, except NaN, with which no comparison in the broker could work.
func parseReal(k *Key, s string) (value, error) {
	bad := invalidValue(k.Name, s, "Not a number of type DOUBLE")
	switch s {
	case "Infinity", "+Infinity":
		return value{real: math.Inf(1)}, nil
	case "-Infinity":
		return value{real: math.Inf(-1)}, nil
	}
	digits := s
	if n := len(s); n > 1 && strings.ContainsRune("dDfF", rune(s[n-1])) && !strings.ContainsAny(s, "xX") {
		digits = s[:n-1]
	}
	if strings.ContainsAny(digits, "_nN") { // no digit separators, no "inf", no "nan"
		return value{}, bad
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return value{}, bad
	}
	return value{real: f}, nil
}

// splitList cuts a list at its commas and trims every element. Empty text is the empty list; an empty element stays,
// so that validators can complain about it.
func splitList(s string) []string {
	if s == "" {
		return nil
	}
	list := strings.Split(s, ",")
	for i, e := range list {
		list[i] = strings.TrimSpace(e)
	}
	return list
}

// canonical returns the value as DescribeConfigs shows it, nil for null. Passwords come out in clear; callers hide them.
func (v value) canonical(t kmsg.ConfigType) *string {
	if v.null {
		return nil
	}
	var s string
	switch t {
	case kmsg.ConfigTypeBoolean:
		s = strconv.FormatBool(v.flag)
	case kmsg.ConfigTypeShort, kmsg.ConfigTypeInt, kmsg.ConfigTypeLong:
		s = strconv.FormatInt(v.num, 10)
	case kmsg.ConfigTypeDouble:
		s = formatReal(v.real)
	case kmsg.ConfigTypeList:
		s = strings.Join(v.list, ",")
	default:
		s = v.text
	}
	return &s
}

// formatReal writes a number as Java does, since tools compare these texts: plain from 1e-3 up to 1e7, else with an
// exponent, and always with a decimal point.
func formatReal(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	abs := math.Abs(f)
	if abs == 0 || abs >= 1e-3 && abs < 1e7 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return mantissa // cannot happen: the exponent comes from FormatFloat
	}
	return mantissa + "E" + strconv.Itoa(n)
}
