package deadletter

import (
	"slices"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func springHeaders(topics ...string) []entity.Header {
	var out []entity.Header
	for i, topic := range topics {
		out = append(out,
			entity.Header{Key: "kafka_dlt-original-topic", Value: []byte(topic)},
			entity.Header{Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, byte(i)}},
			entity.Header{Key: "kafka_dlt-original-offset", Value: []byte{0, 0, 0, 0, 0, 0, 4, 0xD2}},
			entity.Header{Key: "kafka_dlt-original-timestamp", Value: []byte("1714554000000")},
		)
	}
	return out
}

// A dead-letter topic is never the original topic: a replay to it would be stored as a new dead letter and could be
// replayed again and again.
func TestOriginIsNeverADeadLetterTopic(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		topic  string
		chain  []string
		exists []string
		want   string
		conf   entity.Confidence
		part   int32 // -1 when no partition is expected
	}{
		{"Plain", "x", []string{"orders"}, nil, "orders", entity.FromHeader, 0},
		{"HeaderMatchesPattern", "x", []string{"orders.dlq.v1"}, nil, "", entity.FromNothing, -1},
		{"HeaderIsTheTopicItself", "unmatched", []string{"unmatched"}, nil, "", entity.FromNothing, -1},
		{"ChainGoesOnToTheRoot", "x", []string{"a.dlq.v1", "orders", "b.dlq.v1"}, nil, "orders", entity.FromHeader, 1},
		{"ImpossibleNameDoesNotCount", "x", []string{"a b", "orders"}, nil, "orders", entity.FromHeader, 1},
		{"EmptyNameDoesNotCount", "x", []string{"", "orders"}, nil, "orders", entity.FromHeader, 1},
		{"PlainBeatsRetryByName", "x", []string{"orders-retry-0", "orders"}, nil, "orders", entity.FromHeader, 1},
		{"RetryByNameIfNothingElse", "x", []string{"orders-retry-0"}, nil, "orders-retry-0", entity.FromHeader, 0},
		{"ThenTheName", "orders.dlq.v1", []string{"orders.dlq.v1"}, []string{"orders.v1"}, "orders.v1", entity.FromName, -1},
		{"NameIsADeadLetterTopicItself", "a.dlq.v1.dlq.v1", nil, []string{"a.dlq.v1"}, "", entity.FromNothing, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := decoder(t, []string{"*.dlq.v1"})
			exists := func(topic string) bool { return slices.Contains(tt.exists, topic) }
			r := d.Decode(tt.topic, entity.Record{Headers: springHeaders(tt.chain...)}, time.Time{}, exists)
			check.True(t, r.OriginalTopic == tt.want && r.Origin.Confidence == tt.conf,
				"Decode = %q by %s, want %q by %s", r.OriginalTopic, r.Origin.Confidence, tt.want, tt.conf)
			part := int32(-1)
			if r.Origin.Partition != nil {
				part = *r.Origin.Partition
			}
			check.Equal(t, part, tt.part, "partition ((that of the topic's own hop))")
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		topic  string
		exists []string
		want   string
		group  string
	}{
		{"orders-dlt", []string{"orders"}, "orders", ""},
		{"orders.DLT", []string{"orders"}, "orders", ""},
		{"orders.dlq", []string{"orders"}, "orders", ""},
		{"orders-dlq", []string{"orders"}, "orders", ""},
		{"orders-dlq", nil, "", ""},
		{"-dlq", []string{""}, "", ""},
		{"orders-retry-1000", []string{"orders"}, "orders", ""},
		{"orders-retry", []string{"orders"}, "orders", ""},
		{"orders-retry-x", []string{"orders"}, "", ""},
		{"orders.billing-dlq", []string{"orders"}, "orders", "billing"},
		{"orders.billing-dlq", []string{"orders.billing"}, "orders.billing", ""},
		{"orders.billing-dlq", []string{"orders", "orders.billing"}, "", ""},
		{"error.orders.billing", []string{"orders"}, "orders", "billing"},
		{"error.a.b.c", []string{"a.b"}, "a.b", "c"},
		{"error.a.b.c", []string{"a"}, "a", "b.c"},
		{"error.a.b.c", []string{"a", "a.b"}, "", ""},
		{"error.orders.", []string{"orders"}, "", ""},
		{"orders.dlq.v1", []string{"orders.v1"}, "orders.v1", ""},
		{"orders.dlq.v1", []string{"orders"}, "orders", ""},
		{"orders.dlq.v1", []string{"orders", "orders.v1"}, "", ""},
		{"orders.dlq.v1", []string{"orders.events.v1"}, "", ""},
		{"orders.dlq.v12", []string{"orders.v12", "orders.v1"}, "orders.v12", ""},
		{"orders.dlq.v", []string{"orders", "orders.v"}, "", ""},
		{"orders-dlt-dlt", []string{"orders-dlt"}, "", ""},
		{"dead-letter-topic-orders", []string{"orders"}, "", ""}, // the rest of the name is that of a channel, not of a topic
		{"orders_error", []string{"orders"}, "", ""},             // the rest of the name is that of a queue, not of a topic
		{"dlq.orders", []string{"orders"}, "", ""},
	}
	for _, tt := range tests {
		d := decoder(t, []string{"nothing"})
		exists := func(topic string) bool { return slices.Contains(tt.exists, topic) }
		r := d.Decode(tt.topic, entity.Record{}, time.Time{}, exists)
		if r.OriginalTopic != tt.want || r.Failure.ConsumerGroup != tt.group {
			t.Errorf("Decode(%s), %v existing = %q, group %q, want %q, group %q",
				tt.topic, tt.exists, r.OriginalTopic, r.Failure.ConsumerGroup, tt.want, tt.group)
		}
		none := d.Decode(tt.topic, entity.Record{}, time.Time{}, nil)
		check.True(t, none.OriginalTopic == "", "Decode(%s) without a cluster = %q, want unknown", tt.topic, none.OriginalTopic)
	}
}

func TestAnUnalignedPositionIsLeftOut(t *testing.T) {
	t.Parallel()
	h := springHeaders("orders", "orders-dlt")
	h = slices.Delete(h, 5, 6) // removes the header with the partition of the second failure
	r := decoder(t, []string{"*-dlt"}).Decode("x-dlt", entity.Record{Headers: h}, time.Time{}, nil)
	if r.OriginalTopic != "orders" || r.Origin.Partition != nil || r.Origin.Offset == nil {
		t.Errorf("Decode = %q, partition %v, offset %v, want orders, no partition, an offset", r.OriginalTopic, r.Origin.Partition, r.Origin.Offset)
	}
}

func TestExistsIsNotAskedWhenAHeaderTells(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*-dlt"})
	d.Decode("orders-dlt", entity.Record{Headers: springHeaders("orders")}, time.Time{}, func(topic string) bool {
		t.Errorf("exists(%q) was asked", topic)
		return true
	})
}

func TestValueOverLimitIsNoPointer(t *testing.T) {
	t.Parallel()
	h := []entity.Header{{Key: "__dlq.errors.topic", Value: []byte("orders")}}
	d := decoder(t, []string{"dlq.*"})
	for state, want := range map[entity.ValueState]bool{entity.ValueStored: true, entity.ValueOverLimit: false} {
		r := d.Decode("dlq.g", entity.Record{Headers: h, State: state}, time.Time{}, nil)
		check.Equal(t, r.Pointer, want, "value state %d: Pointer", state)
	}
}

// The record has the headers of so many failures (hops) that a separate pass for each of them would take hours.
func TestAHundredThousandHopsAreReadInOnePass(t *testing.T) {
	t.Parallel()
	const hops = 100_000
	for _, key := range []string{"kafka_dlt-original-topic", "delayed-retry-topic", "x-origin-topic"} {
		h := make([]entity.Header, hops)
		for i := range h {
			h[i] = entity.Header{Key: key, Value: []byte("a.dlq.v1")}
		}
		h[hops/2].Value = []byte("orders")
		r := decoder(t, []string{"*.dlq.v1"}).Decode("b.dlq.v1", entity.Record{Headers: h}, time.Time{}, nil)
		check.Equal(t, r.OriginalTopic, "orders", "%d times %s: original topic", hops, key)
	}
}

// Some producers write the position of the record that failed, but not its topic, which then comes from elsewhere.
func TestAPositionWithoutATopicBelongsToTheTopicFoundElsewhere(t *testing.T) {
	t.Parallel()
	position := []entity.Header{{Key: "original_partition", Value: []byte("0")}, {Key: "original_offset", Value: []byte("7")}}
	with := func(more ...string) []entity.Header { return append(slices.Clip(position), handWritten(more...)...) }
	mapped := []MapRule{{"mapped.dlq.v1", "orders"}}
	for name, tt := range map[string]struct {
		topic   string
		headers []entity.Header
		want    string // original topic
		offset  int64  // -1: none
	}{
		"Mapping":           {"mapped.dlq.v1", position, "orders", 7},
		"Name":              {"orders.dlq.v1", position, "orders.v1", 7},
		"Nothing":           {"x", position, "", 7},
		"EmptyTopic":        {"mapped.dlq.v1", with("original_topic="), "orders", 7},
		"OtherDialect":      {"mapped.dlq.v1", with("exc_class=E", "exc_msg=x"), "orders", 7},
		"SameTopic":         {"mapped.dlq.v1", with("source-topic=orders"), "orders", 7},
		"AnotherTopic":      {"mapped.dlq.v1", with("source-topic=payments"), "orders", -1},
		"DeadLetterTopic":   {"mapped.dlq.v1", with("source-topic=payments.dlq.v1"), "orders", -1},
		"TopicOfAnother":    {"mapped.dlq.v1", with("__connect.errors.topic=payments"), "orders", -1},
		"FailedAgain":       {"mapped.dlq.v1", with("original_partition=0", "original_offset=9"), "orders", 9},
		"UnequalNumbers":    {"mapped.dlq.v1", with("original_offset=9"), "orders", -1},
		"OffsetOfConnector": {"mapped.dlq.v1", handWritten("__connect.errors.partition=0", "__connect.errors.offset=8"), "orders", 8},
		"NoSource":          {"mapped.dlq.v1", handWritten("__streams.errors.exception=E", "__streams.errors.topic=", "__streams.errors.partition=-1", "__streams.errors.offset=-1"), "orders", -1},
	} {
		rec, exists := entity.Record{Headers: tt.headers}, func(topic string) bool { return topic == "orders.v1" }
		d := decoder(t, []string{"*.dlq.v1"}, mapped...)
		r := d.Decode(tt.topic, rec, time.Time{}, exists)
		check.Equal(t, r.OriginalTopic, tt.want, "%s: original topic", name)
		known := r.Origin.Partition != nil && *r.Origin.Partition == 0 && r.Origin.Offset != nil
		if tt.offset < 0 {
			check.True(t, r.Origin.Partition == nil && r.Origin.Offset == nil, "%s: partition %v, offset %v, want none", name, r.Origin.Partition, r.Origin.Offset)
			continue
		}
		check.True(t, known && *r.Origin.Offset == tt.offset, "%s: partition %v, offset %v, want 0 and %d", name, r.Origin.Partition, r.Origin.Offset, tt.offset)
		from := d.Explain(tt.topic, rec, time.Time{}, exists).OriginalOffset
		check.True(t, from.Header != "" && from.Source != entity.ByNothing, "%s: the offset comes from %+v, want a header", name, from)
	}
}

// An operator's topic keeps the position, unless the headers say that the position is one of another topic.
func TestPositionHolds(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"}, MapRule{"mapped.dlq.v1", "orders"})
	for name, tt := range map[string]struct {
		headers []entity.Header
		set     string // topic that an operator has set; "" for none
		want    bool
	}{
		"Untouched":    {springHeaders("orders"), "", true},
		"SameTopic":    {springHeaders("orders"), "orders", true},
		"AnotherTopic": {springHeaders("orders"), "payments", false},
		"NoTopic":      {handWritten("original_partition=0", "original_offset=7"), "payments", true},
	} {
		rec := entity.Record{Headers: tt.headers}
		m := messageOf("mapped.dlq.v1", rec, d.Decode("mapped.dlq.v1", rec, time.Time{}, nil))
		if tt.set != "" {
			m.OriginalTopic, m.Origin.Confidence = tt.set, entity.FromOperator
		}
		check.Equal(t, d.PositionHolds(&m), tt.want, "%s: PositionHolds", name)
	}
}
