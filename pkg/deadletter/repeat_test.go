package deadletter

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestDigest: dead letters of one record have the same digest whatever the headers of their failure say. Every
// difference in what a replay would carry, or in what the dead letter says of its record, gives another digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	decoder := check.Must(New(Config{}, check.Must(ParsePatterns("*.dlq.v1"))(t)))(t)
	digest := func(change func(headers map[string]string, r *entity.Record)) uuid.UUID {
		headers := map[string]string{
			"kafka_dlt-original-topic": "orders.events.v1", "kafka_dlt-original-partition": "\x00\x00\x00\x02",
			"kafka_dlt-original-offset": "\x00\x00\x00\x00\x00\x00\x00\x05", "kafka_dlt-original-timestamp": "\x00\x00\x01\x90\x00\x00\x00\x00",
			"kafka_dlt-original-consumer-group": "billing", "kafka_dlt-exception-message": "boom", "tenant": "a",
		}
		r := entity.Record{Key: []byte("k"), Value: []byte("v")}
		change(headers, &r)
		for _, name := range []string{
			"kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset", "kafka_dlt-original-timestamp",
			"kafka_dlt-original-consumer-group", "kafka_dlt-exception-message", "tenant", "owner", HeaderRedriveID,
		} {
			if value, ok := headers[name]; ok {
				r.Headers = append(r.Headers, entity.Header{Key: name, Value: []byte(value)})
			}
		}
		reading := decoder.Decode("orders.dlq.v1", r, time.Now(), nil)
		m := entity.Message{OriginalTopic: reading.OriginalTopic, Origin: reading.Origin, Failure: reading.Failure, Record: r}
		decoder.SetDigest(&m)
		check.True(t, m.Digest == uuid.Nil || m.RecordHash == entity.RecordHash(r.Key, r.Value), "RecordHash of %+v is %d", r, m.RecordHash)
		return m.Digest
	}
	set := func(name, value string) func(map[string]string, *entity.Record) {
		return func(headers map[string]string, _ *entity.Record) { headers[name] = value }
	}
	without := func(name string) func(map[string]string, *entity.Record) {
		return func(headers map[string]string, _ *entity.Record) { delete(headers, name) }
	}
	same := digest(set("tenant", "a"))
	check.True(t, same != uuid.Nil, "a dead letter that names its position has no digest")
	check.Same(t, digest(set("kafka_dlt-exception-message", "another text")), same, "digest with another error message")
	seen := map[uuid.UUID]string{same: "the first"}
	for name, change := range map[string]func(map[string]string, *entity.Record){
		"topic":         set("kafka_dlt-original-topic", "payments.events.v1"),
		"partition":     set("kafka_dlt-original-partition", "\x00\x00\x00\x01"),
		"offset":        set("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x00\x06"),
		"timestamp":     set("kafka_dlt-original-timestamp", "\x00\x00\x01\x90\x00\x00\x00\x01"),
		"no timestamp":  without("kafka_dlt-original-timestamp"),
		"group":         set("kafka_dlt-original-consumer-group", "shipping"),
		"no group":      without("kafka_dlt-original-consumer-group"),
		"header":        set("tenant", "b"),
		"empty header":  set("tenant", ""),
		"no header":     without("tenant"),
		"second header": set("owner", "a"),
		"key":           func(_ map[string]string, r *entity.Record) { r.Key = []byte("l") },
		"null key":      func(_ map[string]string, r *entity.Record) { r.Key = nil },
		"empty key":     func(_ map[string]string, r *entity.Record) { r.Key = []byte{} },
		"value":         func(_ map[string]string, r *entity.Record) { r.Value = []byte("w") },
		"tombstone":     func(_ map[string]string, r *entity.Record) { r.Value = nil },
		"empty value":   func(_ map[string]string, r *entity.Record) { r.Value = []byte{} },
		"moved byte":    func(_ map[string]string, r *entity.Record) { r.Key, r.Value = []byte("kv"), []byte{} },
	} {
		got := digest(change)
		check.True(t, got != uuid.Nil && seen[got] == "", "with another %s the digest is that of %s", name, seen[got])
		seen[got] = name
	}
	for name, change := range map[string]func(map[string]string, *entity.Record){
		"no topic":                 without("kafka_dlt-original-topic"),
		"no partition":             without("kafka_dlt-original-partition"),
		"no offset":                without("kafka_dlt-original-offset"),
		"negative offset":          set("kafka_dlt-original-offset", "\xff\xff\xff\xff\xff\xff\xff\xff"),
		"negative partition":       set("kafka_dlt-original-partition", "\xff\xff\xff\xff"),
		"the header of an attempt": set(HeaderRedriveID, "550e8400-e29b-41d4-a716-446655440000"),
		"a value over the limit":   func(_ map[string]string, r *entity.Record) { r.State = entity.ValueOverLimit },
	} {
		check.Same(t, digest(change), uuid.Nil, "digest with %s", name)
	}
}
