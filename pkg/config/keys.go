package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
)

// setting is one key that takes a value.
type setting struct {
	typ       reflect.Type
	byDefault reflect.Value // invalid when there is none
}

// keyTable is everything that a configuration struct can hold.
type keyTable struct {
	settings map[string]setting
	sections map[string]bool // key of the section -> it is optional
}

// presence holds the keys of the sections that the file or the environment names.
type presence map[string]bool

func (p presence) markParents(key string) {
	for i := strings.LastIndexByte(key, '.'); i > 0; i = strings.LastIndexByte(key[:i], '.') {
		p[key[:i]] = true
	}
}

// reachable says that no optional section on the way to the key is absent.
func (t keyTable) reachable(key string, present presence) bool {
	for i := strings.LastIndexByte(key, '.'); i > 0; i = strings.LastIndexByte(key[:i], '.') {
		if t.sections[key[:i]] && !present[key[:i]] {
			return false
		}
	}
	return true
}

// describe lists the keys of a struct and their defaults.
func describe(defaults reflect.Value) (keyTable, error) {
	if defaults.Kind() != reflect.Struct {
		return keyTable{}, fmt.Errorf("config: cannot load into %s: a struct is needed", defaults.Type())
	}
	t := keyTable{settings: map[string]setting{}, sections: map[string]bool{}}
	t.add(defaults, "")
	return t, nil
}

func (t keyTable) add(v reflect.Value, parent string) {
	eachField(v, parent, func(key string, field reflect.Value) {
		switch typ := field.Type(); {
		case isSection(typ):
			t.sections[key] = false
			t.add(field, key)
		case isOptionalSection(typ):
			t.sections[key] = true
			if field.IsNil() {
				field = reflect.New(typ.Elem())
			}
			t.add(field.Elem(), key)
		default:
			t.settings[key] = setting{typ: typ, byDefault: defaultOf(field)}
		}
	})
}

// defaultOf leaves out what viper would take for a value though it is none.
func defaultOf(field reflect.Value) reflect.Value {
	switch field.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		if field.IsNil() {
			return reflect.Value{}
		}
		if field.Kind() == reflect.Pointer {
			return field.Elem()
		}
	}
	return field
}

// eachField calls f for the settable fields of a struct with their keys.
// Squashed structs are walked as if their fields stood in the outer one.
func eachField(v reflect.Value, parent string, f func(key string, field reflect.Value)) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, rest, _ := strings.Cut(sf.Tag.Get("mapstructure"), ",")
		switch {
		case !sf.IsExported() || name == "-":
		case strings.Contains(rest, "squash"):
			eachField(v.Field(i), parent, f)
		default:
			f(join(parent, cmp.Or(name, sf.Name)), v.Field(i))
		}
	}
}

func join(parent, name string) string {
	name = strings.ToLower(name)
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// isSection tells structs with keys of their own from structs that are values.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() && !isText(t)
}

func isOptionalSection(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && isSection(t.Elem())
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// prepare makes a shallow copy of the defaults safe to decode into: optional
// sections become copies of their own or nil, and lists and maps, which a
// decoder would write into, are taken out (they come back as viper's defaults).
func prepare(v reflect.Value, parent string, present presence) {
	eachField(v, parent, func(key string, field reflect.Value) {
		switch typ := field.Type(); {
		case isSection(typ):
			prepare(field, key, present)
		case isOptionalSection(typ):
			fresh := reflect.Zero(typ)
			if present[key] {
				fresh = reflect.New(typ.Elem())
				if !field.IsNil() {
					fresh.Elem().Set(field.Elem())
				}
				prepare(fresh.Elem(), key, present)
			}
			field.Set(fresh)
		case typ.Kind() == reflect.Slice, typ.Kind() == reflect.Map, typ.Kind() == reflect.Pointer:
			field.SetZero()
		}
	})
}

// strictTypes turns off viper's habit of converting between text, numbers and booleans.
func strictTypes(c *mapstructure.DecoderConfig) {
	c.WeaklyTypedInput = false
	c.DecodeHook = nil
}
