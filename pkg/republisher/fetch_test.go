package republisher

import (
	"crypto/sha256"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// pointer turns a message into a pointer to an offset of partition 2 of its original topic.
func pointer(offset int64) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(m.OriginalTopic)}}}
		m.Origin.Partition, m.Origin.Offset = ptr(int32(2)), &offset
		m.Source.Timestamp = clock
	}
}

func TestIsPointerInTheseTests(t *testing.T) {
	t.Parallel()
	m := message(pointer(1))
	check.Require(t, deadletter.IsPointer(m.Record), "the message is no pointer")
}

// original is the record that a pointer names.
var original = broker.Record{
	Offset: 7, Time: clock.Add(-time.Hour), Key: []byte("k"), Value: []byte("original"),
	Headers: []entity.Header{{Key: "trace", Value: []byte("1")}, {Key: "__dlq.errors.group", Value: []byte("g")}},
}

func TestPlanOfAPointer(t *testing.T) {
	t.Parallel()
	later := original
	later.Time = clock.Add(time.Hour)
	cases := []struct {
		name   string
		change func(*entity.Message)
		harm   func(*logs)
		kind   error // kind of the error of Plan; nil: the record is sent
	}{
		{"ItsRecordIsThere", pointer(7), nil, nil},
		{"LogBeginsBehindIt", pointer(7), func(l *logs) { l.starts[part(2)] = 8 }, entity.ErrConflict},
		{"CompactedAway", pointer(6), nil, entity.ErrConflict},
		{"WrittenAfterTheDeadLetter", pointer(7), func(l *logs) { l.records[part(2)] = []broker.Record{later} }, entity.ErrConflict},
		{"MayNotBeRead", pointer(7), func(l *logs) { l.errs[part(2)] = broker.ErrUnauthorized }, entity.ErrConflict},
		{"PartitionIsNotThere", pointer(7), func(l *logs) { l.errs[part(2)] = broker.ErrUnknownTopic }, entity.ErrConflict},
		{"LeaderIsAway", pointer(7), func(l *logs) { l.errs[part(2)] = broker.ErrNoLeader }, entity.ErrUnavailable},
		{"DoesNotSayWhere", func(m *entity.Message) { pointer(7)(m); m.Origin.Offset = nil }, nil, entity.ErrConflict},
		{"AnOperatorNamedAnotherTopic", func(m *entity.Message) {
			pointer(7)(m)
			m.Record.Headers[0].Value = []byte("elsewhere")
		}, nil, entity.ErrConflict},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.records[part(2)] = []broker.Record{original}
			if c.harm != nil {
				c.harm(l)
			}
			r := newRepublisher(t, l)
			m := message(c.change)
			target := r.Plan(t.Context(), plain(m), true)[0]
			var refused *entity.RefusedError
			if !errors.Is(target.Err, c.kind) || errors.As(target.Err, &refused) && refused.Class != entity.BadRecord {
				t.Errorf("Plan = %v, want kind %v, refused as BAD_RECORD", target.Err, c.kind)
			}
			check.True(t, !errors.Is(target.Err, entity.ErrUnavailable) || target.Partition == 2,
				"partition = %d, want 2, that others wait for as well", target.Partition)
			_, err := r.Fetch(t.Context(), m)
			check.True(t, c.harm != nil || errors.Is(err, c.kind), "Fetch = %v, want kind %v", err, c.kind)
		})
	}
}

func TestPointersRecordIsSent(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.topics[fixed] = 4
	l.records[part(2)] = []broker.Record{original}
	r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = []string{orders, fixed} })
	batch := claimedAs(t, r,
		entity.Outgoing{Message: message(pointer(7))},
		edited(message(pointer(7)), entity.Edit{Topic: fixed}),
		edited(message(pointer(7)), entity.Edit{SetKey: true, Key: []byte("k2")}),
	)
	want := []struct {
		topic string
		key   []byte
	}{{orders, []byte("k")}, {fixed, []byte("k")}, {orders, []byte("k2")}}
	for i, d := range r.Publish(t.Context(), batch) {
		check.Require(t, d.Verdict == entity.Acknowledged, "Publish = %+v, want acknowledged", d)
		tp := broker.TopicPartition{Topic: want[i].topic, Partition: d.Partition}
		sent := check.Must(l.ReadAtOnce(t.Context(), tp, d.Offset))(t)
		check.True(t, string(sent.Key) == string(want[i].key) && string(sent.Value) == "original",
			"sent %q, %q, want %q and the original's value", sent.Key, sent.Value, want[i].key)
		kept := sent.Headers[:len(sent.Headers)-5]
		check.True(t, reflect.DeepEqual(kept, original.Headers[:1]), "headers = %q, want the original's without the dialect's", kept)
		byKey := broker.Murmur2Partition(want[i].key, 4)
		check.True(t, i <= 0 || d.Partition == byKey, "partition of %d = %d, want %d, by its key", i, d.Partition, byKey)
		hash := entity.RecordHash(sent.Key, sent.Value)
		check.True(t, i <= 0 || batch[i].Target.SentHash == hash, "SentHash of %d = %d, want %d", i, batch[i].Target.SentHash, hash)
	}
}

func TestPointerThatPointsNowhereIsNeverSentAsATombstone(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.records[part(2)] = []broker.Record{original}
	r := newRepublisher(t, l)
	for name, spoil := range map[string]func(*entity.Message){
		"Nowhere": func(m *entity.Message) { m.Origin.Offset = nil },
		"Gone":    func(m *entity.Message) { m.Origin.Offset = ptr(int64(3)) },
	} {
		batch := claimed(t, r, message(pointer(7)))
		spoil(&batch[0].Message) // after Plan, the pointer no longer leads to a record
		d := r.Publish(t.Context(), batch)[0]
		check.True(t, d.Verdict == entity.Rejected && d.Class == entity.BadRecord, "%s: Publish = %+v, want rejected", name, d)
	}
	check.Equal(t, len(l.records[part(2)]), 1, "records of the log")
}

func TestFetch(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("large"))
	over := func(m *entity.Message) {
		m.Record = entity.Record{Key: []byte("k"), State: entity.ValueOverLimit, SHA256: sum[:], Size: 5}
	}
	cases := []struct {
		name   string
		change func(*entity.Message)
		want   string
		kind   error
	}{
		{"OneThatTheMessageHas", func(*entity.Message) {}, "value", nil},
		{"OverTheLimit", over, "large", nil},
		{"APointers", pointer(7), "original", nil},
		{"OverTheLimitAndGone", func(m *entity.Message) { over(m); m.Source.Offset = 8 }, "", entity.ErrConflict},
		{"OverTheLimitAndAnother", func(m *entity.Message) { over(m); m.Record.SHA256 = []byte("x") }, "", entity.ErrConflict},
		{"APointersThatIsGone", pointer(3), "", entity.ErrConflict},
		{"None", state(entity.ValueMissing), "", entity.ErrConflict},
		{"OffsetsThatCannotBeRead", state(entity.ValueUnreadable), "", entity.ErrConflict},
		{"LargerThanCanBeRead", func(m *entity.Message) { over(m); m.Record.Size = broker.ReadLimit + 1 }, "", entity.ErrConflict},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.records[part(2)] = []broker.Record{original}
			l.records[broker.TopicPartition{Topic: deadLetter}] = []broker.Record{{Offset: 7, Value: []byte("large")}}
			r := newRepublisher(t, l)
			m := message(c.change)
			got, err := r.Fetch(t.Context(), m)
			check.True(t, string(got.Value) == c.want && errors.Is(err, c.kind),
				"Fetch = %q, %v, want %q, kind %v", got.Value, err, c.want, c.kind)
			l.down = broker.ErrUnavailable
			if _, fetched := sourceOf(&entity.Outgoing{Message: m}); fetched && m.Record.Size <= broker.ReadLimit {
				check.Is(t, check.Err(r.Fetch(t.Context(), m)), entity.ErrUnavailable, "Fetch without a broker")
			}
			disabled := &Disabled{}
			if _, err := disabled.Fetch(t.Context(), m); (err == nil) != (c.name == "OneThatTheMessageHas") {
				t.Errorf("Fetch without Kafka = %v, want what the message has and nothing else", err)
			}
		})
	}
}
