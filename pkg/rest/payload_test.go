package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// A payload is shown exactly as the producer wrote it, or not at all.
func TestPayloadFidelity(t *testing.T) {
	t.Parallel()
	quoted := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name, value string
		omitted     string // "" when the value is shown
		inList      string // expected value of omitted in a list; "" if a list shows the same as a single message
	}{
		{name: "Spaces", value: " { \"a\" :\t1 } \r\n"},
		{name: "DuplicateKeys", value: `{"a":1,"a":2}`},
		{name: "KeyOrder", value: `{"b":1,"a":2}`},
		{name: "HugeNumber", value: `[1e131071,-0,1.10,123456789012345678901234567890]`},
		{name: "EscapedNUL", value: `"\u0000"`},
		{name: "LoneSurrogate", value: `"\ud800 \udc00\ud800"`},
		{name: "Markup", value: `"<a href='x'>&</a>` + "\u2028" + `"`},
		{name: "Escapes", value: `"\/\u0041\""`},
		{name: "BracketsInText", value: `"` + strings.Repeat(`[{\"`, 500) + `"`},
		{name: "NullText", value: `null`},
		{name: "Zero", value: `0`},
		{name: "JapaneseText", value: `{"名":"あ"}`},
		{name: "AsDeepAsAllowed", value: nested(200)},
		{name: "TooDeep", value: nested(201), omitted: wire.TooDeep},
		{name: "TooDeepInMixture", value: strings.Repeat(`{"a":[`, 101) + strings.Repeat(`]}`, 101), omitted: wire.TooDeep},
		{name: "TenThousandDeep", value: nested(10_000), omitted: wire.TooDeep},
		{name: "DeeperThanTheValidator", value: nested(30_000), omitted: wire.TooDeep},
		{name: "AsLongAsAllowedInLists", value: quoted(64 << 10)},
		{name: "TooLongForLists", value: quoted(64<<10 + 1), inList: wire.TooLarge},
		{name: "AsLongAsAllowed", value: quoted(1 << 20), inList: wire.TooLarge},
		{name: "TooLong", value: quoted(1<<20 + 1), omitted: wire.TooLarge},
		{name: "TooLongAndNotJSON", value: strings.Repeat("\xff", 1<<20+1), omitted: wire.TooLarge},
		{name: "Empty", value: "", omitted: wire.NotJSON},
		{name: "Blank", value: "  ", omitted: wire.NotJSON},
		{name: "Text", value: "hello", omitted: wire.NotJSON},
		{name: "NotUTF8", value: "\"\xff\"", omitted: wire.NotJSON},
		{name: "RawNUL", value: "\"\x00\"", omitted: wire.NotJSON},
		{name: "ByteOrderMark", value: "\uFEFF{}", omitted: wire.NotJSON},
		{name: "TwoValues", value: `{} {}`, omitted: wire.NotJSON},
		{name: "UnclosedAndDeep", value: strings.Repeat("[", 300), omitted: wire.NotJSON},
		{name: "NaN", value: `NaN`, omitted: wire.NotJSON},
		{name: "UnclosedString", value: `"\`, omitted: wire.NotJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA, withValue(c.value))).open()
			wantPayload(t, f.do("GET", oneA, "").Body.String(), c.value, c.omitted)
			if c.inList == "" {
				c.inList = c.omitted
			}
			wantPayload(t, f.do("GET", "/api/v1/dlq/orders.dlq.v1", "").Body.String(), c.value, c.inList)
		})
	}
}

func wantPayload(t *testing.T, body, value, omitted string) {
	t.Helper()
	if !json.Valid([]byte(body)) {
		t.Fatalf("body %.300q is not JSON", body)
	}
	payload, reason := value, "null"
	if omitted != "" {
		payload, reason = "null", `"`+omitted+`"`
	}
	if want := `"payload":` + payload + `,"status":`; !strings.Contains(body, want) {
		t.Errorf("body %.300q has no %.300q", body, want)
	}
	if want := `"payload_omitted":` + reason + `,"payload_size":`; !strings.Contains(body, want) {
		t.Errorf("body %.300q has no %q", body, want)
	}
	if want := `"payload_size":` + string(wire.Encode(len(value))) + `,"payload_url":`; !strings.Contains(body, want) {
		t.Errorf("body %.300q has no %q", body, want)
	}
}
