package rest

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// referenceMessage is a message as encoding/json writes it. The payload stands
// between two halves, since encoding/json would rewrite it.
type (
	referenceHead struct {
		ID            uuid.UUID `json:"id"`
		OriginalTopic string    `json:"original_topic"`
		ErrorMessage  string    `json:"error_message"`
		RetryCount    int       `json:"retry_count"`
		MaxRetries    int       `json:"max_retries"`
	}
	referenceTail struct {
		Status      entity.Status `json:"status"`
		CreatedAt   *string       `json:"created_at"`
		UpdatedAt   *string       `json:"updated_at"`
		LastRetryAt *string       `json:"last_retry_at"`

		DLQTopic              *string            `json:"dlq_topic"`
		DLQPartition          *int32             `json:"dlq_partition"`
		DLQOffset             *int64             `json:"dlq_offset"`
		DLQTimestamp          *string            `json:"dlq_timestamp"`
		DLQTimestampMs        *int64             `json:"dlq_timestamp_ms"`
		OriginalPartition     *int32             `json:"original_partition"`
		OriginalOffset        *int64             `json:"original_offset"`
		OriginalTimestamp     *string            `json:"original_timestamp"`
		ConsumerGroup         *string            `json:"consumer_group"`
		ErrorClass            *string            `json:"error_class"`
		StackTrace            *string            `json:"stack_trace"`
		ConsumerAttempts      *int               `json:"consumer_attempts"`
		Dialect               *string            `json:"dialect"`
		OriginConfidence      *entity.Confidence `json:"origin_confidence"`
		Undeclared            bool               `json:"undeclared"`
		UndeclaredReason      *string            `json:"undeclared_reason"`
		GroupID               *uuid.UUID         `json:"group_id"`
		ParentID              *uuid.UUID         `json:"parent_id"`
		ReturnConfirmed       *bool              `json:"return_confirmed"`
		RootID                uuid.UUID          `json:"root_id"`
		Outcome               *entity.Outcome    `json:"outcome"`
		OutcomeGroup          *string            `json:"outcome_group"`
		OutcomeOffset         *int64             `json:"outcome_offset"`
		NextAttemptAt         *string            `json:"next_attempt_at"`
		FinishedAt            *string            `json:"finished_at"`
		LastPublishError      *string            `json:"last_publish_error"`
		LastPublishErrorClass *entity.ErrorClass `json:"last_publish_error_class"`
		Key                   *blob              `json:"key"`
		KeyOmitted            *string            `json:"key_omitted"`
		KeySize               *int64             `json:"key_size"`
		Headers               []headerJSON       `json:"headers"`
		HeadersOmitted        *string            `json:"headers_omitted"`
		PayloadOmitted        *string            `json:"payload_omitted"`
		PayloadSize           *int64             `json:"payload_size"`
		PayloadURL            *string            `json:"payload_url"`
		LimitExceeded         *string            `json:"limit_exceeded"`
		UnreadableReason      *string            `json:"unreadable_reason"`
		LastOffset            *int64             `json:"last_offset"`
		Masked                []string           `json:"masked"`
	}
)

func referenceMessage(s *Server, m *entity.Message, v view) []byte {
	c := s.show(m, v)
	t := referenceTail{
		Status: m.Status, CreatedAt: stamp(m.CreatedAt), UpdatedAt: stamp(m.UpdatedAt), LastRetryAt: stamp(m.LastRetryAt),
		DLQTopic: orNull(m.Source.Topic), DLQTimestamp: stamp(m.Source.Timestamp), DLQTimestampMs: orNull(m.Source.RawTime),
		OriginalPartition: m.Origin.Partition, OriginalOffset: m.Origin.Offset, OriginalTimestamp: stamp(m.Origin.Timestamp),
		ConsumerGroup: orNull(m.Failure.ConsumerGroup), ErrorClass: orNull(m.Failure.Class), StackTrace: orNull(c.stackTrace),
		ConsumerAttempts: m.Failure.Attempts, Dialect: orNull(m.Failure.Dialect), OriginConfidence: orNull(m.Origin.Confidence),
		GroupID: orNull(m.Group), ParentID: orNull(m.Parent), RootID: rootOf(m), Outcome: orNull(m.Outcome),
		NextAttemptAt: stamp(m.NextAttemptAt), FinishedAt: stamp(m.FinishedAt()),
		LastPublishError: orNull(m.LastPublishError), LastPublishErrorClass: orNull(m.LastPublishErrorClass),
		Key: showBytes(m.Record.Key), KeyOmitted: orNull(keyOmitted(m.Record)), KeySize: keySize(m.Record), HeadersOmitted: orNull(headersOmitted(m.Record)),
		PayloadOmitted: orNull(c.omitted), PayloadSize: c.size, PayloadURL: orNull(c.url),
		LimitExceeded: orNull(c.Record.Limit), UnreadableReason: orNull(c.Record.Unreadable), LastOffset: c.lastOffset(), Masked: listOf(c.masked),
	}
	if m.Source.Known() {
		t.DLQPartition, t.DLQOffset = &m.Source.Partition, &m.Source.Offset
	}
	if m.Parent != uuid.Nil {
		confirmed := !m.UnconfirmedReturn
		t.ReturnConfirmed = &confirmed
	}
	if c := m.Consumption; c != nil {
		t.OutcomeGroup, t.OutcomeOffset = orNull(c.Group), &c.Offset
	}
	if !m.Record.HeadersOmitted || m.Record.Headers != nil {
		t.Headers = s.showHeaders(m.Record.Headers, v.unmasked != nil)
	}
	var out bytes.Buffer
	out.Write(bytes.TrimSuffix(encode(referenceHead{m.ID, m.OriginalTopic, m.ErrorMessage, m.RetryCount, m.MaxRetries}), []byte("}")))
	out.WriteString(`,"payload":`)
	if c.payload == nil {
		out.WriteString("null")
	}
	out.Write(c.payload)
	out.WriteByte(',')
	out.Write(bytes.TrimPrefix(encode(t), []byte("{")))
	return out.Bytes()
}

// fullMessage has something in every field.
func fullMessage(change ...func(*entity.Message)) entity.Message {
	partition, offset, attempts := int32(0), int64(-1), 5
	m := message(idA, func(m *entity.Message) {
		m.ErrorMessage = "bad \"quote\" \\ \x00\x01\x1f\x7f tab\t nl\n cr\r \b\f <b>&amp; \u2028\u2029 \u202eltr\u200f \u0085 修正 \U0001F600 \xff\xfe"
		m.UnconfirmedReturn = true
		m.Status, m.RetryCount, m.Group, m.Parent, m.Root = entity.Dead, 3, idB, idB, idGone
		m.LastRetryAt, m.UpdatedAt, m.NextAttemptAt = noon.Add(time.Minute), noon.Add(1500*time.Millisecond), noon
		m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: noon, Confidence: entity.FromName}
		m.Failure = entity.Failure{Class: "java.lang.Boom", StackTrace: "at x\n\tat y", ConsumerGroup: "billing", Attempts: &attempts, Dialect: "spring"}
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
	for name, m := range map[string]entity.Message{
		"Full":           fullMessage(),
		"Bare":           {ID: idA},
		"KeyOmitted":     fullMessage(func(m *entity.Message) { m.Record.KeyOmitted, m.Record.Key = 9, nil }),
		"HeadersOmitted": fullMessage(func(m *entity.Message) { m.Record.HeadersOmitted, m.Record.Headers = true, nil }),
		"FirstHeaders":   fullMessage(func(m *entity.Message) { m.Record.HeadersOmitted = true }),
		"NotLoaded":      fullMessage(func(m *entity.Message) { m.Record.State = entity.ValueNotLoaded }),
		"NotJSON":        fullMessage(withValue("\xff")),
		"NoDate":         fullMessage(func(m *entity.Message) { m.Source.Timestamp, m.Source.RawTime = time.Time{}, math.MinInt64 }),
		"Tombstone":      fullMessage(func(m *entity.Message) { m.Record.Value = nil }),
	} {
		for masks, s := range map[string]*Server{
			"plain": newFixture().open().server,
			"masked": func() *Server {
				f := newFixture()
				f.options = []Option{WithMasks(maskOf("$.card", "token"))}
				return f.open().server
			}(),
		} {
			v := view{limit: maxListPayload}
			got, want := s.appendMessage(nil, &m, v), referenceMessage(s, &m, v)
			if !bytes.Equal(got, want) {
				t.Errorf("%s, %s\n got %s\nwant %s", name, masks, got, want)
			}
			if !json.Valid(got) {
				t.Errorf("%s, %s: %s is not JSON", name, masks, got)
			}
		}
	}
}

// Characters that turn text around, or end lines, come through as data and never
// as themselves.
func TestMarksAreEscapedEverywhere(t *testing.T) {
	t.Parallel()
	const marks = "\x00\x07\x1b\r\n\x7f\u0085\u009f\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
	const evil = marks + "\u202egpj.exe\u2066\u200b\x7f\u0085\u2028\x1b[31m\x00'; drop table dlq.messages; --\r\nSet-Cookie: x=1"
	m := message(idA, func(m *entity.Message) {
		m.OriginalTopic, m.ErrorMessage, m.LastPublishError = evil, evil, evil
		m.Failure.Class, m.Failure.ConsumerGroup, m.Failure.Dialect = evil, evil, evil
		m.Record.Key, m.Record.Headers = []byte(evil), []entity.Header{{Key: evil, Value: []byte(evil)}}
	})
	f := newFixture(m).open()
	for _, target := range []string{"/api/v1/dlq/messages/" + idA.String(), "/api/v1/messages", "/api/v1/export", "/api/v1/dlq/orders.dlq.v1"} {
		w := f.do("GET", target, "")
		body := strings.TrimSuffix(w.Body.String(), "\n")
		if w.Code != 200 || strings.ContainsAny(body, marks) {
			t.Errorf("GET %s = %d %q, want no such character in it", target, w.Code, body)
		}
		var shown struct {
			Messages []map[string]any
			Error    string `json:"error_message"`
		}
		if err := json.Unmarshal([]byte(body), &shown); err != nil {
			t.Fatal(err)
		}
		got := shown.Error
		if len(shown.Messages) == 1 {
			got, _ = shown.Messages[0]["error_message"].(string)
		}
		if got != evil {
			t.Errorf("GET %s: error_message = %q, want %q", target, got, evil)
		}
		if len(w.Result().Cookies()) > 0 {
			t.Errorf("GET %s sets a cookie", target)
		}
	}
	e := wantEnvelope(t, f.do("GET", "/api/v1/dlq/messages/%E2%80%AEx", ""), 400, codeValidation)
	if raw := f.do("GET", "/api/v1/dlq/messages/%E2%80%AEx", "").Body.String(); strings.ContainsRune(raw, '\u202e') || !strings.ContainsRune(e.Message, '\u202e') {
		t.Errorf("error %s, want the mark escaped", raw)
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

// kilobyte is a message as exports meet them: a kilobyte of JSON and some headers.
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
		"appended":  func() { buf = s.appendMessage(buf[:0], &m, v) },
		"reflected": func() { referenceMessage(s, &m, v) },
		"csv":       func() { c := s.show(&m, v); buf = c.appendCSV(buf[:0]) },
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
