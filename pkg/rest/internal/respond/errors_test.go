package respond

import (
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestClip(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("あ", 100)
	for in, want := range map[string]string{
		"": "", "short": "short", "\xff": "\uFFFD", long: strings.Repeat("あ", 42) + "...",
	} {
		if got := Clip(in); got != want {
			t.Errorf("clip(%q) = %q, want %q", in, got, want)
		}
	}
}

var errorLine = regexp.MustCompile("(?m)^`(\\d{3})` `(SYS_DLQ_[A-Z_]+)`: ")

// The API's document lists exactly the pairs of a status and a code that the table answers contains.
func TestDocument_Errors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/api.md")
	check.NoError(t, err)
	said, known := map[string]string{}, map[string]string{}
	for _, m := range errorLine.FindAllStringSubmatch(string(text), -1) {
		said[m[1]] = m[2]
	}
	for _, a := range append(answers[:], internal) {
		known[strconv.Itoa(a.Status)] = a.code
	}
	if !maps.Equal(said, known) {
		t.Errorf("the document has %v, the program %v", said, known)
	}
}
