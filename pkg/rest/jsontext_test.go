package rest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

var literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// wantEncoded checks JSON against the output of encoding/json with the additional escapes.
func wantEncoded(t *testing.T, got []byte) {
	t.Helper()
	if !json.Valid(got) {
		t.Errorf("%s is not JSON", got)
	}
	for _, literal := range literals.FindAll(got, -1) {
		literal = bytes.ReplaceAll(literal, []byte(`\ufffd`), []byte("\uFFFD")) // for bytes that are not UTF-8
		var text string
		if err := json.Unmarshal(literal, &text); err != nil || !bytes.Equal(encode(text), literal) {
			t.Errorf("%s, %v, in %s; want %s", literal, err, got, encode(text))
		}
	}
}

// fullMessage has a value in every field.
func fullMessage(change ...func(*entity.Message)) entity.Message {
	partition, offset, attempts := int32(0), int64(-1), 5
	m := message(idA, func(m *entity.Message) {
		m.ErrorMessage = "bad \"quote\" \\ \x00\x01\x1f\x7f tab\t nl\n cr\r \b\f <b>&amp; \u2028\u2029 \u202eltr\u200f \u0085 修正 \U0001F600 \xff\xfe"
		m.UnconfirmedReturn = true
		m.Status, m.RetryCount, m.Group, m.Parent, m.Root = entity.Dead, 3, idB, idB, idGone
		m.LastRetryAt, m.UpdatedAt, m.NextAttemptAt = noon.Add(time.Minute), noon.Add(1500*time.Millisecond), noon
		m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: noon, Confidence: entity.FromName}
		m.Failure = entity.Failure{
			Class: "java.lang.Boom", StackTrace: "at x\n\tat y", ConsumerGroup: "billing", Attempts: &attempts,
			Dialect: "spring",
		}
		m.Outcome, m.Consumption = entity.Consumed, &entity.Consumption{Group: "billing", Offset: 12}
		m.LastPublishError, m.LastPublishErrorClass = "too <large>", entity.BadRecord
		m.Record.Key = []byte{0xff, 0}
		m.Record.Headers = []entity.Header{
			{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "\xff\u202e", Value: []byte{0xfe}}, {Key: "token", Value: []byte("secret")},
		}
		m.Record.Value = []byte(`{"card": {"number":"4111"}, "n":1.0}`)
	})
	for _, f := range change {
		f(&m)
	}
	return m
}

// Lists, single messages and exports write what encoding/json would.
func TestAppendMessage_IsWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	plain, masked := newFixture().open().server, newFixture().with(WithMasks(maskOf("$.card", "token"))).open().server
	for _, m := range []entity.Message{
		fullMessage(),
		{ID: idA},
		fullMessage(func(m *entity.Message) { m.Record.KeyOmitted, m.Record.Key = 9, nil }), fullMessage(withValue("\xff")),
		fullMessage(func(m *entity.Message) { m.Record.HeadersOmitted, m.Record.Headers = true, nil }),
		fullMessage(func(m *entity.Message) { m.Record.State = entity.ValueNotLoaded }), fullMessage(func(m *entity.Message) { m.Record.Value = nil }),
	} {
		wantEncoded(t, plain.appendMessage(nil, &m, view{limit: maxListPayload}))
		wantEncoded(t, masked.appendMessage(nil, &m, view{limit: maxListPayload}))
	}
}

// Characters that change the direction of text, or end lines, are always escaped.
func TestMarksAreEscapedEverywhere(t *testing.T) {
	t.Parallel()
	const marks = "\x00\x07\x1b\r\n\x7f\u0085\u009f\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
	const evil = marks + "\u202egpj.exe\u2066\u200b\x7f\u0085\u2028\x1b[31m\x00'; drop table dlq.messages; --\r\nSet-Cookie: x=1"
	f := newFixture(message(idA, func(m *entity.Message) {
		m.OriginalTopic, m.ErrorMessage, m.LastPublishError = evil, evil, evil
		m.Failure.Class, m.Failure.ConsumerGroup, m.Failure.Dialect = evil, evil, evil
		m.Record.Key, m.Record.Headers = []byte(evil), []entity.Header{{Key: evil, Value: []byte(evil)}}
	})).open()
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export", "/api/v1/dlq/orders.dlq.v1"} {
		w := f.do("GET", target, "")
		wantStatus(t, w, 200, `"error_message":`+string(encode(evil)))
		if strings.ContainsAny(strings.TrimSuffix(w.Body.String(), "\n"), marks) || len(w.Result().Cookies()) > 0 {
			t.Errorf("GET %s = %q, cookies %v, want no such character and no cookie", target, w.Body, w.Result().Cookies())
		}
	}
	w := f.do("GET", "/api/v1/dlq/messages/%E2%80%AEx", "")
	if e := wantEnvelope(t, w, 400); strings.ContainsRune(w.Body.String(), '\u202e') || !strings.ContainsRune(e.Message, '\u202e') {
		t.Errorf("error %s, want the mark escaped", w.Body)
	}
}

func FuzzAppendText(f *testing.F) {
	f.Add(fullMessage().ErrorMessage)
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := appendText(nil, text), encode(text); !bytes.Equal(got, want) {
			t.Errorf("appendText(%q) = %s, want %s", text, got, want)
		}
	})
}

// kilobyte is a typical message of exports: a kilobyte of JSON and some headers.
func kilobyte() entity.Message {
	return fullMessage(withValue(`{"order_id":"123","lines":["`+strings.Repeat(`some text","`, 85)+`"]}`), func(m *entity.Message) {
		m.ErrorMessage = "could not reserve stock for order 123: connection timed out after 5000 ms"
	})
}

func BenchmarkMessage(b *testing.B) {
	s := newFixture().open().server
	m, v := kilobyte(), view{limit: maxListPayload}
	buf := make([]byte, 0, 8<<10)
	for name, write := range map[string]func(){
		"json": func() { buf = s.appendMessage(buf[:0], &m, v) },
		"csv":  func() { c := s.show(&m, v); buf = c.appendCSV(buf[:0]) },
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
