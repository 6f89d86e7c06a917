package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Value parses one JSON text to maps, lists, strings, json.Number, bool and nil. Numbers keep the form in which they
// are written.
func Value(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, &Error{Path: "$", Reason: "is not JSON"}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Error{Path: "$", Reason: "is more than one JSON value"}
	}
	return v, nil
}
