package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

type validator interface{ Validate() error }

// validate asks every section, then the whole. A struct that embeds a section
// has its Validate as well, so the same complaint is kept once.
func validate(v reflect.Value) []error {
	var problems []error
	seen := map[string]bool{}
	keep := func(errs []error) {
		for _, err := range errs {
			if !seen[err.Error()] {
				seen[err.Error()] = true
				problems = append(problems, err)
			}
		}
	}
	eachField(v, "", func(key string, field reflect.Value) {
		for _, err := range flatten(ask(field)) {
			if !strings.HasPrefix(err.Error(), key+".") {
				err = fmt.Errorf("%s: %w", key, err)
			}
			keep([]error{err})
		}
	})
	keep(flatten(ask(v)))
	return problems
}

func ask(v reflect.Value) error {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	if c, ok := v.Interface().(validator); ok {
		return c.Validate()
	}
	if v.CanAddr() {
		if c, ok := v.Addr().Interface().(validator); ok {
			return c.Validate()
		}
	}
	return nil
}

// flatten takes joined errors apart, so that each can be named on its own.
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

// problemList prints on one line, because a start-up error is one line.
type problemList []error

func (p problemList) Error() string {
	texts := make([]string, len(p))
	for i, err := range p {
		texts[i] = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return strings.Join(texts, "; ")
}

// Unwrap gives every problem to errors.Is and errors.As.
func (p problemList) Unwrap() []error { return p }

func oneLine(lists ...[]error) error {
	if all := slices.Concat(lists...); len(all) > 0 {
		return problemList(all)
	}
	return nil
}
