package openapitest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// Random returns requests to the document's operations under /api/v1: with valid values, values at the limits,
// invalid values, repeats, and unknown fields. Paths use the given ids, and ids that no object has.
func Random(ids ...string) (*rapid.Generator[Attack], error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	var all []target
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		operations := doc.Paths.Value(path).Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			if strings.HasPrefix(path, "/api/v1") {
				all = append(all, target{path: path, method: method, operation: operations[method], shared: doc.Paths.Value(path).Parameters})
			}
		}
	}
	return rapid.Custom(func(t *rapid.T) Attack { return draw{t, ids}.request(rapid.SampledFrom(all).Draw(t, "operation")) }), nil
}

// draw draws random values that fit schemas, or nearly fit them.
type draw struct {
	*rapid.T
	ids []string
}

func (d draw) request(t target) Attack {
	a := Attack{Operation: t.operation.OperationID, Field: "random", Method: t.method, Header: http.Header{}, Path: t.path}
	query := url.Values{}
	for _, p := range slices.Concat(t.shared, t.operation.Parameters) {
		name := p.Value.Name
		switch p.Value.In {
		case openapi3.ParameterInPath:
			a.Path = strings.Replace(a.Path, "{"+name+"}", url.PathEscape(d.inPath(p.Value)), 1)
		case openapi3.ParameterInQuery:
			for range d.oneOf("repeats of "+name, 0, 0, 0, 0, 1, 1, 2) {
				query.Add(name, d.parameter(p.Value.Schema.Value, name))
			}
		case openapi3.ParameterInHeader:
			if text := d.parameter(p.Value.Schema.Value, name); d.seldom(name) && !strings.ContainsAny(text, "\r\n\x00") {
				a.Header.Set(name, text)
			}
		}
	}
	if len(query) > 0 {
		a.Path += "?" + query.Encode()
	}
	if schema := t.bodySchema(); schema != nil {
		a.Body = d.json(schema, "body", 0)
		a.Header.Set("Content-Type", "application/json")
	}
	return a
}

func (d draw) oneOf(label string, n ...int) int { return rapid.SampledFrom(n).Draw(d.T, label) }

func (d draw) seldom(label string) bool { return d.oneOf("seldom "+label, 0, 0, 0, 0, 0, 1) == 1 }

func (d draw) inPath(p *openapi3.Parameter) string {
	if p.Schema.Value.Format == "uuid" && !d.seldom(p.Name) {
		return rapid.SampledFrom(append(d.ids, NoSuchID)).Draw(d.T, p.Name)
	}
	return "t" + d.text(p.Schema.Value, p.Name) // is never empty, because a path with an empty segment belongs to another route
}

// parameter draws a value for a parameter of the query.
func (d draw) parameter(s *openapi3.Schema, label string) string {
	if s.Items != nil {
		s = s.Items.Value
	}
	var text string
	if value := d.json(s, label, 0); json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return text
	} else {
		return string(value)
	}
}

// json returns a value for a body.
func (d draw) json(s *openapi3.Schema, label string, depth int) []byte {
	if d.seldom(label) || depth > 4 {
		return []byte(rapid.SampledFrom(slices.Concat(values[:len(values)-9], []string{"null", `""`})).Draw(d.T, label))
	}
	switch {
	case len(s.OneOf) > 0:
		return d.json(s.OneOf[d.below(len(s.OneOf), label)].Value, label, depth)
	case len(s.Enum) > 0:
		return encode(s.Enum[d.below(len(s.Enum), label)])
	case s.Type.Includes("object"):
		return d.object(s, label, depth)
	case s.Type.Includes("array") && s.Items != nil:
		return d.array(s, label, depth)
	case s.Type.Includes("boolean") && len(*s.Type) == 1:
		return encode(rapid.Bool().Draw(d.T, label))
	case s.Type.Includes("integer") && len(*s.Type) == 1:
		return encode(d.integer(s, label))
	case s.Type.Includes("number") && len(*s.Type) == 1:
		return encode(d.number(s, label))
	case s.Type.Includes("string"):
		return encode(d.text(s, label))
	default:
		return []byte(rapid.SampledFrom(values).Draw(d.T, label))
	}
}

func (d draw) below(n int, label string) int { return rapid.IntRange(0, n-1).Draw(d.T, label) }

func (d draw) object(s *openapi3.Schema, label string, depth int) []byte {
	var out []byte
	add := func(name string, value []byte) {
		if out = append(out, ','); len(out) == 1 {
			out[0] = '{'
		}
		out = append(append(append(out, encode(name)...), ':'), value...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, name)
		if required && !d.seldom(name+" missing") || !required && d.oneOf("has "+name, 0, 0, 1) == 1 {
			add(name, d.json(s.Properties[name].Value, label+"."+name, depth+1))
		}
		if d.oneOf("repeats "+name, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1) == 1 {
			add(name, d.json(s.Properties[name].Value, label+"."+name, depth+1))
		}
	}
	if len(out) == 0 {
		return []byte("{}")
	}
	return append(out, '}')
}

func (d draw) array(s *openapi3.Schema, label string, depth int) []byte {
	out := []byte{'['}
	for i := range d.oneOf(label+" length", 0, 1, 1, 2, 2, 5) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, d.json(s.Items.Value, label, depth+1)...)
	}
	return append(out, ']')
}

// edges returns numbers at the limits least and most, and just beside them.
func edges(least, most *float64) (all []float64) {
	for _, edge := range []*float64{least, most} {
		if edge != nil {
			all = append(all, *edge-1, *edge, *edge+1)
		}
	}
	return all
}

func (d draw) integer(s *openapi3.Schema, label string) int64 {
	all := []int64{0, 1, 2, 10, math.MaxInt32 + 1, math.MinInt64, math.MaxInt64}
	for _, edge := range edges(s.Min, s.Max) {
		all = append(all, int64(edge))
	}
	return rapid.SampledFrom(all).Draw(d.T, label)
}

func (d draw) number(s *openapi3.Schema, label string) float64 {
	return rapid.SampledFrom(append(edges(s.Min, s.Max), 0, 0.5, -0.5, 1e-300, 1e300, math.SmallestNonzeroFloat64)).Draw(d.T, label)
}

func (d draw) text(s *openapi3.Schema, label string) string {
	switch {
	case s.Format == "uuid":
		return rapid.SampledFrom(append(d.ids, NoSuchID, strings.ToUpper(NoSuchID))).Draw(d.T, label)
	case s.Format == "date-time":
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(d.T, label), 0).UTC()
		return at.Format(rapid.SampledFrom([]string{time.RFC3339, "2006-01-02T15:04:05.000000000-07:00", time.DateOnly}).Draw(d.T, label))
	case strings.HasSuffix(label, "base64"):
		return base64.StdEncoding.EncodeToString(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(d.T, label))
	}
	if s.MaxLength != nil && d.seldom(label+" long") {
		return strings.Repeat("x", int(*s.MaxLength)+d.oneOf(label, -1, 0, 1)) //nolint:gosec // lengths are small
	}
	if common := likely[label[strings.LastIndex(label, ".")+1:]]; common != nil && !d.seldom(label+" unlikely") {
		return rapid.SampledFrom(common).Draw(d.T, label)
	}
	if d.oneOf(label+" bad", 0, 0, 1) == 1 {
		return rapid.SampledFrom(texts).Draw(d.T, label)
	}
	return rapid.String().Draw(d.T, label)
}

// likely lists values by the name of a parameter or field. They have a meaning for the program that the schemas do not
// describe.
var likely = map[string][]string{
	"topic":          {"orders.events.v1", "orders.*", "*", "orders.dlq.v1"},
	"original_topic": {"orders.events.v1", "a"},
	"target_topic":   {"orders.events.v1", "a"},
	"canary_wait":    {"1s", "1h", "60s", "-1s", "1", "1h1ns"},
	"path":           {"/a", "/a/0", "/-", "", "/~1", "/~2", "a"},
	"from":           {"/a", ""},
	"payload":        {"$.order_id=123", "$.a", "$.a[*].b = null", "$"},
	"header":         {"a", "a=b", "=b", "="},
	"q":              {"failed", `"processing failed" order`, "ab", `"`},
	"pattern":        {"*.dlq.v1", `^(.+)\.dlq\.v1$`, `^(a+)+$`, "^("},
	"original":       {"$1.events.v1", "orders", "$2", "$"},
	"cursor":         {"AAAA", "ZpV_loMwcLoAAAAAAAAABA"},
	"link":           {"https://a.example/b", "javascript:alert(1)", "http://"},
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return []byte("null") // JSON cannot express infinity and NaN
	}
	return text
}
