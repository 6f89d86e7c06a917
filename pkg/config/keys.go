package config

import (
	"cmp"
	"encoding"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"
)

// setting is a key of the configuration that has a value, as opposed to a section.
type setting struct {
	key       string
	byDefault reflect.Value
	optional  string // key of the optional section that contains this setting; "" for none
}

// schema lists all keys of a configuration struct.
type schema struct {
	settings []setting
	sections map[string]bool // whether a section is optional, by the section's key
}

// Keys returns every key that Load accepts for T, sorted. With this list a test can check that a reference file names
// every key.
func Keys[T any](defaults T) []string {
	var keys []string
	for _, s := range schemaOf(reflect.ValueOf(&defaults).Elem()).settings {
		keys = append(keys, s.key)
	}
	slices.Sort(keys)
	return keys
}

// schemaOf returns the schema of a struct, and sets the struct's optional sections to nil.
func schemaOf(defaults reflect.Value) schema {
	s := schema{sections: map[string]bool{}}
	s.add(defaults, "", "")
	return s
}

func (s *schema) add(v reflect.Value, parent, optional string) {
	for key, field := range fields(v, parent) {
		switch typ := field.Type(); {
		case isSection(typ):
			if key != parent {
				s.sections[key] = false
			}
			s.add(field, key, optional)
		case typ.Kind() == reflect.Pointer && isSection(typ.Elem()):
			s.sections[key] = true
			section := reflect.New(typ.Elem())
			if !field.IsNil() {
				section = reflect.ValueOf(field.Interface())
			}
			field.SetZero()
			s.add(section.Elem(), key, key)
		default:
			s.settings = append(s.settings, setting{key, field, optional})
		}
	}
}

// fields returns the exported fields of a struct with their keys. The key of a squashed field, which is a struct, is
// the parent, so that the keys of its fields are in the section of v.
func fields(v reflect.Value, parent string) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			sf := v.Type().Field(i)
			name, options, _ := strings.Cut(sf.Tag.Get("mapstructure"), ",")
			key := join(parent, cmp.Or(name, sf.Name))
			if strings.Contains(options, "squash") {
				key = parent
			}
			if sf.IsExported() && name != "-" && !yield(key, v.Field(i)) {
				return
			}
		}
	}
}

func (s *schema) has(key string) bool {
	_, isSection := s.sections[key]
	return isSection || slices.ContainsFunc(s.settings, func(s setting) bool { return s.key == key })
}

func join(parent, name string) string {
	return strings.TrimPrefix(parent+"."+strings.ToLower(name), ".")
}

// isSection reports whether a struct is a section with keys of its own. A struct that can be read from a text, such as
// a time, is a single value.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() && !isText(t)
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
