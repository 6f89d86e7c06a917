package republisher

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const wrapped = `{"originalTopic":"orders","originalMessage":"{\"secret\":1}","error":{"message":"declined"}}`

// holding returns a change that gives a message a value, and an original topic from the given source.
func holding(value string, from entity.Confidence) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Origin.Confidence = from
		m.Record.Value, m.Record.Size = []byte(value), int64(len(value))
	}
}

// TestPlanOfAnEnvelope: what an attempt would send decides, not what is stored.
func TestPlanOfAnEnvelope(t *testing.T) {
	t.Parallel()
	spring := func(m *entity.Message) {
		holding(wrapped, entity.FromMapping)(m)
		m.Record.Headers = []entity.Header{{Key: "kafka_dlt-original-topic", Value: []byte("old")}}
	}
	inner, outer := entity.Edit{SetValue: true, Value: []byte(`{"secret":1}`)}, entity.Edit{SetValue: true, Value: []byte(wrapped)}
	cases := []struct {
		name    string
		change  func(*entity.Message)
		edit    *entity.Edit
		bulk    bool
		accept  bool
		looks   bool
		refused entity.ErrorClass // "" when the message can be sent
	}{
		{"FromAName", holding(wrapped, entity.FromName), nil, false, false, true, entity.Envelope},
		{"FromANameInBulk", holding(wrapped, entity.FromName), nil, true, false, true, entity.Envelope},
		{"AcceptedFromANameInBulk", holding(wrapped, entity.FromName), nil, true, true, true, entity.UnknownTopic},
		{"FromAMapping", holding(wrapped, entity.FromMapping), nil, true, false, true, entity.Envelope},
		{"FromAnOperator", holding(wrapped, entity.FromOperator), nil, true, false, true, entity.Envelope},
		{"FromAHeader", holding(wrapped, entity.FromHeader), nil, true, false, false, ""},
		{"MappedAlthoughAHeaderNamesATopic", spring, nil, true, false, false, ""},
		{"Accepted", holding(wrapped, entity.FromMapping), nil, true, true, true, ""},
		{"AcceptedForNothing", holding(`{"id":1}`, entity.FromMapping), nil, true, true, false, ""},
		{"OrdinaryValue", holding(`{"id":1,"error":"x"}`, entity.FromMapping), nil, true, false, false, ""},
		{"EditedToTheRecordInIt", holding(wrapped, entity.FromMapping), &inner, false, false, false, ""},
		{"EditedToAnEnvelope", holding(`{"id":1}`, entity.FromMapping), &outer, false, false, true, entity.Envelope},
		{"EditOfTheKey", holding(wrapped, entity.FromMapping), &entity.Edit{SetKey: true}, false, false, true, entity.Envelope},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := entity.Outgoing{Message: message(c.change), Edit: c.edit, AcceptEnvelope: c.accept}
			target := newRepublisher(t, newLogs()).Plan(t.Context(), []entity.Outgoing{out}, c.bulk)[0]
			check.Equal(t, target.Envelope, c.looks, "Envelope of the target")
			if c.refused == "" {
				check.NoError(t, target.Err)
				return
			}
			refused := check.As[*entity.RefusedError](t, target.Err, "Plan")
			check.Equal(t, refused.Class, c.refused, "class")
			check.True(t, refused.OfMessage() == (c.refused == entity.Envelope), "OfMessage = %t", refused.OfMessage())
			for _, part := range []string{"originalTopic, originalMessage, error", "whole envelope of 92 bytes", "to topic orders;"} {
				check.True(t, c.refused != entity.Envelope || strings.Contains(refused.Reason, part), "reason %q lacks %q", refused.Reason, part)
			}
			check.True(t, !strings.Contains(refused.Reason, "secret") && !strings.Contains(refused.Reason, "declined"), "reason %q has values", refused.Reason)
		})
	}
}

// TestPlanOfAnEnvelopeThatIsNotStored: a value that only Kafka has is read before the attempt if it may be an envelope.
func TestPlanOfAnEnvelopeThatIsNotStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from    entity.Confidence
		size    int
		edit    *entity.Edit
		refused bool
	}{
		"Small": {entity.FromMapping, len(wrapped), nil, true}, "AtTheLimit": {entity.FromName, deadletter.MaxEnvelope, nil, true},
		"OverTheLimit": {entity.FromMapping, deadletter.MaxEnvelope + 1, nil, false}, "FromAHeader": {entity.FromHeader, len(wrapped), nil, false},
		"Edited": {entity.FromMapping, len(wrapped), &entity.Edit{SetValue: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value := []byte(wrapped + strings.Repeat(" ", c.size-len(wrapped)))
			l := newLogs()
			l.records[broker.TopicPartition{Topic: deadLetter}] = []broker.Record{{Offset: 7, Key: []byte("key"), Value: value}}
			sum := sha256.Sum256(value)
			m := message(func(m *entity.Message) {
				m.Origin.Confidence = c.from
				m.Record = entity.Record{Key: []byte("key"), Size: int64(c.size), State: entity.ValueOverLimit, SHA256: sum[:], Limit: entity.LimitRecordBytes}
			})
			target := newRepublisher(t, l).Plan(t.Context(), []entity.Outgoing{{Message: m, Edit: c.edit}}, false)[0]
			check.True(t, (target.Err != nil) == c.refused && target.Envelope == c.refused, "Plan = %+v, want refused %t", target, c.refused)
		})
	}
}
