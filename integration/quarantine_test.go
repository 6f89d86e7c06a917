package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// quarantineList is the answer of GET /api/v1/quarantine.
type quarantineList struct {
	Records []struct {
		ID        string
		DLQOffset int64 `json:"dlq_offset"`
		SQLState  string
	}
	NextCursor string `json:"next_cursor"`
}

// TestQuarantine: the test adds a constraint by which PostgreSQL refuses some records. The ingester stores all other
// records, of the same topic and of others. If the ingester is killed meanwhile, no record is lost or stored twice.
// When the constraint is removed, the ingester stores the refused records as messages.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	topic, other := s.topic("refused.dlq.v1"), s.topic("other.dlq.v1")
	s.kafka.create(topic, 2)
	s.kafka.create(other, 1)
	s.db.MustExec(`ALTER TABLE dlq.records ADD CONSTRAINT chk_test CHECK (position('refused'::bytea IN value) = 0) NOT VALID`)
	produce := func(from, to int, refused func(n int) bool) {
		var records []*kgo.Record
		for n := from; n < to; n++ {
			word := "fine"
			if refused(n) {
				word = "refused"
			}
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(n % 2), Value: fmt.Appendf(nil, `{"n":%d,"is":%q}`, n, word)})
		}
		s.kafka.produce(append(records, &kgo.Record{Topic: other, Value: []byte(`{}`)})...)
	}
	api := s.startReady("api")
	counts := func() (messages, others, waiting int) {
		row := s.db.QueryRow(`SELECT (SELECT count(*) FROM dlq.dlq_messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1),
			(SELECT count(*) FROM dlq.dlq_messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $2), (SELECT count(*) FROM dlq.quarantine)`, topic, other)
		check.NoError(t, row.Scan(&messages, &others, &waiting))
		return messages, others, waiting
	}
	arrived := func(what string, messages, others, waiting int) {
		t.Helper()
		eventually(t, what, func() bool {
			m, o, w := counts()
			return m == messages && o == others && w == waiting
		})
	}

	produce(0, 200, func(n int) bool { return n == 137 })
	ingester := s.startReady("ingester")
	arrived("199 of 200 are stored, and the other topic's", 199, 1, 1)
	if status, body := ingester.try(http.MethodGet, "/readyz", nil); status != http.StatusOK {
		t.Errorf("GET /readyz = %d %s, want the ingester ready", status, body)
	}
	eventually(t, "the metric has the record", func() bool {
		_, body := ingester.try(http.MethodGet, "/metrics", nil)
		return strings.Contains(string(body), `dlq_quarantine_records{topic="`+topic+`"} 1`)
	})
	ingester.kill()

	for round := range 4 { // each round kills the ingester while it looks for the refused records of a batch
		from := 200 + 300*round
		before, _, quarantined := counts()
		produce(from, from+300, func(n int) bool { return n%10 == 0 })
		ingester = s.start("ingester")
		eventually(t, "some of the batch are in quarantine", func() bool {
			m, _, w := counts()
			return w > quarantined+round*5 || m == before+270
		})
		ingester.kill()
	}
	s.startReady("ingester")
	arrived("all that can be stored are", 199+4*270, 5, 1+4*30)

	var list quarantineList
	api.call(http.MethodGet, "/api/v1/quarantine?limit=100&topic="+topic, 200, &list)
	if len(list.Records) != 100 || list.NextCursor == "" || list.Records[0].SQLState != "23514" {
		t.Fatalf("%d records are listed, %+v, want the first 100", len(list.Records), list.Records[:min(1, len(list.Records))])
	}
	s.db.MustExec(`ALTER TABLE dlq.records DROP CONSTRAINT chk_test`)
	api.call(http.MethodPost, "/api/v1/quarantine/"+list.Records[0].ID+"/retry", 202, nil)
	eventually(t, "the record that is retried is a message", func() bool {
		status, _ := api.try(http.MethodGet, "/api/v1/dlq/messages/"+list.Records[0].ID, nil)
		return status == http.StatusOK
	})
	s.startReady("ingester") // an ingester tries again to store all quarantined records when it starts
	arrived("nothing is in quarantine", 200+4*300, 5, 0)
	var positions int
	if err := s.db.Get(&positions, `SELECT count(DISTINCT (dlq_partition, dlq_offset)) FROM dlq.dlq_messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1`, topic); err != nil || positions != 1400 {
		t.Errorf("messages have %d positions, %v, want each of 1400 once", positions, err)
	}
}
