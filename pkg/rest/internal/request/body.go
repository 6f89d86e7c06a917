package request

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
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// Fields maps the field names of a body to their targets: a pointer, or an Object for a nested object.
type Fields map[string]any

// Object is a nested object; Given is true if the body contains the object.
type Object struct {
	Given  *bool
	Fields Fields
}

// Option is a value that may be missing.
type Option[T any] struct {
	Given bool
	Value T
}

// UnmarshalJSON decodes the value and marks it as given.
func (o *Option[T]) UnmarshalJSON(text []byte) error {
	o.Given = true
	return json.Unmarshal(text, &o.Value)
}

// Nullable is a value that may be missing or null; when it is null, Given is true and Value is nil.
type Nullable[T any] struct {
	Given bool
	Value *T
}

// UnmarshalJSON decodes the value and marks it as given; null leaves Value nil.
func (n *Nullable[T]) UnmarshalJSON(text []byte) error {
	n.Given = true
	return json.Unmarshal(text, &n.Value)
}

func (*Nullable[T]) null() {}

// RawJSON is a field's JSON, byte for byte as it was sent; nil when the body does not contain the field.
type RawJSON []byte

// UnmarshalJSON copies the text.
func (j *RawJSON) UnmarshalJSON(text []byte) error {
	*j = append(RawJSON{}, text...)
	return nil
}

func (*RawJSON) null() {}

func acceptsNull(target any) bool {
	_, ok := target.(interface{ null() })
	return ok
}

// Bodies reads the bodies of requests within limits of size and time.
type Bodies struct {
	Timeout  time.Duration
	MaxBytes int64
}

// read decodes the JSON object in the body of a request into the given fields; an empty body counts as an empty
// object. Unknown names are refused, because a misspelt option would otherwise silently get its default.
func (b Bodies) read(w http.ResponseWriter, r *http.Request, into Fields) error {
	body, err := b.Bytes(w, r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := jsonOnly(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	return DecodeObject(body, "", into)
}

// ReadChange reads the body of a request that changes something, and returns who changes it and why.
func (b Bodies) ReadChange(w http.ResponseWriter, r *http.Request, into Fields) (entity.AuditInfo, error) {
	var reason string
	into["reason"] = &reason
	if err := b.read(w, r, into); err != nil {
		return entity.AuditInfo{}, err
	}
	return NewCause(r, reason)
}

// ReadReason reads the id in the path and the body of a change whose only field is a reason.
func (b Bodies) ReadReason(w http.ResponseWriter, r *http.Request, what string) (uuid.UUID, entity.AuditInfo, error) {
	id, err := ID(r, what)
	if err != nil {
		return id, entity.AuditInfo{}, err
	}
	cause, err := b.ReadChange(w, r, Fields{})
	return id, cause, err
}

// Bytes reads the whole body within the limits of size and time.
func (b Bodies) Bytes(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(b.Timeout)) // fails only in tests, which have no connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.MaxBytes))
	_ = control.SetReadDeadline(time.Time{}) // clears the deadline, because net/http could otherwise no longer notice that the client disconnects
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, respond.Refused(respond.ErrTooLarge, fmt.Sprintf("request body is larger than %d bytes", large.Limit),
			respond.Detail{Field: "body", Reason: fmt.Sprintf("must have at most %d bytes", large.Limit)})
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
	return respond.Refused(respond.ErrMediaType, "content type must be application/json, is "+respond.Clip(contentType))
}

// DecodeObject decodes a JSON object into the given fields, more strictly than encoding/json: each name must equal that
// of a field and occur only once, and only a Nullable and a RawJSON may be null. In errors, prefix is put before the
// names of fields; it is "" for the body itself.
func DecodeObject(body []byte, prefix string, into Fields) error {
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

// DecodeObjectAt decodes an object in a list, by the same rules as DecodeObject. Errors name the object by the path in
// the parameter at.
func DecodeObjectAt(text []byte, at string, into Fields) error {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return &entity.FieldError{Field: at, Reason: "must be a JSON object"}
	}
	return DecodeObject(text, at+".", into)
}

func decodeField(decoder *json.Decoder, prefix string, into Fields, seen map[string]bool) error {
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

// nameOf returns the name of a field for an error. It writes an empty name as "", to make it visible.
func nameOf(field string) string {
	if field == "" {
		return `""`
	}
	return respond.Clip(field)
}

func decodeValue(value json.RawMessage, name string, target any) error {
	if open, ok := target.(json.Unmarshaler); ok && acceptsNull(target) {
		if open.UnmarshalJSON(value) == nil {
			return nil
		}
		return &entity.FieldError{Field: name, Reason: "must be a " + typeName(target)}
	}
	inner, isObject := target.(Object)
	switch {
	case isObject && value[0] == '{':
		*inner.Given = true
		return DecodeObject(value, name+".", inner.Fields)
	case !isObject && string(value) != "null" && json.Unmarshal(value, target) == nil:
		return nil
	}
	return &entity.FieldError{Field: name, Reason: "must be a " + typeName(target)}
}

func notJSONBody() error { return &entity.FieldError{Field: "body", Reason: "is not valid JSON"} }

func typeName(target any) string {
	switch target.(type) {
	case Object:
		return "JSON object"
	case *bool, *Option[bool]:
		return "boolean"
	case *Nullable[bool]:
		return "boolean, or null"
	case *Nullable[string]:
		return "string, or null"
	case *Option[int64], *Option[int]:
		return "whole number"
	case *Option[[]RawJSON]:
		return "list of objects"
	case *Option[float64]:
		return "number"
	case *Option[[]string]:
		return "list of strings"
	default:
		return "string"
	}
}

// Problems collects all faults of a request, so that one answer reports them.
type Problems []error

// Add adds a problem, unless err is nil.
func (p *Problems) Add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// Refuse adds a problem of a field when bad is true, and returns bad.
func (p *Problems) Refuse(bad bool, field, format string, args ...any) bool {
	if bad {
		*p = append(*p, &entity.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	return bad
}

// Err returns all problems as one error, nil for none.
func (p Problems) Err() error { return errors.Join(p...) }
