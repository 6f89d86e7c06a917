package openapitest

import (
	"bytes"
	"fmt"
	"mime"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// textBodies makes the library accept answers of content types that the document describes as plain text.
func textBodies() {
	for _, kind := range []string{"application/x-ndjson", "application/yaml", "application/openmetrics-text", "text/html"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.PlainBodyDecoder)
	}
}

// checkLines compares each line of an NDJSON answer with the schema of a message. The library cannot do this, because
// an OpenAPI document cannot describe the lines.
func (d document) checkLines(e Exchange) error {
	kind, _, err := mime.ParseMediaType(e.AnswerHeader.Get("Content-Type"))
	if err != nil || kind != "application/x-ndjson" {
		return nil //nolint:nilerr // another check reports an answer without a content type
	}
	for n, line := range bytes.Split(bytes.TrimSuffix(e.Answer, []byte("\n")), []byte("\n")) {
		if len(e.Answer) == 0 {
			return nil
		}
		value, err := decodeJSON(line)
		if err == nil {
			err = d.doc.ValidateSchemaJSON(d.doc.Components.Schemas["Message"].Value, value, openapi3.VisitAsResponse())
		}
		if err != nil {
			return fmt.Errorf("%s %s: line %d is not a message: %w", e.Method, e.Path, n+1, err)
		}
	}
	return nil
}
