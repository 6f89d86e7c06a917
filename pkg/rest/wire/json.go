package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// TimeLayout is RFC 3339 in UTC with milliseconds; the offset is spelled out because clients of the first API
// parse it that way.
const TimeLayout = "2006-01-02T15:04:05.000+00:00"

// shownTime reports whether t is shown: it must be known, and its year must be valid in RFC 3339.
func shownTime(t time.Time) bool {
	return !t.IsZero() && t.UTC().Year() >= 0 && t.UTC().Year() <= 9999
}

// Stamp shows a time, and one that cannot be shown as null.
func Stamp(t time.Time) *string {
	if !shownTime(t) {
		return nil
	}
	text := t.UTC().Format(TimeLayout)
	return &text
}

// OrNull shows the zero value, which means "not known", as null.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Encode returns v as JSON without a final newline. Bytes that are not UTF-8 become U+FFFD. It panics on an error: v
// is always one of the package's own types, which always Encode.
func Encode(v any) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Errorf("encode answer: %w", err))
	}
	return escapeMarks(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// Each converts the items of a list. The result is never nil, because clients iterate over it.
func Each[T, J any](list []T, show func(T) J) []J {
	shown := make([]J, 0, len(list))
	for _, item := range list {
		shown = append(shown, show(item))
	}
	return shown
}

// ListOf never returns nil, because clients iterate over it.
func ListOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
