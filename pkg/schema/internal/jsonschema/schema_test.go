package jsonschema

import (
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The keys of a map are data: an error that named them would show what a mask of the map hides.
func TestErrorsNameOnlyWhatTheSchemaNames(t *testing.T) {
	t.Parallel()
	const number = `{"type":"integer"}`
	for name, test := range map[string]struct{ schema, value, want string }{
		"Property":            {`{"properties":{"a":{"properties":{"b":` + number + `}}}}`, `{"a":{"b":"KEY"}}`, "$.a.b: "},
		"Element":             {`{"properties":{"a":{"items":{"properties":{"b":` + number + `}}}}}`, `{"a":[{"b":1},{"b":"KEY"}]}`, "$.a[1].b: "},
		"AnyMember":           {`{"properties":{"a":{"additionalProperties":` + number + `}}}`, `{"a":{"KEY":"x"}}`, "$.a[*]: "},
		"Number":              {`{"properties":{"a":{"additionalProperties":` + number + `}}}`, `{"a":{"4555":"x"}}`, "$.a[*]: "},
		"Pattern":             {`{"patternProperties":{"^K":{"items":` + number + `}}}`, `{"KEY":["x"]}`, "$[*][0]: "},
		"BelowAKey":           {`{"additionalProperties":{"properties":{"b":` + number + `}}}`, `{"KEY":{"b":"x"}}`, "$[*].b: "},
		"NameOfAnotherPlace":  {`{"properties":{"KEY":{},"a":{"additionalProperties":` + number + `}}}`, `{"a":{"KEY":"x"}}`, "$.a[*]: "},
		"NameOfAnotherLevel":  {`{"additionalProperties":{"properties":{"KEY":{}},"additionalProperties":` + number + `},"properties":{"x":{}}}`, `{"KEY":{"y":"x"}}`, "$[*][*]: "},
		"Reference":           {`{"$ref":"#/definitions/m","definitions":{"m":{"allOf":[{"properties":{"a":{"$ref":"#/definitions/n"}}}]},"n":{"additionalProperties":` + number + `}}}`, `{"a":{"KEY":"x"}}`, "$.a[*]: "},
		"Union":               {`{"properties":{"a":{"oneOf":[{"additionalProperties":` + number + `},{"type":"null"}]}}}`, `{"a":{"KEY":"x"}}`, "$.a[*]: "},
		"Unevaluated":         {`{"$schema":"https://json-schema.org/draft/2020-12/schema","unevaluatedProperties":` + number + `}`, `{"KEY":"x"}`, "$[*]: "},
		"Names":               {`{"propertyNames":{"maxLength":2}}`, `{"KEY":"x"}`, "$"},
		"Recursion":           {`{"properties":{"a":{"$ref":"#"},"n":` + number + `}}`, `{"a":{"a":{"n":"KEY"}}}`, "$.a.a.n: "},
		"ReferenceOfADynamic": {`{"$schema":"https://json-schema.org/draft/2020-12/schema","$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x"},"n":` + number + `}}`, `{"a":{"n":"KEY"}}`, "$.a.n: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check.Must(Parse(test.schema, nil))(t).Check([]byte(test.value))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "KEY") {
				t.Errorf("got %v, want an error at %s that names no key", err, test.want)
			}
		})
	}
}
