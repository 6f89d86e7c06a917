// Package jsonschema checks JSON values against a JSON Schema.
package jsonschema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

const base = "schema:///main.json"

// Parse compiles a schema. References are the texts of the schemas that it refers to, by the names that it uses for
// them. Nothing else is loaded: neither files nor addresses.
func Parse(schema string, references map[string]string) (*Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.UseLoader(loader(references))
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, errors.New("the JSON Schema is not JSON")
	}
	if err := compiler.AddResource(base, document); err != nil {
		return nil, fmt.Errorf("compile the JSON Schema: %w", err)
	}
	compiled, err := compiler.Compile(base)
	if err != nil {
		return nil, fmt.Errorf("compile the JSON Schema: %w", err)
	}
	return &Schema{compiled}, nil
}

// loader finds references by their name. The compiler asks for a name after resolving it against the address of the
// schema.
type loader map[string]string

// Load implements the library's URLLoader.
func (l loader) Load(url string) (any, error) {
	for name, text := range l {
		if url == name || url == "schema:///"+strings.TrimPrefix(name, "/") {
			return jsonschema.UnmarshalJSON(strings.NewReader(text))
		}
	}
	return nil, errors.New("the schema has no such reference")
}

// Check reports whether a JSON value fits. The error is *codec.Error, which names the first value that does not.
func (s *Schema) Check(text []byte) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return &codec.Error{Path: "$", Reason: "is not JSON"}
	}
	var invalid *jsonschema.ValidationError
	switch err := s.compiled.Validate(v); {
	case err == nil:
		return nil
	case !errors.As(err, &invalid):
		return &codec.Error{Path: "$", Reason: "does not fit the JSON Schema"}
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	var path codec.Path
	for _, step := range invalid.InstanceLocation {
		if i, err := strconv.Atoi(step); err == nil {
			path.Element(i)
		} else {
			path.Member(step)
		}
	}
	return path.Errorf("does not fit the JSON Schema: %s", strings.Join(invalid.ErrorKind.KeywordPath(), "/"))
}
