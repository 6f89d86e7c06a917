package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/resttest"
)

var literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// wantEncoded checks that each string in some JSON is written as Encode writes it.
func wantEncoded(t *testing.T, got []byte) {
	t.Helper()
	if !json.Valid(got) {
		t.Errorf("%s is not JSON", got)
	}
	for _, literal := range literals.FindAll(got, -1) {
		// U+FFFD replaces bytes that are not UTF-8.
		literal = bytes.ReplaceAll(literal, []byte(`\ufffd`), []byte("\uFFFD"))
		var text string
		if err := json.Unmarshal(literal, &text); err != nil || !bytes.Equal(Encode(text), literal) {
			t.Errorf("%s, %v, in %s; want %s", literal, err, got, Encode(text))
		}
	}
}

// plain writes messages as they are stored, without masks and without derived fields.
var plain = Messages{Dialects: resttest.Plain, Masking: Masking{Derived: resttest.Plain}}

// Each string in the JSON of a message of a list is written as Encode writes it.
func TestAppendMessage_IsWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	cfg := payload.DefaultMaskConfig()
	cfg.Payload, cfg.Headers = append(cfg.Payload, "$.card"), append(cfg.Headers, "token")
	masks, err := payload.NewMasks(cfg)
	check.NoError(t, err)
	masked := plain
	masked.Masking.Masks = masks
	for _, m := range []entity.Message{
		resttest.Full(),
		{ID: uuid.New()},
		resttest.Full(func(m *entity.Message) { m.Record.KeyOmitted, m.Record.Key = 9, nil }), resttest.Full(resttest.WithValue("\xff")),
		resttest.Full(func(m *entity.Message) { m.Record.HeadersOmitted, m.Record.Headers = true, nil }),
		resttest.Full(func(m *entity.Message) { m.Record.State = entity.ValueNotLoaded }), resttest.Full(func(m *entity.Message) { m.Record.Value = nil }),
	} {
		wantEncoded(t, plain.AppendJSON(nil, &m, View{Limit: MaxListPayload}))
		wantEncoded(t, masked.AppendJSON(nil, &m, View{Limit: MaxListPayload}))
	}
}

func FuzzAppendText(f *testing.F) {
	f.Add(resttest.Full().ErrorMessage)
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := appendText(nil, text), Encode(text); !bytes.Equal(got, want) {
			t.Errorf("appendText(%q) = %s, want %s", text, got, want)
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	m, v := resttest.Kilobyte(), View{Limit: MaxListPayload}
	buf := make([]byte, 0, 8<<10)
	for name, write := range map[string]func(){
		"json": func() { buf = plain.AppendJSON(buf[:0], &m, v) },
		"csv":  func() { buf = plain.AppendCSV(buf[:0], &m, v) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				write()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
