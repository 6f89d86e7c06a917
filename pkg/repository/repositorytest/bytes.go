package repositorytest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func bytesPromises() []promise {
	return []promise{
		{"HeadersKeepOrderRepeatsNullsAndBytes", bytesHeaders},
		{"KeyAndValueAreAnyBytes", bytesKeyAndValue},
		{"NullAndEmptyComeInApart", bytesNullAndEmpty},
		{"PoisonJSONIsKeptAsItIs", bytesPoisonJSON},
		{"ManyHeadersAreKept", bytesManyHeaders},
		{"LargeValueIsKept", bytesLargeValue},
		{"LongErrorMessageIsKept", bytesLongError},
		{"TheBatchIsTheCallersOwn", bytesOwnBatch},
	}
}

// allBytes holds every byte once, NUL and what is never UTF-8 included.
func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// wantIngested stores a message by the way records come in and checks that
// every byte of its record is kept, for each way out.
func wantIngested(h *harness, what string, change func(*entity.Message)) {
	h.Helper()
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, h.position(s, 0), 1, change)
	h.store(b, 1)
	want := b.Messages[0].Record
	got := h.get(b.Messages[0].ID).Record
	if !sameRecord(got, want) {
		h.Errorf("%s: Get = %.300q, want %.300q", what, fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want))
	}
	loaded, _, err := h.Repository.Load(h.Context(), ids(b.Messages), math.MaxInt64)
	if err != nil || len(loaded) != 1 || !sameRecord(loaded[0].Record, want) {
		h.Errorf("%s: Load = %.300q, %v, want %.300q", what, fmt.Sprintf("%#v", loaded), err, fmt.Sprintf("%#v", want))
	}
}

// sameRecord compares every byte, and null with empty; only a list of no headers
// is the same as none, as it is for Kafka.
func sameRecord(a, b entity.Record) bool {
	if len(a.Headers) == 0 && len(b.Headers) == 0 {
		a.Headers, b.Headers = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func bytesHeaders(h *harness) {
	headers := []entity.Header{
		{Key: "z", Value: []byte("1")},
		{Key: "a", Value: []byte("2")},
		{Key: "z", Value: []byte("1")},
		{Key: "z", Value: nil},
		{Key: "z", Value: []byte{}},
		{Key: "", Value: []byte("no name")},
		{Key: "", Value: nil},
		{Key: "\xff\xfe not UTF-8", Value: []byte("x")},
		{Key: "nul\x00nul", Value: []byte("\x00")},
		{Key: string(allBytes()), Value: allBytes()},
		{Key: strings.Repeat("k", 70_000), Value: bytes.Repeat([]byte("v"), 70_000)},
	}
	wantIngested(h, "headers", func(m *entity.Message) { m.Record.Headers = headers })
}

func bytesKeyAndValue(h *harness) {
	for _, b := range [][]byte{allBytes(), {0}, []byte("\x00\x00"), []byte("\xc3\x28"), []byte(`\x41`), []byte(`\\`), []byte("NULL")} {
		wantIngested(h, fmt.Sprintf("%.20q", b), func(m *entity.Message) { m.Record.Key, m.Record.Value = b, b })
	}
}

func bytesNullAndEmpty(h *harness) {
	wantIngested(h, "null", func(m *entity.Message) { m.Record.Key, m.Record.Value = nil, nil })
	wantIngested(h, "empty", func(m *entity.Message) { m.Record.Key, m.Record.Value = []byte{}, []byte{} })
}

// bytesPoisonJSON are values that look like JSON and that a database's own JSON
// type refuses or blows up. All of them come in, in one batch, with good ones.
func bytesPoisonJSON(h *harness) {
	values := []string{
		`{"nul": "\u0000"}`, `"\ud800"`, `1e131071`, `1e999999`, `{"a": 1, "a": 2}`, "\ufeff{}", `{"order": 1}`, `null`, ` `,
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), `{`, "{\"a\": \"\xff\"}", `"` + strings.Repeat("x", 100_000) + `"`,
	}
	i := 0
	b := h.batch(h.open(deadLetter, 0, 0), 0, len(values), func(m *entity.Message) {
		m.Record.Value = []byte(values[i])
		i++
	})
	h.store(b, 1)
	for i, m := range b.Messages {
		if got := h.get(m.ID).Record; got.State != entity.ValueStored || string(got.Value) != values[i] {
			h.Errorf("value %.40q: state %d, %.40q, want it as it was", values[i], got.State, got.Value)
		}
	}
}

func bytesManyHeaders(h *harness) {
	headers := make([]entity.Header, 500)
	for i := range headers {
		headers[i] = entity.Header{Key: fmt.Sprintf("h%d", i%7), Value: fmt.Append(nil, i)}
	}
	wantIngested(h, "500 headers", func(m *entity.Message) { m.Record.Headers = headers })
}

func bytesLargeValue(h *harness) {
	large := bytes.Repeat(allBytes(), 4<<10)
	wantIngested(h, "1 MiB", func(m *entity.Message) { m.Record.Value = large })
}

func bytesLongError(h *harness) {
	text := strings.Repeat("at com.example.Orders(Orders.java:1)\n", 10_000)
	m := h.put(func(m *entity.Message) { m.ErrorMessage = text })
	if got := h.get(m.ID).ErrorMessage; got != text {
		h.Errorf("error message has %d bytes, want %d", len(got), len(text))
	}
}

func bytesOwnBatch(h *harness) {
	b := h.batch(h.open(deadLetter, 0, 0), 0, 1, func(m *entity.Message) {
		m.Record.Value, m.Record.Key = []byte("value"), []byte("key")
		m.Record.Headers = []entity.Header{{Key: "h", Value: []byte("header")}}
	})
	h.store(b, 1)
	scribble(&b.Messages[0].Record)
	h.wantUnscribbled(b.Messages[0].ID)
}
