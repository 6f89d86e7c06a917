// Apidoc generates docs/api.md from the OpenAPI document of the API.
//
//	go run ./cmd/internal/apidoc docs/api.md
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

//go:embed api.md.tmpl
var layout string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments, want the page to write", len(args))
	}
	text, err := page(openapi.Document)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], text, 0o644) //nolint:gosec // a page that everybody may read
}

// page returns the Markdown page for an OpenAPI document.
func page(document []byte) ([]byte, error) {
	doc, err := openapi.Read(document)
	if err != nil {
		return nil, err
	}
	funcs := template.FuncMap{
		"cell": cell, "title": title, "anchor": anchor,
		"language": language, "answered": answered, "linked": linked,
	}
	layout, err := template.New("page").Funcs(funcs).Parse(layout)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = layout.Execute(&out, doc)
	return out.Bytes(), err
}

// anchor returns the name by which links refer to a heading.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		}
		return -1
	}, strings.ToLower(heading))
}

// cell returns text on one line and with escapes, so that it can be the cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func title(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func language(answer string) string {
	if strings.HasPrefix(answer, "{") && strings.Contains(answer, "\n") || strings.HasPrefix(answer, `{"status"`) {
		return "json"
	}
	return "text"
}

// linked returns the type of a field as Markdown, with a link to the schema of the type if there is one.
func linked(f openapi.Field) string {
	if f.Ref == "" {
		return cell(f.Type)
	}
	return "[" + cell(f.Type) + "](#schema-" + strings.ToLower(f.Ref) + ")"
}

// answered returns the description and the type of the answer that an operation declares for the status; "" if it
// declares none.
func answered(operation openapi.Operation, status string) string {
	for _, answer := range operation.Answers {
		if answer.Name == status {
			return strings.TrimSuffix(strings.TrimSpace(answer.Description+" "+linked(answer)), " ")
		}
	}
	return ""
}
