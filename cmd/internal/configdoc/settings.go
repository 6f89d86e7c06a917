package main

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/config"
)

// setting is a key of the configuration file that has a value, and not a section.
type setting struct {
	key   string
	value reflect.Value // the field of the configuration struct
}

// settingsOf lists the settings of a configuration struct in the order of its fields. Pointers to
// sections must not be nil.
func settingsOf(v reflect.Value, parent string) []setting {
	var all []setting
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("mapstructure"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		key := strings.TrimPrefix(parent+"."+strings.ToLower(cmp.Or(name, field.Name)), ".")
		if strings.Contains(options, "squash") {
			key = parent
		}
		value := v.Field(i)
		if value.Kind() == reflect.Pointer && value.Type().Elem().Kind() == reflect.Struct {
			value = value.Elem()
		}
		if value.Kind() == reflect.Struct && !isText(value.Type()) {
			all = append(all, settingsOf(value, key)...)
		} else {
			all = append(all, setting{key, value})
		}
	}
	return all
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (s setting) variable() string {
	return "DLQ_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

func (s setting) isDuration() bool { return s.value.Type() == reflect.TypeFor[time.Duration]() }

// isSize reports whether the setting is a number of bytes.
func (s setting) isSize() bool {
	return s.value.Type() == reflect.TypeFor[config.ByteSize]() || s.value.CanInt() && strings.HasSuffix(s.key, "bytes")
}

func (s setting) isNumber() bool { return s.value.CanInt() || s.value.CanFloat() }

// cutRange splits the comment of a number, "[1 to 16] batches stored at the same time", into its range and its meaning.
// The range is "" when the comment contains none.
func (s setting) cutRange(comment string) (span, meaning string) {
	if open, ok := strings.CutPrefix(comment, "["); ok && s.isNumber() {
		if span, meaning, ok = strings.Cut(open, "] "); ok {
			return span, meaning
		}
	}
	return "", comment
}

// typeName returns the name of the setting's type for docs/configuration.md, such as "duration".
func (s setting) typeName() string {
	typ := s.value.Type()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case s.isDuration():
		return "duration"
	case s.isSize():
		return "size"
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
		return "list of objects"
	case typ.Kind() == reflect.Slice:
		return "list of texts"
	case typ.Kind() == reflect.Bool:
		return "true or false"
	case s.value.CanInt() || s.value.CanUint():
		return "whole number"
	case s.value.CanFloat():
		return "number"
	default:
		return "text"
	}
}

// format returns a value in the form that the configuration file uses; "" when there is no value.
func (s setting) format() string {
	switch v := s.value; {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return ""
	case s.isDuration() || s.isSize():
		return s.number(v.Int())
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			return "[]"
		}
		text, err := json.Marshal(v.Interface())
		if err != nil {
			return fmt.Sprint(v.Interface())
		}
		return string(text)
	default:
		return fmt.Sprint(v.Interface())
	}
}

// number returns a whole number with the unit of the setting.
func (s setting) number(n int64) string {
	switch {
	case s.isDuration():
		text := time.Duration(n).String()
		for _, zero := range []string{"m0s", "h0m"} { // changes 5m0s to 5m, and 24h0m to 24h
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	case s.isSize():
		return config.ByteSize(n).String()
	default:
		return fmt.Sprint(n)
	}
}
