package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// timeLayout is RFC 3339 in UTC with milliseconds; the offset is spelled out
// because clients of the first API parse it that way.
const timeLayout = "2006-01-02T15:04:05.000+00:00"

// shownTime reports whether t is shown: it is known, and RFC 3339 has its year.
func shownTime(t time.Time) bool {
	return !t.IsZero() && t.UTC().Year() >= 0 && t.UTC().Year() <= 9999
}

// stamp shows a time, and one that cannot be shown as null.
func stamp(t time.Time) *string {
	if !shownTime(t) {
		return nil
	}
	text := t.UTC().Format(timeLayout)
	return &text
}

// orNull shows the zero value, which stands for "not known", as null.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// blob shows bytes without losing any: as text where they are UTF-8, else in
// base64.
type blob struct {
	Encoding string `json:"encoding"` // "utf8" or "base64"
	Data     any    `json:"data"`
}

// showBytes shows nil, Kafka's null, as null; empty bytes are an empty text.
func showBytes(b []byte) *blob {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return &blob{"utf8", string(b)}
	default:
		return &blob{"base64", b} // encoding/json writes byte slices in base64
	}
}

// encode returns v as JSON without a final newline. Bytes that are not UTF-8
// become U+FFFD. What is given here is our own and always encodes.
func encode(v any) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Errorf("encode answer: %w", err))
	}
	return escapeMarks(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeBody(w, status, "application/json", encode(v))
}

// writeBody sends a whole answer. An error of the connection has no reader any
// more and is dropped.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
