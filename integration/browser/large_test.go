package browser

import (
	"fmt"
	"strings"
	"testing"
)

// large: the page of a message with a payload of ten megabytes stays small; a download has the
// whole payload.
func large(t *testing.T, site *Site) {
	site.Topics("large")
	var value strings.Builder
	value.WriteString(`{"rows":[`)
	for i := 0; value.Len() < 10<<20; i++ {
		if i > 0 {
			value.WriteByte(',')
		}
		fmt.Fprintf(&value, `{"n":%d,"text":%q}`, i, strings.Repeat("x", 500))
	}
	value.WriteString(`]}`)
	stored := site.Fail("large", Letter{Key: "large", Class: "com.acme.TooLarge", Error: "too large", Value: value.String()})

	b := Open(t, site.URL)
	for _, view := range []string{"", "?view=text", "?view=hex"} {
		b.Visit("/messages/" + stored[0].ID + view)
		b.WaitText("10.0 MiB")
		if got := b.Document(); got > 1_000_000 {
			t.Errorf("the page%s has %d bytes of HTML, want 1,000,000 at most", view, got)
		}
	}
	b.WaitText("download it to see all")
	b.Look("message-large")
	got := measure[int](b, `fetch(document.querySelector("#payload a[download]").href).then((r) => r.arrayBuffer()).then((a) => a.byteLength)`)
	if got != value.Len() {
		t.Errorf("a download has %d bytes, want %d", got, value.Len())
	}
	b.Visit("/messages/" + stored[0].ID + "/edit")
	b.WaitText("MiB")
}
