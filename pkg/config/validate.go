package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

type validator interface{ Validate() error }

// validate calls the function section for every section, and then Validate of the whole struct. A struct that embeds a
// section inherits the section's Validate, so the same problem may be found twice; it is returned once.
func validate(v reflect.Value) []error {
	problems := inner("", v)
	for _, err := range flatten(ask(v)) {
		known := func(e error) bool { return e.Error() == err.Error() }
		if !slices.ContainsFunc(problems, known) {
			problems = append(problems, err)
		}
	}
	return problems
}

// section validates one section. When the section has no method Validate, section validates the section's parts;
// otherwise that method must validate them.
func section(key string, v reflect.Value) []error {
	if _, ok := asValidator(v); !ok {
		return inner(key, v)
	}
	var problems []error
	for _, err := range flatten(ask(v)) {
		if key != "" && !strings.HasPrefix(err.Error(), key+".") {
			err = fmt.Errorf("%s: %w", key, err)
		}
		problems = append(problems, err)
	}
	return problems
}

func inner(parent string, v reflect.Value) []error {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || !isSection(v.Type()) {
		return nil
	}
	var problems []error
	for key, field := range fields(v, parent) {
		problems = append(problems, section(key, field)...)
	}
	return problems
}

func ask(v reflect.Value) error {
	if c, ok := asValidator(v); ok {
		return c.Validate()
	}
	return nil
}

// asValidator returns the value, or its address, as a validator if it has the method Validate. It returns false for a
// nil pointer.
func asValidator(v reflect.Value) (validator, bool) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	if c, ok := v.Interface().(validator); ok {
		return c, true
	}
	if v.CanAddr() {
		c, ok := v.Addr().Interface().(validator)
		return c, ok
	}
	return nil, false
}

// flatten returns the single errors that errors.Join combined, so that each can be reported with its key.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || strings.Count(err.Error(), "\n") == 0 {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

func prefixed(file string, errs []error) []error {
	out := make([]error, len(errs))
	for i, err := range errs {
		out[i] = fmt.Errorf("%s: %w", file, err)
	}
	return out
}

// problemList is an error that prints all problems on one line, because an error at start-up must be one line.
type problemList []error

func (p problemList) Error() string {
	texts := make([]string, len(p))
	for i, err := range p {
		texts[i] = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return strings.Join(texts, "; ")
}

// Unwrap makes every problem visible to errors.Is and errors.As.
func (p problemList) Unwrap() []error { return p }

func oneLine(lists ...[]error) error {
	if all := slices.Concat(lists...); len(all) > 0 {
		return problemList(all)
	}
	return nil
}
