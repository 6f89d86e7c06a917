package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

func TestAPIPageIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := page(openapi.Document)
	check.NoError(t, err)
	got, err := os.ReadFile("../../../docs/api.md")
	check.NoError(t, err)
	if string(got) != string(want) {
		t.Error("docs/api.md is not that of the OpenAPI document: run make generate")
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	got, err := page([]byte(`
info: {title: t, description: About.}
tags: [{name: things, description: Some things.}]
paths:
  /things/{id}:
    parameters: [{name: id, in: path, required: true, description: "One | two.", schema: {type: integer, minimum: 1}}]
    put:
      operationId: putThing
      tags: [things]
      summary: Put one
      description: It stays.
      x-examples:
        - {request: PUT /things/1, body: '{"a": 1}', status: 200}
        - request: PUT /things/0
          status: 400
          answer: |
            {
              "error": "no"
            }
      requestBody: {content: {application/json: {schema: {type: object, required: [a], properties: {a: {$ref: "#/components/schemas/Amount"}}}}}}
      responses:
        "200": {description: The thing., content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}
components:
  schemas:
    Amount: {type: integer}
    Thing: {type: object, properties: {a: {type: integer, description: Its amount.}}}
`))
	check.NoError(t, err)
	for _, want := range []string{
		"- [Things](#things)", "## Things\n\nSome things.", "### Put one\n\n`PUT /things/{id}`\n\nIt stays.\n",
		"| `id` | path | integer ≥ 1 | One \\| two. |", "| `a`, required | [Amount](#schema-amount) |  |",
		"```http\nPUT /things/1\n\n{\"a\": 1}\n```\n\nAnswer `200`: The thing. [Thing](#schema-thing)",
		"Answer `400`:\n\n```json\n{\n  \"error\": \"no\"\n}\n```", "<a id=\"schema-thing\"></a>Thing\n", "  - [Put one](#put-one)\n", "| `a` | integer | Its amount. |",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}
