package deadletter

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

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
