package search

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestTerms_OfHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r := entity.Record{Headers: []entity.Header{{Key: "long", Value: bytes.Repeat([]byte("x"), maxHeaderValue+1)}}}
	if got := terms(&r); len(got) != 1 {
		t.Errorf("got %d terms, want only that of the name", len(got))
	}
	for i := range 1000 {
		r.Headers = append(r.Headers, entity.Header{Key: fmt.Sprint("h", i), Value: []byte("v")})
	}
	if got, want := len(terms(&r)), 1+2*(maxHeaders-1); got != want {
		t.Errorf("got %d terms, want %d", got, want)
	}
}

func FuzzDocument(f *testing.F) {
	f.Add("no stock", []byte(`{"a":1}`), []byte("k"), "name", []byte("value"))
	f.Add("b\xffd\x00", []byte("\xff"), []byte(nil), "", []byte(nil))
	w := &Worker{cfg: Config{PayloadBytes: 100}, hidden: func(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }}
	f.Fuzz(func(t *testing.T, message string, value, key []byte, header string, headerValue []byte) {
		m := entity.Message{ErrorMessage: message, Record: entity.Record{Key: key, Value: value, Headers: []entity.Header{{Key: header, Value: headerValue}}}}
		text := w.text(&m)
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") || len(text) > 2*len(message)+200 {
			t.Errorf("got the text %q", text)
		}
		if len(terms(&m.Record)) == 0 {
			t.Error("got no terms, want those of the header")
		}
	})
}
