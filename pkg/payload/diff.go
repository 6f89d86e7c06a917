package payload

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/wI2L/jsondiff"
)

var errNotJSON = errors.New("a value is not JSON")

// Diff returns a JSON Patch (RFC 6902) that changes the first value into the second. The patch is made to be shown to
// people; it is [] when the values are equal. Numbers are compared as text. The error reports that one of the values is
// not JSON.
func Diff(before, after []byte) (patch []byte, err error) {
	if !json.Valid(before) || !json.Valid(after) {
		return nil, errNotJSON
	}
	operations, err := jsondiff.CompareJSON(before, after, jsondiff.UnmarshalFunc(exactly))
	if err != nil {
		return nil, err
	}
	shown := make([]operation, 0, len(operations))
	for _, o := range operations {
		next := operation{Op: o.Type, Path: o.Path}
		if o.Type != jsondiff.OperationRemove {
			next.Value = &o.Value
		}
		if o.Path == "" { // the library uses "add" where it replaces the whole value
			next.Op = jsondiff.OperationReplace
		}
		shown = append(shown, next)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(shown); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// operation is one operation of a patch. Its fields are in the order in which their JSON is shown.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"` // nil when the operation has no value; a pointer to nil is JSON's null
}

// exactly decodes JSON without converting numbers to float64, which would lose digits.
func exactly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}
