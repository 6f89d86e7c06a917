package republisher

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// A replay must not keep the headers of a dialect that the user has configured, because with these headers the replay
// would look like a dead letter.
func TestReplaysLeaveTheHeadersOfConfiguredDialectsBehind(t *testing.T) {
	t.Parallel()
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(t)
	decoder := check.Must(deadletter.New(deadletter.Config{Dialects: []deadletter.DialectConfig{
		{Name: "acme", Anchors: []string{"acme-topic"}, Topic: "acme-topic", Strip: []string{"acme-tmp-*"}},
	}}, patterns))(t)
	r := check.Must(New(DefaultConfig(), patterns, nil, nil, WithDecoder(decoder)))(t)
	out := &entity.Outgoing{
		Message: entity.Message{Failure: entity.Failure{Dialect: "acme"}},
		Target:  entity.Target{Topic: "orders"},
	}
	sent := r.record(out, entity.Record{Headers: []entity.Header{
		{Key: "acme-topic", Value: []byte("orders")}, {Key: "acme-tmp-1"}, {Key: "acme-id"},
	}})
	kept := sent.Headers[:len(sent.Headers)-5]
	check.True(t, len(kept) == 1 && kept[0].Key == "acme-id", "kept %v, want acme-id alone", kept)
}

// Of a record with too many headers only the first are stored, so what its replay loses shows in the record itself.
func TestReplaysOfRecordsThatAreNotStoredWholeLoseTheirFailure(t *testing.T) {
	t.Parallel()
	r := check.Must(New(DefaultConfig(), deadletter.Patterns{}, nil, nil))(t)
	first := entity.Header{Key: "tenant", Value: []byte("a")}
	out := &entity.Outgoing{Message: message(func(m *entity.Message) {
		m.Failure.Dialect = "generic"
		m.Record = entity.Record{State: entity.ValueOverLimit, Limit: "max_headers", Headers: []entity.Header{first}}
	})}
	sent := r.record(out, entity.Record{Headers: []entity.Header{
		first, {Key: "originalTopic", Value: []byte("orders")}, {Key: "x-attempts", Value: []byte("5")},
	}})
	check.Equal(t, sent.Headers[:len(sent.Headers)-5], []entity.Header{first}, "kept headers")
}
