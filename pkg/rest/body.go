package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// fields names what a body may hold, and where each value goes.
type fields map[string]any

// readBody reads the JSON object of a POST into into. An empty body is an empty
// object. Everything that is not understood is refused with the name of the
// field, because a misspelt option must not be taken for its default.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, into fields) error {
	body, err := s.slurp(w, r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := jsonOnly(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	return decodeObject(body, into)
}

// slurp reads the whole body within its size and its time.
func (s *Server) slurp(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) // tests answer without a connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBodyBytes))
	_ = control.SetReadDeadline(time.Time{}) // else it would end the watch for a client that leaves
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &requestError{kind: errTooLarge, text: fmt.Sprintf("request body is larger than %d bytes", large.Limit)}
	case err != nil:
		return nil, &entity.FieldError{Field: "body", Reason: "could not be read to its end"}
	}
	return body, nil
}

// jsonOnly accepts JSON and a body that nobody labelled.
func jsonOnly(contentType string) error {
	if contentType == "" {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil && mediaType == "application/json" {
		return nil
	}
	return &requestError{kind: errMediaType, text: "content type must be application/json, is " + clip(contentType)}
}

// decodeObject is stricter than encoding/json: names match exactly, nothing is
// given twice, and null is not a value.
func decodeObject(body []byte, into fields) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return &entity.FieldError{Field: "body", Reason: "must be a JSON object"}
	}
	seen := map[string]bool{}
	for decoder.More() {
		if err := decodeField(decoder, into, seen); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return notJSONBody()
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &entity.FieldError{Field: "body", Reason: "has data behind the JSON object"}
	}
	return nil
}

func decodeField(decoder *json.Decoder, into fields, seen map[string]bool) error {
	token, err := decoder.Token()
	name, isName := token.(string)
	if err != nil || !isName {
		return notJSONBody()
	}
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return notJSONBody()
	}
	target, known := into[name]
	switch {
	case !known:
		return &entity.FieldError{Field: clip(name), Reason: "unknown field"}
	case seen[name]:
		return &entity.FieldError{Field: name, Reason: "given more than once"}
	}
	seen[name] = true
	if err := json.Unmarshal(value, target); err != nil || string(value) == "null" {
		return &entity.FieldError{Field: name, Reason: fmt.Sprintf("must be a %s", typeName(target))}
	}
	return nil
}

func notJSONBody() error { return &entity.FieldError{Field: "body", Reason: "is not valid JSON"} }

func typeName(target any) string {
	if _, ok := target.(*bool); ok {
		return "boolean"
	}
	return "string"
}
