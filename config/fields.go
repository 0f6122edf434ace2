package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// setFields gives every field of *dst that has a key tag the value of that key, structs inside *dst included. A null
// value leaves the field's zero value. The error is the first one that get returns.
func setFields(dst any, keys *table, get func(name string) (value, error)) error {
	v := reflect.ValueOf(dst).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, tagged := f.Tag.Lookup("key")
		switch {
		case !tagged && f.IsExported() && f.Type.Kind() == reflect.Struct:
			if err := setFields(v.Field(i).Addr().Interface(), keys, get); err != nil {
				return err
			}
		case tagged:
			if keys.byName[name] == nil {
				return fmt.Errorf("field %s: no key %s", f.Name, name)
			}
			val, err := get(name)
			if err != nil {
				return err
			}
			setField(v.Field(i), name, val)
		}
	}
	return nil
}

func setField(f reflect.Value, name string, v value) {
	if v.null {
		return
	}
	switch p := f.Addr().Interface().(type) {
	case *time.Duration:
		*p = toDuration(v.num, unitOf(name))
	case *bool:
		*p = v.flag
	case *string:
		*p = v.text
	case *float64:
		*p = v.real
	case *[]string:
		*p = v.list
	default:
		f.SetInt(v.num) // the int types; anything else fails the test of the field tags
	}
}

// unitOf tells the unit of a key from its name, 0 when the key is no duration.
func unitOf(name string) time.Duration {
	switch {
	case strings.HasSuffix(name, ".ms"):
		return time.Millisecond
	case strings.HasSuffix(name, ".seconds"):
		return time.Second
	case strings.HasSuffix(name, ".minutes"):
		return time.Minute
	case strings.HasSuffix(name, ".hours"):
		return time.Hour
	}
	return 0
}

// toDuration keeps negative numbers as sentinels and saturates at math.MaxInt64, because Kafka users write
// 9223372036854775807 for "never".
func toDuration(n int64, unit time.Duration) time.Duration {
	if n < 0 {
		return time.Duration(n)
	}
	return time.Duration(saturatingMul(n, int64(unit)))
}

// saturatingMul multiplies two numbers that are not negative.
func saturatingMul(a, b int64) int64 {
	if b != 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
