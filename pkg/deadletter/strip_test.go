package deadletter

import (
	"reflect"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestStripKeepsOrderRepeatsAndNulls(t *testing.T) {
	t.Parallel()
	in := []entity.Header{
		{Key: "b", Value: []byte("1")},
		{Key: "kafka_dlt-exception-message", Value: []byte("x")},
		{Key: "a"},
		{Key: "b", Value: []byte{}},
		{Key: ""},
		{Key: "\xff", Value: []byte{0}},
		{Key: HeaderRedriveID, Value: []byte(idA)},
	}
	before := append([]entity.Header{}, in...)
	want := []entity.Header{in[0], in[2], in[3], in[4], in[5]}
	got := Strip("spring-dlt", in)
	check.Equal(t, got, want, "Strip")
	got[0].Key = "changed"
	check.True(t, reflect.DeepEqual(in, before), "Strip's result shares its list with the record")
}

func TestStripOfNothing(t *testing.T) {
	t.Parallel()
	check.Equal(t, Strip("", nil), nil, "Strip(nil)")
}

// Headers with names that applications use must be kept for every dialect.
func TestStripKeepsWhatIsNotTheProducers(t *testing.T) {
	t.Parallel()
	keep := []string{
		"traceparent", "tracestate", "baggage", "b3", "ce_id", "ce_type", "content-type", "correlation_id", "type",
		"spring_json_header_types", "__TypeId__", "kafka_correlationId", "kafka_replyTopic", "kafka_replyPartition",
		"kafka_nativeHeaders", "kafka_messageKey", "_watermill_message_uuid", "x-chunk-index", "x-chunk-count",
		"NServiceBus.MessageId", "MT-Activity-Id", "dlq-reason", "x-request-id", "original-uri",
	}
	for _, dialect := range append(Dialects(), "", "nobody") {
		for _, key := range keep {
			got := Strip(dialect, []entity.Header{{Key: key}})
			check.True(t, len(got) == 1, "Strip(%q) drops %s", dialect, key)
		}
	}
}

func TestStripTakesPlainWordsOnlyForTheirDialect(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, dialect string }{
		{"error", "k1s0"},
		{"original_topic", "k1s0"},
		{"original_topic", "hexkit"},
		{"event_id", "hexkit"},
		{"original_key", "karafka-legacy"},
		{"source_topic", "karafka"},
		{"submitTimestamp", "greyhound"},
		{"failed-at", "wolverine"},
		{"__topic", "dapr"},
		{"pubsubName", "dapr"},
		{"X-OriginalTopic", "quafka"},
		{"X-ForwardingTopic", "quafka"},
	}
	for _, tt := range tests {
		h := []entity.Header{{Key: tt.key}}
		got := Strip(tt.dialect, h)
		check.True(t, len(got) == 0, "Strip(%q) keeps %s", tt.dialect, tt.key)
		for _, other := range []string{"", "generic", "connect"} {
			got := Strip(other, h)
			check.True(t, len(got) == 1, "Strip(%q) drops %s", other, tt.key)
		}
	}
}

// A replay must contain no header that its dialect reads, because its consumer would treat the replay as a failure.
func TestStripTakesEveryWordThatTheDialectReads(t *testing.T) {
	t.Parallel()
	for i := range dialects {
		for _, word := range dialects[i].words() {
			got := Strip(dialects[i].name, []entity.Header{{Key: word}})
			check.True(t, len(got) == 0, "Strip(%q) keeps %s", dialects[i].name, word)
		}
	}
}
