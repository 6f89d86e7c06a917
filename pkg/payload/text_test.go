package payload

import (
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func newMasks(t *testing.T, paths ...string) *Masks {
	t.Helper()
	m, err := NewMasks(MaskConfig{Payload: paths})
	check.NoError(t, err)
	return m
}

// reading is a text of which nothing is hidden.
func reading(text string) Reading { return (*Masks)(nil).Read([]byte(text), nil) }

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		masks       []string
		limit       int
		want        string
	}{
		{"StringsNumbersAndNames", `{"Order":{"Id":42.50,"ok":true,"none":null},"tags":["New","ÄÖ"]}`, nil, 100, "order id 42.50 ok none tags new äö"},
		{"EscapesAreRead", `{"a":"x\ny\u00dc"}`, nil, 100, "a x\nyü"},
		{"NothingOfWhatIsMasked", `{"card":{"number":"4111","cvc":1},"name":"Ann"}`, []string{"$.card"}, 100, "name ann"},
		{"NothingOfWhatIsMaskedInArrays", `{"cards":[{"number":"4111","type":"visa"}]}`, []string{"$.cards[*].number"}, 100, "cards type visa"},
		{"TheWholeMaybeMasked", `{"a":1}`, []string{"$"}, 100, ""},
		{"OtherTextAsItIs", "Plain TEXT", nil, 100, "plain text"},
		{"OtherTextIsMaskedWhole", "plain text", []string{"$.card"}, 100, ""},
		{"NeverBytes", "\xff\xfe", nil, 100, ""},
		{"NULBecomesASpace", "a\x00b", nil, 100, "a b"},
		{"NULInJSONToo", `["a\u0000b"]`, nil, 100, "a b"},
		{"HalfACharacter", `["\ud800x"]`, nil, 100, "\uFFFDx"},
		{"CutAtALimit", `["abcdef","ghi"]`, nil, 8, "abcdef g"},
		{"CutAtARune", `["aääää"]`, nil, 4, "aä"},
		{"OtherTextCutAtARune", "aääää", nil, 4, "aä"},
		{"Nothing", "", nil, 10, ""},
		{"NoRoom", `["a"]`, nil, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := newMasks(t, c.masks...).Read([]byte(c.value), nil).Text(c.limit); got != c.want {
				t.Errorf("Text(%s) = %q, want %q", c.value, got, c.want)
			}
		})
	}
}

func TestText_GrowingLettersStayInTheLimit(t *testing.T) {
	t.Parallel()
	for _, value := range []string{strings.Repeat("Ⱥ", 100), strings.Repeat("İ", 100)} {
		if got := reading(value).Text(50); len(got) > 50 {
			t.Errorf("Text(%.10s...) has %d bytes, want at most 50", value, len(got))
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	value := []byte(`{"order_id":"A-4711","customer":{"id":42,"name":"Ann Other","email":"ann@example.org"},"items":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"X-1","quantity":2,"price":19.90},`, 20), ",") + `]}`)
	masks, err := NewMasks(MaskConfig{Payload: []string{"$.customer.email", "$.items[*].price"}})
	check.NoError(b, err)
	b.SetBytes(int64(len(value)))
	b.Run("Terms", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reading(string(value)).Terms(500)
		}
	})
	b.Run("Text", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			masks.Read(value, nil).Text(4096)
		}
	})
	b.Run("Mask", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			masks.Read(value, nil).Shown()
		}
	})
}
