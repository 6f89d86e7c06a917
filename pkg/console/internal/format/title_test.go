package format_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

func shown(parts []format.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Varies {
			b.WriteString("[" + p.Text + "]")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func TestVariablesOfATitleAreSetOff(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"":                             "",
		"no stock":                     "no stock",
		"<n>":                          "[<n>]",
		"order <id> has <n> < 3 <b>":   "order [<id>] has [<n>] < 3 <b>",
		"to <addr> at <time>, <email>": "to [<addr>] at [<time>], [<email>]",
		"<hex><hex>":                   "[<hex>][<hex>]",
	} {
		if got := shown(format.Parts(title)); got != want {
			t.Errorf("Parts(%q) = %q, want %q", title, got, want)
		}
	}
}

func TestLongTextKeepsItsEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n    int
		text string
		want string
	}{
		{20, "twenty characters or", "twenty characters or"},
		{30, "cannot reserve: product P-NEW-4711 is not in the catalogue", "cannot … in the catalogue"},
		{24, strings.Repeat("a", 40), "aaaaaaaaa … aaaaaaaaaaaaaa"},
		{11, "日本語のとても長いテキストです", "日本語の … テキストです"},
	} {
		got := format.Middle(tt.n, tt.text)
		if got != tt.want || utf8.RuneCountInString(got) > tt.n+2 {
			t.Errorf("Middle(%d, %q) = %q, want %q", tt.n, tt.text, got, tt.want)
		}
	}
}

func TestWordsThatDifferAreMarked(t *testing.T) {
	t.Parallel()
	got := [][]format.Part{}
	got = append(got, format.Differing([]string{"product P-1 is gone", "product P-2 is  gone", "product P-3 was gone"})...)
	var words []string
	for _, parts := range got {
		words = append(words, shown(parts))
	}
	want := []string{"product[ P-1 is] gone", "product[ P-2 is] gone", "product[ P-3 was] gone"}
	if !reflect.DeepEqual(words, want) {
		t.Errorf("Differing = %q, want %q", words, want)
	}
	if one := format.Differing([]string{"same", "same"}); shown(one[0]) != "same" {
		t.Errorf("Differing of equal texts marks %q", shown(one[0]))
	}
}
