package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	//go:embed page.html
	pageTemplate string

	//go:embed page.css
	pageStyle string
)

// Page returns the API's document as an HTML page without scripts, and the Content-Security-Policy with which the page
// must be sent. theme is light, dark, or "" for the system's colours.
func Page(theme string) (page []byte, policy string, err error) {
	sum := sha256.Sum256([]byte(pageStyle))
	policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	page, err = render(Document, theme)
	return page, policy, err
}

func render(text []byte, theme string) ([]byte, error) {
	doc, err := Read(text)
	if err != nil {
		return nil, err
	}
	page, err := template.New("page").Funcs(template.FuncMap{"prose": prose}).Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Theme": theme, "Info": doc.Info, "Sections": doc.Sections(), "Schemas": doc.Schemas(),
		"Style": template.CSS(pageStyle), //nolint:gosec // the style is a file of this package
	})
	if err != nil {
		return nil, fmt.Errorf("show the API's document: %w", err)
	}
	return out.Bytes(), nil
}

// part is a piece of a description; text between backquotes is code.
type part struct {
	Text string
	Code bool
}

// prose splits a description into its parts. An empty line begins a paragraph. Other line breaks become spaces, because
// the lines of the document are shorter than those of the page.
func prose(text string) []part {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	text = strings.Join(paragraphs, "\n\n")
	var parts []part
	for i, piece := range strings.Split(text, "`") {
		if piece != "" {
			parts = append(parts, part{Text: piece, Code: i%2 == 1})
		}
	}
	return parts
}

// Read parses an OpenAPI document, as far as Pages needs it.
func Read(text []byte) (*Pages, error) {
	var doc Pages
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	return &doc, nil
}

// Pages holds the parts of an OpenAPI document from which web pages are made. The nodes keep the order of the document.
type Pages struct {
	Info struct {
		Title, Version, Summary, Description string
	}
	Tags []struct {
		Name, Description string
	}
	Paths      yaml.Node
	Components struct {
		Parameters, Responses, Schemas yaml.Node
		RequestBodies                  yaml.Node `yaml:"requestBodies"`
	}
}

// Section is a tag of the document with the operations that have this tag.
type Section struct {
	Name, Description string
	Operations        []Operation
}

// Operation is one method of one path.
type Operation struct {
	Method, Path, Summary, Description string
	ID                                 string
	Parameters                         []Field
	Body                               []Field
	Answers                            []Field
	Examples                           []Example
}

// Example is a request and its answer. Answer may be empty.
type Example struct {
	Request, Body, Answer string
	Status                string
}

// Field is a row of a table on the page: a parameter, a field of a body, or an answer.
type Field struct {
	Name, Where, Type, Description, Ref string
	Required                            bool
}

// Schema is a named schema and its fields.
type Schema struct {
	Name, Description, Type string
	Fields                  []Field
}

// Sections returns the operations by tag, in the order of the tags.
func (d *Pages) Sections() []Section {
	all := make([]Section, len(d.Tags))
	at := map[string]int{}
	for i, tag := range d.Tags {
		all[i] = Section{Name: tag.Name, Description: tag.Description}
		at[tag.Name] = i
	}
	for path, item := range pairs(&d.Paths) {
		shared := child(item, "parameters")
		for method, op := range pairs(item) {
			if method == "parameters" {
				continue
			}
			tag := at[child(op, "tags").Content[0].Value]
			all[tag].Operations = append(all[tag].Operations, d.operation(method, path, op, shared))
		}
	}
	return all
}

func (d *Pages) operation(method, path string, op, shared *yaml.Node) Operation {
	o := Operation{
		Method: strings.ToUpper(method), Path: path, ID: text(op, "operationId"),
		Summary: text(op, "summary"), Description: text(op, "description"),
	}
	for _, list := range []*yaml.Node{shared, child(op, "parameters")} {
		for _, p := range items(list) {
			p = d.resolve(p)
			o.Parameters = append(o.Parameters, Field{
				Name: text(p, "name"), Where: text(p, "in"), Type: typeOf(child(p, "schema")),
				Description: text(p, "description"), Required: text(p, "required") == "true",
			})
		}
	}
	o.Body = d.fields(jsonSchema(d.resolve(child(op, "requestBody"))))
	for status, answer := range pairs(child(op, "responses")) {
		answer = d.resolve(answer)
		sent := jsonSchema(answer)
		o.Answers = append(o.Answers, Field{
			Name: status, Description: text(answer, "description"), Type: typeOf(sent), Ref: refName(sent),
		})
	}
	for _, e := range items(child(op, "x-examples")) {
		o.Examples = append(o.Examples, Example{
			Request: text(e, "request"), Body: text(e, "body"), Status: text(e, "status"), Answer: text(e, "answer"),
		})
	}
	return o
}

// Schemas returns the schemas of the components.
func (d *Pages) Schemas() []Schema {
	var all []Schema
	for name, s := range pairs(&d.Components.Schemas) {
		all = append(all, Schema{Name: name, Description: text(s, "description"), Type: typeOf(s), Fields: d.fields(s)})
	}
	return all
}

// fields returns the properties of an object, including those of its allOf parts.
func (d *Pages) fields(s *yaml.Node) []Field {
	s = d.resolve(s)
	var all []Field
	for _, part := range items(child(s, "allOf")) {
		all = append(all, d.fields(part)...)
	}
	var required []string
	for _, r := range items(child(s, "required")) {
		required = append(required, r.Value)
	}
	for name, p := range pairs(child(s, "properties")) {
		ref := refName(p)
		if ref == "" {
			ref = refName(child(p, "items"))
		}
		all = append(all, Field{
			Name: name, Type: typeOf(p), Ref: ref, Description: text(p, "description"), Required: slices.Contains(required, name),
		})
	}
	return all
}

// resolve follows a reference into the document's components.
func (d *Pages) resolve(n *yaml.Node) *yaml.Node {
	ref := text(n, "$ref")
	kind, name, found := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
	if !found {
		return n
	}
	in := map[string]*yaml.Node{
		"parameters": &d.Components.Parameters, "responses": &d.Components.Responses,
		"schemas": &d.Components.Schemas, "requestBodies": &d.Components.RequestBodies,
	}[kind]
	return child(in, name)
}

func jsonSchema(n *yaml.Node) *yaml.Node {
	return child(child(child(n, "content"), "application/json"), "schema")
}

// typeOf describes the type of a schema in a few words.
func typeOf(s *yaml.Node) string {
	if s == nil {
		return ""
	}
	if name := refName(s); name != "" {
		return name
	}
	var words []string
	if t := child(s, "type"); t != nil {
		words = append(words, t.Value)
		for _, one := range t.Content {
			words = append(words, one.Value)
		}
	}
	if items := child(s, "items"); items != nil {
		words = append(words, "of", typeOf(items))
	}
	for _, option := range items(child(s, "oneOf")) {
		words = append(words, typeOf(option))
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	kind := strings.Join(words, " ")
	if values := items(child(s, "enum")); len(values) > 0 {
		kind = ""
		for i, v := range values {
			if i > 0 {
				kind += " | "
			}
			kind += v.Value
		}
	}
	for _, bound := range []struct{ key, sign string }{{"minimum", "≥"}, {"maximum", "≤"}, {"default", "default"}} {
		if value := text(s, bound.key); value != "" {
			kind += " " + bound.sign + " " + value
		}
	}
	return strings.TrimSpace(kind)
}

func refName(n *yaml.Node) string {
	return strings.TrimPrefix(text(n, "$ref"), "#/components/schemas/")
}

func child(n *yaml.Node, key string) *yaml.Node {
	for k, v := range pairs(n) {
		if k == key {
			return v
		}
	}
	return nil
}

func text(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil {
		return strings.TrimSpace(c.Value)
	}
	return ""
}

func items(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return n.Content
}

// pairs iterates over the keys and values of a YAML mapping, in the order of the document.
func pairs(n *yaml.Node) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}
