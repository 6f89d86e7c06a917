// Package jsonschema checks JSON values against a JSON Schema.
//
// Reading order:
//   - schema.go: a compiled schema, and the check of a value
//   - limits.go: limits for compiling schemas and for the work of a check
package jsonschema

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	// the compiled schema; quick reports one error without its path, and full reports the paths of errors
	quick, full *jsonschema.Schema
	meter       *meter
	// number of instructions of all regular expressions
	instructions int
	large        error // set if the schema is too large to be compiled; then values are shown, but Check accepts none
}

const (
	base  = "schema:///main.json"
	quick = "schema:///quick.json"
)

// wrapper is a schema around the real one: with it the library returns an error without details. The details are a tree
// of all errors, which could be many times as large as the value.
var wrapper = map[string]any{"if": map[string]any{"$ref": base}, "else": false}

// Parse compiles a schema. references are the texts of the schemas to which it refers, by the names in the references.
// Parse loads nothing else, neither from files nor from addresses.
func Parse(schema string, references map[string]string) (*Schema, error) {
	c := census{}
	loads := loader{}
	for name, text := range references {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			continue // ignored here: compiling fails if the schema uses this reference
		}
		c.count(document, 0)
		loads[name] = document
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, errors.New("the JSON Schema is not JSON")
	}
	if c.count(document, 0); c.tooLarge() {
		return &Schema{large: errLarge}, nil
	}
	s := &Schema{meter: &meter{programs: maxProgram}}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.UseLoader(loads)
	compiler.UseRegexpEngine(s.meter.compile)
	if err := errors.Join(compiler.AddResource(base, document), compiler.AddResource(quick, wrapper)); err != nil {
		return nil, fmt.Errorf("compile the JSON Schema: %w", err)
	}
	if s.full, err = compiler.Compile(base); err == nil {
		s.quick, err = compiler.Compile(quick)
	}
	switch {
	case s.meter.programs < 0:
		return &Schema{large: errLarge}, nil
	case err != nil:
		return nil, fmt.Errorf("compile the JSON Schema: %w", err)
	}
	s.instructions = maxProgram - s.meter.programs
	s.meter.attach(reflect.ValueOf(s.quick), map[*jsonschema.Schema]bool{})
	return s, nil
}

// loader contains the texts of references by their names. Before the compiler calls the loader, it resolves a name
// against the address of the schema that refers to it.
type loader map[string]any

// Load implements the library's URLLoader.
func (l loader) Load(url string) (any, error) {
	for name, document := range l {
		if url == name || url == "schema:///"+strings.TrimPrefix(name, "/") {
			return document, nil
		}
	}
	return nil, errors.New("the schema has no such reference")
}

// Instructions returns the number of instructions of all regular expressions in the schema.
func (s *Schema) Instructions() int { return s.instructions }

// Check returns nil when a JSON value fits the schema. Otherwise it returns a *codec.Error, which names the first value
// that does not fit.
func (s *Schema) Check(text []byte) error {
	if s.large != nil {
		return &codec.Error{Path: "$", Reason: s.large.Error()}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return &codec.Error{Path: "$", Reason: "is not JSON"}
	}
	if c := (census{}); !c.countNumbers(v) {
		return &codec.Error{Path: "$", Reason: "has a number of more than 1000 digits"}
	}
	if err := s.meter.run(s.quick, v, minSteps+len(text)); err == nil || errors.Is(err, errWork) {
		return err
	}
	var invalid *jsonschema.ValidationError
	if err := s.meter.run(s.full, v, explainSteps); !errors.As(err, &invalid) {
		return &codec.Error{Path: "$", Reason: "does not fit the JSON Schema"}
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	path := s.path(v, invalid.InstanceLocation)
	return path.Errorf("does not fit the JSON Schema: %s", codec.Clip(strings.Join(invalid.ErrorKind.KeywordPath(), "/"), 200))
}

// path returns the path to a part of v. It contains only names from the schema's `properties`. Other names of members
// are data, like the keys of a map, and errors must not contain data.
func (s *Schema) path(v any, location []string) (path codec.Path) {
	here := applied{}
	here.add(s.full)
	for _, step := range location[:min(len(location), codec.MaxDepth)] {
		next, named := applied{}, false
		for at := range here {
			named = named || at.Properties[step] != nil
			next.add(at.Properties[step], at.PatternProperties, at.AdditionalProperties, at.UnevaluatedProperties,
				at.PrefixItems, at.Items2020, at.Items, at.AdditionalItems, at.UnevaluatedItems, at.Contains)
		}
		here = next
		switch of := v.(type) {
		case []any:
			i, _ := strconv.Atoi(step) // the library made the step of a number
			path.Element(i)
			v = of[i]
		case map[string]any:
			if v = of[step]; named {
				path.Member(step)
			} else {
				path.Entry()
			}
		}
	}
	return path
}

// applied are the schemas that may apply to one value.
type applied map[*jsonschema.Schema]bool

// add adds schemas, and the schemas that these apply to the same value.
func (a applied) add(parts ...any) {
	for _, part := range parts {
		switch v := reflect.ValueOf(part); v.Kind() {
		case reflect.Slice:
			for i := range v.Len() {
				a.add(v.Index(i).Interface())
			}
		case reflect.Map:
			for entries := v.MapRange(); entries.Next(); {
				a.add(entries.Value().Interface())
			}
		}
		if of, ok := part.(*jsonschema.DynamicRef); ok && of != nil {
			part = of.Ref
		}
		if of, ok := part.(*jsonschema.Schema); ok && of != nil && !a[of] {
			a[of] = true
			a.add(of.Ref, of.RecursiveRef, of.DynamicRef, of.Not, of.AllOf, of.AnyOf, of.OneOf, of.If, of.Then, of.Else, of.Dependencies, of.DependentSchemas)
		}
	}
}
