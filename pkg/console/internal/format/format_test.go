package format_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

var noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		format.Number(0): "0", format.Number(1234567): "1,234,567", format.Number(int64(-1000)): "-1,000", format.Number(999): "999",
		format.Bytes(1023): "1023 B", format.Bytes(1536): "1.5 KiB", format.Bytes(10 << 20): "10.0 MiB",
		format.Percent(0): "0 %", format.Percent(0.001): "< 1 %", format.Percent(0.999): "> 99 %", format.Percent(1): "100 %",
		format.Clip(4, "äöüß"): "äöüß", format.Clip(3, "äöüß"): "äö…",
		format.Ago(noon, noon.Add(-90*time.Second)): "1 min ago", format.Ago(noon, noon): "just now", format.Ago(noon, time.Time{}): "–",
		format.Ago(noon, noon.Add(time.Hour)): "in 1 h", format.Rough(50 * time.Hour): "2 d",
		link.To("/a", "b", "c d", "e", "", "b", "&"): "/a?b=c+d&b=%26",
	} {
		check.True(t, got == want, "got %q, want %q", got, want)
	}
}

func TestTextThatTurnsAroundIsEscaped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\u202eb": `a\u202eb`, "x\x00y": `x\u0000y`, "a\tb\nc": "a\tb\nc", "ü👩‍🚀": "ü👩‍🚀", "z\u200b": `z\u200b`, "\U000e0041": `\U000e0041`,
	} {
		if got := format.Visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLayoutIsThatOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, ` [ ] `, `{"a":{},"b":[ ],"c":[{"d":[1,2.5e3,-0,true,null]}]}`, `"a\"b\\"`, `12`, " {\n\"a b\" :\t\"{[,:]}\\u00e4\" , \"\" : [ [ ] , 1 ] }\r\n", `[1 ,true ]`,
	} {
		var want bytes.Buffer
		check.NoError(t, json.Indent(&want, []byte(strings.TrimSpace(text)), "", "  "))
		got, used, ok := format.JSON([]byte(text), 1000)
		if got != want.String() || used != len(text) || !ok {
			t.Errorf("%q: got %q of %d bytes, %t, want %q", text, got, used, ok, want.String())
		}
		for most := range len(got) {
			if part, _, _ := format.JSON([]byte(text), most); part != got[:most] {
				t.Errorf("%q: got %q for %d bytes, want %q", text, part, most, got[:most])
			}
		}
	}
	for _, bad := range []string{"", "{", "[1,]", "nul"} {
		if got, _, ok := format.JSON([]byte(bad), 1000); ok {
			t.Errorf("%q: got %q, want none", bad, got)
		}
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string][]int64{
		"34 %, 33 %, 33 %": {1, 1, 1}, "51 %, 49 %": {505, 495}, "100 %": {7}, "": {}, "0 %, 0 %": {0, 0}, "100 %, < 1 %": {999, 1},
		"67 %, 33 %, 0 %": {2, 1, 0}, "17 %, 17 %, 17 %, 17 %, 16 %, 16 %": {1, 1, 1, 1, 1, 1},
	} {
		if got := strings.Join(format.Shares(parts), ", "); got != want {
			t.Errorf("%v: got %q, want %q", parts, got, want)
		}
	}
}
