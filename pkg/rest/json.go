package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// timeLayout is RFC 3339 in UTC with milliseconds; the offset is spelled out because clients of the first API
// parse it that way.
const timeLayout = "2006-01-02T15:04:05.000+00:00"

// shownTime reports whether t is shown: it must be known, and its year must be valid in RFC 3339.
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

// orNull shows the zero value, which means "not known", as null.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// encode returns v as JSON without a final newline. Bytes that are not UTF-8 become U+FFFD. It panics on an error: v
// is always one of the package's own types, which always encode.
func encode(v any) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Errorf("encode answer: %w", err))
	}
	return escapeMarks(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// each converts the items of a list. The result is never nil, because clients iterate over it.
func each[T, J any](list []T, show func(T) J) []J {
	shown := make([]J, 0, len(list))
	for _, item := range list {
		shown = append(shown, show(item))
	}
	return shown
}

// writeList sends a page of a list and the cursor of the next page, nil for none.
func writeList[J any](w http.ResponseWriter, name string, list []J, next *string) {
	body := fmt.Appendf(nil, `{%q:%s,"next_cursor":%s}`, name, encode(list), encode(next))
	writeBody(w, http.StatusOK, "application/json", body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeBody(w, status, "application/json", encode(v))
}

// writeBody sends a whole answer. An error of the connection is dropped, because the client can no longer read it.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
