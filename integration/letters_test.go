package integration_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// letters is a system under test with one dead-letter topic and one original topic. It remembers the dead letters that
// the test has produced. Random values come from a seed, which the test logs.
type letters struct {
	*system
	source, target string
	random         *rand.Rand
	sent           []*kgo.Record
}

func newLetters(s *system) *letters {
	s.t.Helper()
	seed := uint64(time.Now().UnixNano())
	s.t.Logf("seed %d", seed)
	l := &letters{
		system: s, source: s.topic("orders.dlq.v1"), target: s.topic("orders.events.v1"),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	s.kafka.create(l.source, partitions)
	s.kafka.create(l.target, partitions)
	return l
}

// ownStack starts servers for this test only, so that the test may stop them.
func ownStack(t *testing.T, opts stack.Options) *stack.Stack {
	t.Helper()
	opts.Fast, opts.Own = true, true
	own, err := stack.Start(t.Context(), opts)
	check.NoError(t, err)
	t.Cleanup(func() { _ = own.Stop() })
	return own
}

// produce writes n more dead letters in the format of Spring's recoverer. After each chunk of 20 records, it calls the
// function between with the number of the chunk, unless between is nil.
func (l *letters) produce(n int, between func(chunk int)) {
	l.t.Helper()
	const size = 20
	for chunk := 0; chunk*size < n; chunk++ {
		var records []*kgo.Record
		for range min(size, n-chunk*size) {
			records = append(records, l.letter())
		}
		l.kafka.produce(records...)
		if between != nil {
			between(chunk)
		}
	}
}

func (l *letters) letter() *kgo.Record {
	n := len(l.sent)
	r := &kgo.Record{
		Topic:     l.source,
		Partition: int32(l.random.IntN(partitions)),
		Key:       fmt.Appendf(nil, "order-%d", n%500),
		Value:     fmt.Appendf(nil, `{"id": %d, "note": "grüße"}`, n),
		Headers: []kgo.RecordHeader{
			{Key: "x-seq", Value: fmt.Append(nil, n)},
			{Key: "kafka_dlt-original-topic", Value: []byte(l.target)},
			{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(n%partitions))},
			{Key: "kafka_dlt-exception-message", Value: []byte("stock service is down")},
		},
	}
	l.sent = append(l.sent, r)
	return r
}

// waitStored waits until the database contains at least as many messages as the test has sent records. It does not
// detect surplus messages: wantStoredOnce does.
func (l *letters) waitStored() {
	l.t.Helper()
	eventually(l.t, "every record is stored", func() bool { return l.count("true") >= len(l.sent) })
}

// stored produces n records, and runs an ingester until all are stored.
func (l *letters) stored(n int) {
	l.t.Helper()
	l.produce(n, nil)
	p := l.startReady("ingester")
	l.waitStored()
	p.stop()
}

// count returns how many messages satisfy the SQL condition; -1 when the database does not answer.
func (l *letters) count(where string) (n int) {
	if err := l.db.Get(&n, `SELECT count(*) FROM dlq.dlq_messages WHERE `+where); err != nil {
		return -1
	}
	return n
}

func (l *letters) with(status string) int { return l.count("status = '" + status + "'") }

// slow makes each statement that updates messages take at least d, so that a fault hits work that is in progress. A
// later call changes d.
func (l *letters) slow(d time.Duration) {
	l.t.Helper()
	_, err := l.db.Exec(fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql
			AS 'BEGIN PERFORM pg_catalog.pg_sleep(%f); RETURN NULL; END';
		DO $$ BEGIN
			CREATE TRIGGER slow BEFORE UPDATE ON dlq.dlq_messages FOR EACH STATEMENT EXECUTE FUNCTION public.slow();
		EXCEPTION WHEN duplicate_object THEN NULL;
		END $$`, d.Seconds()))
	check.NoError(l.t, err)
}

// answer is the API's answer to a client; status 0 means that the connection broke before the answer.
type answer struct {
	status int
	body   []byte
}

// retryAll sends a request that retries all messages of the dead-letter topic, and returns without waiting for the
// answer.
func (l *letters) retryAll(p *process) <-chan answer {
	asked := make(chan answer, 1)
	go func() {
		status, body := p.try(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", nil)
		asked <- answer{status, body}
	}()
	return asked
}

func (l *letters) await(asked <-chan answer) answer {
	l.t.Helper()
	select {
	case a := <-asked:
		return a
	case <-time.After(time.Minute):
		l.t.Fatal("retry-all did not answer within a minute")
		return answer{}
	}
}

// redrivesOver waits until no redrive is running. A redrive may go on after its client has got an answer.
func (l *letters) redrivesOver() {
	l.t.Helper()
	eventually(l.t, "every redrive is over", func() bool {
		var active int
		err := l.db.Get(&active, `SELECT count(*) FROM dlq.redrives WHERE state IN ('canary', 'running')`)
		return err == nil && active == 0
	})
}

// retryTheRest waits until no redrive is running and no claim is left, and then retries the messages that are PENDING.
// Each of these retries must succeed.
func (l *letters) retryTheRest(p *process) {
	l.t.Helper()
	l.redrivesOver()
	eventuallyAs(l.t, claimIsSettled, "every abandoned claim is settled", func() bool { return l.with("RETRYING") == 0 })
	pending := l.with("PENDING")
	var got struct{ Retried int }
	p.call(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", 200, &got)
	check.True(l.t, got.Retried == pending, "the last retry-all retried %d, want the %d pending", got.Retried, pending)
}

// wantStoredOnce checks that the database contains one message for each sent record, and no other message.
func (l *letters) wantStoredOnce() {
	l.t.Helper()
	if got := l.count("true"); got != len(l.sent) {
		l.t.Errorf("%d rows, want %d", got, len(l.sent))
	}
	type place struct {
		Partition int32 `db:"dlq_partition"`
		Offset    int64 `db:"dlq_offset"`
	}
	var places []place
	check.NoError(l.t, l.db.Select(&places, `SELECT DISTINCT dlq_partition, dlq_offset FROM dlq.dlq_messages`))
	have := map[place]bool{}
	for _, p := range places {
		have[p] = true
	}
	missing := 0
	for _, r := range l.sent {
		if !have[place{r.Partition, r.Offset}] {
			missing++
		}
	}
	if missing > 0 || len(have) != len(l.sent) {
		l.t.Errorf("%d positions, without %d of the sent records; want %d and none missing", len(have), missing, len(l.sent))
	}
}

// wantResolvedOnce checks that each message is RESOLVED, that its record is in the original topic once and unchanged,
// and that the topic contains no other record. It also checks the invariants.
func (l *letters) wantResolvedOnce() {
	l.t.Helper()
	var statuses []struct {
		Status string
		N      int
	}
	check.NoError(l.t, l.db.Select(&statuses, `SELECT status, count(*) AS n FROM dlq.dlq_messages GROUP BY status`))
	if len(statuses) != 1 || statuses[0].Status != "RESOLVED" || statuses[0].N != len(l.sent) {
		l.t.Errorf("messages by status %v, want %d RESOLVED", statuses, len(l.sent))
	}
	ids := l.ids()
	seen := map[string]int{}
	for _, r := range l.kafka.readAll(l.target) {
		id := header(r, "dlq-message-id")
		seen[id]++
		if n, ok := ids[id]; !ok {
			l.t.Errorf("%s has id %q, which no message has", position(r), id)
		} else if want := l.sent[n]; digest(r) != digest(want) || r.Partition != int32(n%partitions) {
			l.t.Errorf("%s differs from dead letter %d", position(r), n)
		}
	}
	lost, doubled := 0, 0
	for id := range ids {
		switch n := seen[id]; {
		case n == 0:
			lost++
		case n > 1:
			doubled++
		}
	}
	if lost > 0 || doubled > 0 {
		l.t.Errorf("of %d messages %d were not published and %d more than once, want none", len(ids), lost, doubled)
	}
	l.account().wantInvariants()
}

// ids returns, for each message id, the index of the message's record in the field sent.
func (l *letters) ids() map[string]int {
	l.t.Helper()
	var rows []struct {
		ID        uuid.UUID
		Partition int32 `db:"dlq_partition"`
		Offset    int64 `db:"dlq_offset"`
	}
	check.NoError(l.t, l.db.Select(&rows, `SELECT id, dlq_partition, dlq_offset FROM dlq.dlq_messages`))
	index := map[string]int{}
	for n, r := range l.sent {
		index[position(r)] = n
	}
	ids := map[string]int{}
	for _, row := range rows {
		at := fmt.Sprintf("%s/%d/%d", l.source, row.Partition, row.Offset)
		if n, ok := index[at]; ok {
			ids[row.ID.String()] = n
		}
	}
	return ids
}

// wantUnavailable checks an answer that the API gave during an outage: it must be an error that asks the client to try
// again. wantUnavailable returns the details of the error.
func wantUnavailable(t *testing.T, a answer, what string, statuses ...int) map[string]string {
	t.Helper()
	var got struct {
		Error struct {
			Code      string
			RequestID string `json:"request_id"`
			Details   []struct{ Field, Reason string }
		}
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Errorf("%s = %d %.300s, want an error in JSON", what, a.status, a.body)
		return nil
	}
	codes := map[int]string{502: "SYS_DLQ_PUBLISH_FAILED", 503: "SYS_DLQ_UNAVAILABLE"}
	right := false
	for _, status := range statuses {
		right = right || a.status == status && got.Error.Code == codes[status]
	}
	if !right || got.Error.RequestID == "" {
		t.Errorf("%s = %d %.300s, want one of %v with its code", what, a.status, a.body, statuses)
	}
	details := map[string]string{}
	for _, d := range got.Error.Details {
		details[d.Field] = d.Reason
	}
	return details
}

// wantRunning checks that the program has not exited and answers /healthz: a program must survive faults of its
// servers.
func (p *process) wantRunning() {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Errorf("%s ended, want it to survive the fault", p.name)
	default:
	}
	if status, _ := p.try(http.MethodGet, "/healthz", nil); status != http.StatusOK {
		p.t.Errorf("healthz of %s = %d, want 200", p.name, status)
	}
}

// status returns the status of a GET request, 0 without an answer.
func (p *process) status(path string) int {
	status, _ := p.try(http.MethodGet, path, nil)
	return status
}
