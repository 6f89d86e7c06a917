package deadletter

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// FuzzDecode gives the headers of all dialects arbitrary values. With these values Decode must not panic, the database
// must be able to store the result, and a replay that is based on the result must be safe.
func FuzzDecode(f *testing.F) {
	words := fuzzWords()
	f.Add("orders.dlq.v1", []byte("k"), []byte("\x00\x06orders\x01\x04\x00\x00\x00\x03"))
	f.Add("error.a.b", []byte(nil), []byte{})
	for i := range words {
		f.Add("orders-dlt", []byte("k"), append([]byte{byte(i), 6}, "orders"...))
	}
	f.Add("uber", []byte("\x08\x02\x12\x06orders\x18\x03\x20\xD2\x09"), []byte{})
	d := fuzzDecoder(f)
	f.Fuzz(func(t *testing.T, topic string, key, raw []byte) {
		rec := entity.Record{Key: key, Headers: fuzzHeaders(words, raw)}
		exists := func(name string) bool { return len(name)%2 == 0 }
		r := d.Decode(topic, rec, time.UnixMilli(int64(len(raw))<<32), exists)
		checkReading(t, d, topic, r)
		check.Equal(t, d.StackTrace(topic, rec), r.Failure.StackTrace, "StackTrace")
		checkExplanation(t, r, d.Explain(topic, rec, time.UnixMilli(int64(len(raw))<<32), exists))
		m := messageOf(topic, rec, r)
		kept := d.Strip(&m, r.OriginalTopic, rec.Headers)
		check.True(t, len(kept) <= len(rec.Headers), "Strip made %d headers of %d", len(kept), len(rec.Headers))
		ReplayKey(r.Failure.Dialect, rec)
	})
}

func fuzzDecoder(f *testing.F) *Decoder {
	patterns := check.Must(ParsePatterns("*.dlq.v1", "^.*-dlt$"))(f)
	d := check.Must(New(Config{
		TopicMap:      []MapRule{{"mapped-*", "$1"}},
		UberDLQTopics: []string{"uber*", "orders*"},
		Dialects: []DialectConfig{
			{Name: "mine", Anchors: []string{"X-Attempts"}, Topic: "x-origin-topic", Message: "dlq.error_message", Strip: []string{"x-*"}},
			{Name: "first", Anchors: []string{"group-id"}, Topic: "group-id", Partition: "error", NewestFirst: true},
		},
	}, patterns))(f)
	return d
}

// checkExplanation reports values whose source the explanation does not name, and sources of values that are empty.
func checkExplanation(t *testing.T, r Reading, e entity.Explanation) {
	t.Helper()
	values := valuesOf(r)
	for name, d := range e.Fields() {
		known := values[name] != ""
		if name == "error_message" {
			known = r.ErrorMessage != entity.UnknownError || d.Source != entity.ByNothing
		}
		check.True(t, known == (d.Source != entity.ByNothing), "%s = %q by %+v", name, values[name], d)
	}
	check.True(t, sameSource(e.OriginalTopic.Source, r.Origin.Confidence),
		"original topic by %s, Decode says %s", e.OriginalTopic.Source, r.Origin.Confidence)
	for _, h := range e.Hops {
		check.True(t, len(h.Topic) <= entity.MaxTopic && utf8.ValidString(h.Topic), "hop of topic %.300q", h.Topic)
	}
	check.True(t, len(e.Hops) <= MaxHops, "%d hops", len(e.Hops))
}

func checkReading(t *testing.T, d *Decoder, topic string, r Reading) {
	t.Helper()
	if name := r.OriginalTopic; name != "" && (!entity.ValidTopic(name) || d.patterns.Match(name) || name == topic) {
		t.Errorf("original topic of %q = %q, which can be no origin", topic, name)
	}
	check.True(t, (r.OriginalTopic == "") == (r.Origin.Confidence == entity.FromNothing) && r.Origin.Confidence != "",
		"original topic %q with confidence %q", r.OriginalTopic, r.Origin.Confidence)
	check.True(t, r.ErrorMessage != "", "no error message, want at least unknown error")
	for _, s := range []string{r.ErrorMessage, r.Failure.Class, r.Failure.StackTrace, r.Failure.ConsumerGroup} {
		check.True(t, len(s) <= MaxStackTrace && utf8.ValidString(s) && !strings.Contains(s, "\x00"),
			"text %.40q cannot be stored", s)
	}
	if len(r.ErrorMessage) > MaxErrorMessage || len(r.Failure.Class) > MaxErrorClass || len(r.Failure.ConsumerGroup) > MaxConsumerGroup {
		t.Error("a text is too long")
	}
	check.True(t, r.Origin.Timestamp.IsZero() || r.Origin.Timestamp.UTC().Year() >= 2000 && r.Origin.Timestamp.UTC().Year() < 2100,
		"timestamp %v is out of range", r.Origin.Timestamp)
}

// fuzzWords returns the name of every header that a dialect reads, in a fixed order.
func fuzzWords() []string {
	var words []string
	for i := range dialects {
		words = append(words, dialects[i].words()...)
	}
	words = append(words, "error", "event_id", "original_key", "original-key", "NServiceBus.TimeSent", retryTopicAttempts, retryTopicFirstTime,
		"delayed-retry-original-timestamp", HeaderMessageID, HeaderRootID, HeaderRedriveID, HeaderRetryCount,
		"x-origin-topic", "dlq.error_message", "X-Attempts", "group-id")
	slices.Sort(words)
	return slices.Compact(words)
}

// fuzzHeaders makes headers from raw, which contains for each header the index of its name in words, the length of its
// value, and the value. The length 255 means null.
func fuzzHeaders(words []string, raw []byte) []entity.Header {
	var out []entity.Header
	for len(raw) >= 2 {
		key, n := words[int(raw[0])%len(words)], int(raw[1])
		raw = raw[2:]
		if n == 255 {
			out = append(out, entity.Header{Key: key})
			continue
		}
		n = min(n, len(raw))
		out = append(out, entity.Header{Key: key, Value: raw[:n:n]})
		raw = raw[n:]
	}
	return out
}

func TestEveryDerivedTextIsCleanAndBounded(t *testing.T) {
	t.Parallel()
	dirty := bytes.Repeat([]byte("é\xff\x00"), 1<<20)
	var h []entity.Header
	for _, key := range []string{"exception-fqcn", "exception-cause-fqcn", "exception-message", "exception-stacktrace", "original-consumer-group", "original-topic"} {
		h = append(h, entity.Header{Key: "kafka_dlt-" + key, Value: dirty})
	}
	r := decoder(t, []string{"*-dlt"}).Decode("orders-dlt", entity.Record{Headers: h}, time.Time{}, nil)
	for _, tt := range []struct {
		name, text string
		limit      int
	}{
		{"error message", r.ErrorMessage, MaxErrorMessage},
		{"class", r.Failure.Class, MaxErrorClass},
		{"stack trace", r.Failure.StackTrace, MaxStackTrace},
		{"consumer group", r.Failure.ConsumerGroup, MaxConsumerGroup},
	} {
		check.True(t, len(tt.text) <= tt.limit && len(tt.text) >= tt.limit-utf8.UTFMax,
			"%s has %d bytes, want nearly %d", tt.name, len(tt.text), tt.limit)
		check.True(t, utf8.ValidString(tt.text) && !strings.Contains(tt.text, "\x00"), "%s is not clean text", tt.name)
	}
	check.True(t, r.OriginalTopic == "", "original topic = %.20q, want unknown", r.OriginalTopic)
}
