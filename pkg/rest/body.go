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

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// fields maps the field names of a body to their targets: a pointer, or fields for a nested object.
type fields map[string]any

type object struct {
	given  *bool
	fields fields
}

// option is a value that may be missing.
type option[T any] struct {
	given bool
	value T
}

func (o *option[T]) UnmarshalJSON(text []byte) error {
	o.given = true
	return json.Unmarshal(text, &o.value)
}

// nullable is an option that may be null, which means an empty value.
type nullable[T any] struct {
	given bool
	value *T
}

func (n *nullable[T]) UnmarshalJSON(text []byte) error {
	n.given = true
	return json.Unmarshal(text, &n.value)
}

func (*nullable[T]) null() {}

// rawJSON is JSON exactly as it was sent; nil when it was not given.
type rawJSON []byte

func (j *rawJSON) UnmarshalJSON(text []byte) error {
	*j = append(rawJSON{}, text...)
	return nil
}

func (*rawJSON) null() {}

func acceptsNull(target any) bool {
	_, ok := target.(interface{ null() })
	return ok
}

// readBody reads a JSON object into into; an empty body is an empty object. Unknown names are refused, because a
// misspelt option would otherwise silently get its default.
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
	return decodeObject(body, "", into)
}

// readChange reads the body of a change, and returns its cause.
func (s *Server) readChange(w http.ResponseWriter, r *http.Request, into fields) (entity.Cause, error) {
	var reason string
	into["reason"] = &reason
	if err := s.readBody(w, r, into); err != nil {
		return entity.Cause{}, err
	}
	return causeOf(r, reason)
}

// changeOf reads the id and the body of a change whose only field is a reason.
func (s *Server) changeOf(w http.ResponseWriter, r *http.Request, what string) (uuid.UUID, entity.Cause, error) {
	id, err := idOf(r, what)
	if err != nil {
		return id, entity.Cause{}, err
	}
	cause, err := s.readChange(w, r, fields{})
	return id, cause, err
}

// slurp reads the whole body within the limits of size and time.
func (s *Server) slurp(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) // fails in tests, which have no connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBodyBytes))
	_ = control.SetReadDeadline(time.Time{}) // else it would end the detection of a client that disconnects
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refused(errTooLarge, fmt.Sprintf("request body is larger than %d bytes", large.Limit),
			detail{"body", fmt.Sprintf("must have at most %d bytes", large.Limit)})
	case err != nil:
		return nil, &entity.FieldError{Field: "body", Reason: "could not be read to its end"}
	}
	return body, nil
}

// jsonOnly accepts JSON and a body without a content type.
func jsonOnly(contentType string) error {
	if contentType == "" {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil && mediaType == "application/json" {
		return nil
	}
	return refused(errMediaType, "content type must be application/json, is "+clip(contentType))
}

// decodeObject is stricter than encoding/json: names match exactly and once, and null is not a value. prefix
// goes in front of the names of fields in errors; "" for the body itself.
func decodeObject(body []byte, prefix string, into fields) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return &entity.FieldError{Field: "body", Reason: "must be a JSON object"}
	}
	seen := map[string]bool{}
	for decoder.More() {
		if err := decodeField(decoder, prefix, into, seen); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return notJSONBody()
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &entity.FieldError{Field: "body", Reason: "has data after the JSON object"}
	}
	return nil
}

// decodeObjectAt is decodeObject for an object in a list; at is its path in errors.
func decodeObjectAt(text []byte, at string, into fields) error {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return &entity.FieldError{Field: at, Reason: "must be a JSON object"}
	}
	return decodeObject(text, at+".", into)
}

func decodeField(decoder *json.Decoder, prefix string, into fields, seen map[string]bool) error {
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
		return &entity.FieldError{Field: prefix + nameOf(name), Reason: "unknown field"}
	case seen[name]:
		return &entity.FieldError{Field: prefix + name, Reason: "given more than once"}
	}
	seen[name] = true
	return decodeValue(value, prefix+name, target)
}

// nameOf quotes an empty name to make it visible.
func nameOf(field string) string {
	if field == "" {
		return `""`
	}
	return clip(field)
}

func decodeValue(value json.RawMessage, name string, target any) error {
	if open, ok := target.(json.Unmarshaler); ok && acceptsNull(target) {
		if open.UnmarshalJSON(value) == nil {
			return nil
		}
		return &entity.FieldError{Field: name, Reason: "must be a " + typeName(target)}
	}
	inner, isObject := target.(object)
	switch {
	case isObject && value[0] == '{':
		*inner.given = true
		return decodeObject(value, name+".", inner.fields)
	case !isObject && string(value) != "null" && json.Unmarshal(value, target) == nil:
		return nil
	}
	return &entity.FieldError{Field: name, Reason: "must be a " + typeName(target)}
}

func notJSONBody() error { return &entity.FieldError{Field: "body", Reason: "is not valid JSON"} }

func typeName(target any) string {
	switch target.(type) {
	case object:
		return "JSON object"
	case *bool, *option[bool]:
		return "boolean"
	case *nullable[bool]:
		return "boolean, or null"
	case *nullable[string]:
		return "string, or null"
	case *option[int64], *option[int]:
		return "whole number"
	case *option[[]rawJSON]:
		return "list of objects"
	case *option[float64]:
		return "number"
	case *option[[]string]:
		return "list of strings"
	default:
		return "string"
	}
}
