package deadletter

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

func maskingOf(t *testing.T, headers ...string) *Masking {
	t.Helper()
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Headers: headers}))(t)
	return plainDecoder(t).Masking(masks)
}

func plainDecoder(t *testing.T) *Decoder {
	t.Helper()
	return check.Must(New(Config{}, Patterns{}))(t)
}

// When the header from which a field was read is masked, that field is masked in the message, and in every message
// whose headers are not loaded.
func TestMasking_FollowsEveryDialect(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*/*.json")
	check.Require(t, err == nil && len(files) != 0, "%d golden cases, %v", len(files), err)
	for _, file := range files {
		g := readGolden(t, file)
		d := g.decoder(t)
		m := &entity.Message{Source: entity.Source{Topic: g.Topic, Timestamp: g.Timestamp}, Record: entity.Record{Key: g.Key, Value: g.Value, Headers: asHeaders(g.Headers)}}
		exists := func(topic string) bool { return slices.Contains(g.Exists, topic) }
		r := d.Decode(g.Topic, m.Record, g.Timestamp, exists)
		m.OriginalTopic, m.ErrorMessage, m.Failure = r.OriginalTopic, r.ErrorMessage, r.Failure
		e := d.Explain(g.Topic, m.Record, g.Timestamp, exists)
		for name, c := range map[string]struct {
			derived entity.Derived
			masked  func(entity.MaskedFields) bool
		}{
			"error_message":  {e.ErrorMessage, func(f entity.MaskedFields) bool { return f.ErrorMessage }},
			"error_class":    {e.ErrorClass, func(f entity.MaskedFields) bool { return f.ErrorClass }},
			"stack_trace":    {e.StackTrace, func(f entity.MaskedFields) bool { return f.StackTrace }},
			"consumer_group": {e.ConsumerGroup, func(f entity.MaskedFields) bool { return f.ConsumerGroup }},
		} {
			if c.derived.Header == "" || c.derived.Source == entity.ByRecord {
				continue
			}
			masks := check.Must(payload.NewMasks(payload.MaskConfig{Headers: []string{c.derived.Header}}))(t)
			k := d.Masking(masks)
			check.True(t, c.masked(k.Fields()),
				"%s: %s is from %q, and a mask of that may mask %+v", file, name, c.derived.Header, k.Fields())
			got := k.Of(m)
			check.True(t, c.masked(got), "%s: %s is from %q, and a mask of that masks %+v", file, name, c.derived.Header, got)
		}
	}
}

// Masking a header masks every field that may be read from it, in any spelling of its name. Masking another header does
// not mask the failure.
func TestMasking_Fields(t *testing.T) {
	t.Parallel()
	failure := entity.MaskedFields{ErrorMessage: true, ErrorClass: true, StackTrace: true}
	group := entity.MaskedFields{ConsumerGroup: true}
	for header, want := range map[string]entity.MaskedFields{
		"authorization": {}, "x-customer-*": {}, "kafka_dlt-original-topic": {}, "kafka_dlt-exception-message": failure,
		"KAFKA_DLT-EXCEPTION-FQCN": failure, "kafka_dlt-exception-stacktrace": failure, "kafka_dlt-exception-*": failure,
		"kafka_dlt-original-consumer-group": group, "event_id": group, "error": failure, "X-Error-Message": failure,
		"x-err*": failure, "ka*": {ErrorMessage: true, ErrorClass: true, StackTrace: true, ConsumerGroup: true},
		"dlq.consumer.group": group, "__connect.errors.connector.name": group, "*reason": failure, "__connect.errors.exception.message": failure,
		"*": {ErrorMessage: true, ErrorClass: true, StackTrace: true, ConsumerGroup: true},
	} {
		check.Equal(t, maskingOf(t, header).Fields(), want, "what the mask %q masks", header)
	}
}

// A field that a masked header may explain is masked, unless headers are loaded and another one explains the field.
func TestMasking_OfAMessage(t *testing.T) {
	t.Parallel()
	headers := []entity.Header{
		{Key: "kafka_dlt-original-topic", Value: []byte("orders.events.v1")},
		{Key: "kafka_dlt-exception-message", Value: []byte("no credit for 4711")},
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("com.acme.NoCredit")},
		{Key: "kafka_dlt-exception-stacktrace", Value: []byte("com.acme.NoCredit: 4711\n\tat a.b.C(D.java:1)")},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte("billing")},
		{Key: "authorization", Value: []byte("Bearer x")},
	}
	message := func(headers []entity.Header) *entity.Message {
		decoder := plainDecoder(t)
		m := &entity.Message{ID: uuid.New(), Source: entity.Source{Topic: "orders.dlq.v1"}, Record: entity.Record{Headers: headers}}
		r := decoder.Decode(m.Source.Topic, m.Record, m.Source.Timestamp, nil)
		m.OriginalTopic, m.ErrorMessage, m.Failure = r.OriginalTopic, r.ErrorMessage, r.Failure
		return m
	}
	for header, want := range map[string]entity.MaskedFields{
		"authorization":                     {},
		"kafka_dlt-exception-message":       {ErrorMessage: true},
		"kafka_dlt-exception-fqcn":          {}, // not masked, because the class can also be read from the stack trace
		"kafka_dlt-exception-stacktrace":    {StackTrace: true},
		"kafka_dlt-original-consumer-group": {ConsumerGroup: true},
		"kafka_dlt-exception-*":             {ErrorMessage: true, ErrorClass: true, StackTrace: true},
		"x-error-message":                   {},
	} {
		check.Equal(t, maskingOf(t, header).Of(message(headers)), want, "what the mask %q masks", header)
	}
	k := maskingOf(t, "kafka_dlt-exception-message")
	m := message(headers)
	m.Record.Headers, m.Record.HeadersOmitted = nil, true
	check.Equal(t, k.Of(m), k.Fields(), "masked fields without headers")
	m = message(headers)
	m.ErrorMessage = "read from another header in other days"
	got := k.Of(m)
	check.True(t, got.ErrorMessage, "an error message that no other header explains: masks %+v, want the message", got)
	other := message([]entity.Header{{Key: "__connect.errors.topic", Value: []byte("t")}, {Key: "__connect.errors.exception.message", Value: []byte("fine")}})
	check.Equal(t, k.Of(other), (entity.MaskedFields{}), "masks of another framework's message")
}
