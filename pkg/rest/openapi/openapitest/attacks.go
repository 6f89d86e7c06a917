package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Attack is a request in which one value is invalid or unusual.
type Attack struct {
	Operation string // operationId of the operation
	Field     string // the parameter or body field with the value; "body" for the whole body
	Method    string
	Path      string // includes the query
	Header    http.Header
	Body      []byte
	Refused   bool // whether the server must refuse the request
}

// NoSuchID is a valid id that no object has. Attacks use it where a path needs an id.
const NoSuchID = "00000000-0000-7000-8000-00000000dead"

// texts are the unusual values that Attacks tries in parameters, and Random also in fields that take text.
var texts = []string{
	"", " ", "0", "-1", "1.5", "99999999999999999999", "1e400", "NaN", "true", "null", "[]", "{}", `"`, "'", "`", "\\", "%", "%%s%n", "*", "**",
	"'; DROP TABLE dlq.dlq_messages; --", "1 OR 1=1", "$1", "${jndi:ldap://x}", "{{7*7}}", "<script>alert(1)</script>",
	"\x00", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "\r\nX-Evil: 1", "\x1b[31m", "\u202egnp.exe", "\ufeff", "ﷺ", "😀", "ß", "İ",
	"../../etc/passwd", "^(a+)+$", "^", "$", "(", "$.", "$.a[", "$.a[0]", "$..a", "$['", "a=b=c", "=", "==", ";", "a;b", "&", "#",
	"0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "10000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "now()",
	"00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000}",
	strings.Repeat("a", 300), strings.Repeat("%", 2000), strings.Repeat("é", 5000), strings.Repeat(`"x" `, 2000),
}

// values are the unusual JSON values that attacks try in the fields of bodies.
var values = []string{
	"null", "true", "0", "-1", "1.5", "1e400", "99999999999999999999", `""`, `"a"`, `"\u0000"`, `"\ud800"`, "[]", "[null]", `[""]`, `[[]]`, "[1]", "{}",
	`{"a":1}`, `{"":null}`, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), `"` + strings.Repeat("a", 3000) + `"`,
	`"'; DROP TABLE dlq.dlq_messages; --"`, `"\u202e"`, `"\r\n"`,
}

// bodies replace whole bodies.
var bodies = []string{"", "null", "[]", "0", `""`, "{", "}", "{}{}", `{"a"}`, `{"":1}`, `{"reason":1}`, `{"reason":"a","reason":"b"}`, "\x00", "\xff", strings.Repeat("{", 5000)}

// Attacks returns requests made from the document: for every operation under /api/v1, each parameter, each field of the
// body and the body itself gets every unusual value, while everything else is correct. The order of the operations is
// always the same, that of the fields of a body is not.
func Attacks() ([]Attack, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	var all []Attack
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		if !strings.HasPrefix(path, "/api/v1") {
			continue
		}
		item := doc.Paths.Value(path)
		operations := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			t := target{path: path, method: method, operation: operations[method], shared: item.Parameters}
			all = append(all, t.attacks()...)
		}
	}
	return all, nil
}

// target is an operation that is attacked.
type target struct {
	path, method string
	operation    *openapi3.Operation
	shared       openapi3.Parameters
}

func (t target) attacks() []Attack {
	var all []Attack
	for _, p := range slices.Concat(t.shared, t.operation.Parameters) {
		for _, text := range slices.Concat(texts, limits(p.Value.Schema.Value)) {
			all = append(all, t.with(p.Value, text))
		}
		if p.Value.In == openapi3.ParameterInQuery && !p.Value.Schema.Value.Type.Includes("array") {
			all = append(all, t.twice(p.Value))
		}
	}
	body := t.bodySchema()
	if body == nil {
		return all
	}
	for _, text := range bodies {
		all = append(all, t.body("body", []byte(text)))
	}
	sound := sample(body)
	for name, field := range fieldsOf(body) {
		for _, value := range slices.Concat(values, quoted(limits(field.schema)), items(field.schema)) {
			all = append(all, t.body(name, replaced(sound, field.path, value)))
		}
	}
	return all
}

// limits returns texts for a schema: values at the limits of the schema and just beyond them, the words of its enum,
// and misspelt forms of these words.
func limits(s *openapi3.Schema) (all []string) {
	if s.Items != nil {
		return limits(s.Items.Value)
	}
	for _, edge := range edges(s.Min, s.Max) {
		all = append(all, strconv.FormatFloat(edge, 'f', -1, 64))
	}
	if s.MaxLength != nil {
		most := int(*s.MaxLength) //nolint:gosec // the document's lengths are small
		all = append(all, strings.Repeat("x", most), strings.Repeat("x", most+1), strings.Repeat("é", most+1))
	}
	for _, word := range s.Enum {
		all = append(all, fmt.Sprint(word), strings.ToLower(fmt.Sprint(word))+" ", strings.ToUpper(fmt.Sprint(word))+"S")
	}
	return all
}

// quoted returns each text as a JSON string. A text that is itself valid JSON, such as a number, is also returned
// unquoted.
func quoted(all []string) (values []string) {
	for _, text := range all {
		if json.Valid([]byte(text)) {
			values = append(values, text)
		}
		values = append(values, string(encode(text)))
	}
	return values
}

// items returns lists for a schema. Each has one object in which one field has a value at its limits, or is one object
// too long.
func items(s *openapi3.Schema) (lists []string) {
	if s.Items == nil {
		return nil
	}
	item := s.Items.Value
	for name, field := range item.Properties {
		for _, value := range quoted(limits(field.Value)) {
			lists = append(lists, "["+string(replaced(sample(item), []string{name}, value))+"]")
		}
	}
	if s.MaxItems != nil {
		one := string(encode(some("", item)))
		if item.Properties != nil {
			one = string(encoded(sample(item)))
		}
		lists = append(lists, "["+strings.Repeat(one+",", int(*s.MaxItems))+one+"]") //nolint:gosec // the document's lists are short
	}
	return lists
}

// with returns a request of the operation in which the parameter p has the given text.
func (t target) with(p *openapi3.Parameter, text string) Attack {
	a := Attack{Operation: t.operation.OperationID, Field: p.Name, Method: t.method, Header: http.Header{}, Path: t.filled(p, text)}
	switch p.In {
	case openapi3.ParameterInQuery:
		a.Path += "?" + url.QueryEscape(p.Name) + "=" + url.QueryEscape(text)
	case openapi3.ParameterInHeader:
		if !strings.ContainsAny(text, "\r\n\x00") { // HTTP clients cannot send a header with these characters
			a.Header.Set(p.Name, text)
		}
	}
	if body := t.bodySchema(); body != nil {
		a.Body = encoded(sample(body))
	}
	return a
}

// twice returns a request in which a parameter is given twice. The server must refuse it, because it does not say which
// value counts.
func (t target) twice(p *openapi3.Parameter) Attack {
	value := fmt.Sprint(some(p.Name, p.Schema.Value))
	a := t.with(p, value)
	a.Path += "&" + url.QueryEscape(p.Name) + "=" + url.QueryEscape(value)
	a.Refused = true
	return a
}

// filled returns the path of the operation with a value for each of its parameters. If the parameter attacked is one of
// them, its value is text.
func (t target) filled(attacked *openapi3.Parameter, text string) string {
	path := t.path
	for _, p := range t.shared {
		value := NoSuchID
		if p.Value.Name == "topic" {
			value = "no.such.topic"
		}
		if attacked != nil && p.Value.Name == attacked.Name && attacked.In == openapi3.ParameterInPath {
			value = text
		}
		path = strings.Replace(path, "{"+p.Value.Name+"}", url.PathEscape(value), 1)
	}
	return path
}

func (t target) body(field string, body []byte) Attack {
	return Attack{
		Operation: t.operation.OperationID, Field: field, Method: t.method, Path: t.filled(nil, ""),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}
}

func (t target) bodySchema() *openapi3.Schema {
	if t.operation.RequestBody == nil {
		return nil
	}
	media := t.operation.RequestBody.Value.Content.Get("application/json")
	if media == nil || media.Schema == nil {
		return nil
	}
	return media.Schema.Value
}

// sample returns a body with the fields that the schema requires.
func sample(s *openapi3.Schema) map[string]any {
	body := map[string]any{}
	for _, name := range s.Required {
		body[name] = some(name, s.Properties[name].Value)
	}
	return body
}

func some(name string, s *openapi3.Schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 1
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("array"):
		return []any{}
	case name == "original_topic":
		return "orders"
	default:
		return "a"
	}
}

// bodyField is a field of a body, or of an object in it.
type bodyField struct {
	path   []string
	schema *openapi3.Schema
}

// fieldsOf returns the fields of an object, and of the objects that are its fields, with the names that errors use.
func fieldsOf(s *openapi3.Schema, above ...string) map[string]bodyField {
	all := map[string]bodyField{}
	for name, property := range s.Properties {
		path := append(slices.Clone(above), name)
		all[strings.Join(path, ".")] = bodyField{path, property.Value}
		if property.Value.Type.Is("object") && len(above) == 0 {
			maps.Copy(all, fieldsOf(property.Value, name))
		}
	}
	return all
}

// replaced returns the valid body sound with one field replaced: path names the field, and value is its JSON.
func replaced(sound map[string]any, path []string, value string) []byte {
	body := maps.Clone(sound)
	if len(path) == 1 {
		body[path[0]] = json.RawMessage(value)
		return encoded(body)
	}
	body[path[0]] = map[string]any{path[1]: json.RawMessage(value)}
	return encoded(body)
}

// encoded writes a body as JSON. Unlike encoding/json, it accepts a json.RawMessage that is not valid JSON.
func encoded(body map[string]any) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(body)) {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", name)
		switch v := body[name].(type) {
		case json.RawMessage:
			out.Write(v)
		case map[string]any:
			out.Write(encoded(v))
		default:
			text, _ := json.Marshal(v) // plain values
			out.Write(text)
		}
	}
	out.WriteByte('}')
	return out.Bytes()
}

// Judge returns what is wrong with the answer to an attack, or nil. An answer is wrong if it is a 5xx, if it does not
// match the document, if it accepts an attack that must be refused, or if it is a 400 that names no part of the
// request.
func (a Attack) Judge(status int, header http.Header, answer []byte) error {
	if status >= http.StatusInternalServerError {
		return fmt.Errorf("%s: %s: %s %.200q with %.200q = %d %.300s", a.Operation, a.Field, a.Method, a.Path, a.Body, status, answer)
	}
	if err := Check(Exchange{
		Method: a.Method, Path: a.Path, Header: a.Header, Body: a.Body, Status: status, AnswerHeader: header, Answer: answer,
	}); err != nil {
		return fmt.Errorf("%s: %s: body %.500q: %w", a.Operation, a.Field, a.Body, err)
	}
	if a.Refused && status < http.StatusBadRequest {
		return fmt.Errorf("%s: %s: %s %.200q = %d, want it refused", a.Operation, a.Field, a.Method, a.Path, status)
	}
	if status != http.StatusBadRequest {
		return nil
	}
	var said struct {
		Error struct {
			Message string
			Details []struct{ Field string }
		}
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return fmt.Errorf("%s: %s: %w", a.Operation, a.Field, err)
	}
	for _, d := range said.Error.Details {
		if d.Field != "" {
			return nil
		}
	}
	if strings.HasPrefix(said.Error.Message, "invalid ") { // such an error is about an id in the path, which it need not name
		return nil
	}
	return fmt.Errorf("%s: %s: %s %.200q with %.200q = 400 without the name of what is wrong: %s", a.Operation, a.Field, a.Method, a.Path, a.Body, answer)
}
