package openapitest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

// Document returns the API's document, validated. It must not be modified.
func Document() (*openapi3.T, error) {
	d, err := load()
	return d.doc, err
}

type document struct {
	doc   *openapi3.T
	paths []string // paths of the document, those with fewer parameters first
}

var load = sync.OnceValues(func() (document, error) {
	textBodies()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document)
	if err != nil {
		return document{}, fmt.Errorf("read the API's document: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return document{}, fmt.Errorf("the API's document: %w", err)
	}
	if err := doc.WalkSchemas(simplify); err != nil {
		return document{}, fmt.Errorf("the API's document: %w", err)
	}
	// For a document of OpenAPI 3.1, the library compiles the schema again for every value, which took most of the time
	// of the tests. Its validator for OpenAPI 3.0 compiles nothing, and checks all keywords that simplify leaves.
	doc.OpenAPI = "3.0.4"
	paths := doc.Paths.Keys()
	slices.SortFunc(paths, func(a, b string) int {
		if d := strings.Count(a, "{") - strings.Count(b, "{"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return document{doc, paths}, nil
})

// simplify writes a schema with the keywords that the library's validator for OpenAPI 3.0 checks, and returns an error
// if that is not possible. That validator accepts an array of types.
func simplify(_ string, s *openapi3.SchemaRef) error {
	v := s.Value
	if v == nil {
		return nil
	}
	if v.Const != nil {
		v.Enum = []any{v.Const}
	}
	if v.Type == nil && len(v.OneOf) == 0 && len(v.AllOf) == 0 { // without a type, that validator refuses null
		v.Type = &openapi3.Types{"null", "boolean", "integer", "number", "string", "array", "object"}
	}
	if len(v.PrefixItems)+len(v.PatternProperties)+len(v.DependentSchemas)+len(v.DependentRequired) > 0 || v.Contains != nil ||
		v.PropertyNames != nil || v.If != nil || v.UnevaluatedItems != (openapi3.BoolSchema{}) || v.UnevaluatedProperties != (openapi3.BoolSchema{}) {
		return fmt.Errorf("a schema has a keyword that this package does not check: %+v", v)
	}
	return nil
}

// find returns the operation of a request; nil when the document has none. If two paths of the document match, find
// takes the path that has an operation for the request's method.
func (d document) find(req *http.Request) (*routers.Route, map[string]string) {
	for _, path := range d.paths {
		item := d.doc.Paths.Value(path)
		operation := item.GetOperation(req.Method)
		if operation == nil {
			continue
		}
		if params, fits := fit(path, req.URL.EscapedPath()); fits {
			return &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: req.Method, Operation: operation}, params
		}
	}
	return nil, nil
}

// fit compares the encoded path of a request with a path of the document, segment by segment. It returns the values of
// the path's parameters, and whether the paths match.
func fit(path, encoded string) (map[string]string, bool) {
	want, have := strings.Split(path, "/"), strings.Split(encoded, "/")
	if len(want) != len(have) {
		return nil, false
	}
	params := map[string]string{}
	for i, segment := range want {
		text, err := url.PathUnescape(have[i])
		switch name, isParam := strings.CutPrefix(segment, "{"); {
		case isParam && err == nil && text != "":
			params[strings.TrimSuffix(name, "}")] = text
		case segment != have[i]:
			return nil, false
		}
	}
	return params, true
}
