package redrive

import (
	"strings"
	"testing"
)

func TestStorable(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"plain":                   "plain",
		"a\x00b\xffc":             "ab\uFFFDc",
		strings.Repeat("é", 1000): strings.Repeat("é", 500),
	}
	for text, want := range cases {
		if got := storable(text); got != want {
			t.Errorf("storable(%q) = %q, want %q", text, got, want)
		}
	}
}
