package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestPayloadsSurviveKilledProcesses: the API fills the column payload in the background, after the ingester has stored
// the messages. Although the API is killed meanwhile, in the end the payload of each message is the JSON of its own
// record, or missing if the record's value is not JSON.
func TestPayloadsSurviveKilledProcesses(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	topic := s.topic("payloads.dlq.v1")
	s.kafka.create(topic, 4)
	const count = 12_000
	var records []*kgo.Record
	for n := range count {
		value := fmt.Sprintf(`{"n": %d, "text": %q}`, n, strings.Repeat("x", 200))
		if n%10 == 0 {
			value = fmt.Sprintf("no JSON %d", n)
		}
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(n % 4), Value: []byte(value)})
	}
	s.kafka.produce(records...)
	s.startReady("ingester")
	number := func(query string) (n int) {
		check.NoError(t, s.db.Get(&n, query))
		return n
	}
	eventually(t, "all are stored", func() bool {
		return number(`SELECT count(*) FROM dlq.dlq_messages`) == count
	})
	if n := number(`SELECT messages_pending FROM dlq.payload_progress`); n != count*9/10 {
		t.Errorf("%d messages wait for their payload, want %d", n, count*9/10)
	}
	for range 3 {
		before := number(`SELECT count(payload) FROM dlq.dlq_messages`)
		api := s.startReady("api")
		eventually(t, "some payloads are filled", func() bool {
			return number(`SELECT count(payload) FROM dlq.dlq_messages`) > before
		})
		api.kill()
	}
	api := s.startReady("api")
	eventually(t, "no message waits for its payload", func() bool {
		return number(`SELECT messages_pending FROM dlq.payload_progress`) == 0
	})
	if n := number(`SELECT count(*) FROM dlq.messages WHERE payload IS NOT NULL AND payload = convert_from(value, 'UTF8')::jsonb AND payload_note IS NULL`); n != count*9/10 {
		t.Errorf("%d messages have the JSON of their value, want %d", n, count*9/10)
	}
	if n := number(`SELECT count(*) FROM dlq.dlq_messages WHERE payload IS NULL AND payload_note = 'not_json'`); n != count/10 {
		t.Errorf("%d messages have none, want the %d that are not JSON", n, count/10)
	}
	eventually(t, "the metric shows that none waits", func() bool {
		_, body := api.try(http.MethodGet, "/metrics", nil)
		return strings.Contains(string(body), "\ndlq_payload_lag_seconds 0\n")
	})
}
