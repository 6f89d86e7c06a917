package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// feed stores records for a test, all in the same partition.
type feed struct {
	store *Store
	ref   repository.TopicRef
	next  int64
}

func newFeed(t testing.TB, store *Store) *feed {
	t.Helper()
	refs := check.Must(store.OpenTopics(t.Context(), []repository.Topic{{Name: "orders.dlq.v1", Incarnation: "x"}}))(t)
	f := &feed{store: store, ref: refs[0]}
	check.Must(store.OpenPosition(t.Context(), []repository.Position{{Partition: f.partition()}}))(t)
	return f
}

func (f *feed) partition() repository.Partition {
	return repository.Partition{Incarnation: f.ref.Incarnation}
}

// batch returns a batch of the partition's next records, whose original topic is orders.
func (f *feed) batch(window time.Duration, records ...entity.Record) repository.Batch {
	n := int64(len(records))
	b := repository.Batch{
		Ranges:       []repository.Range{{Partition: f.partition(), From: f.next, To: f.next + n}},
		ReturnWindow: window,
	}
	for i, r := range records {
		m := entity.NewMessage("orders", "stock service is down", time.Now())
		m.Record, m.Origin.Confidence, m.Failure.Dialect = r, entity.FromHeader, "spring-dlt"
		m.Record.Size = int64(len(r.Value))
		m.Source = entity.Source{
			TopicID: f.ref.TopicID, Incarnation: f.ref.Incarnation, Offset: f.next + int64(i), Timestamp: m.CreatedAt,
		}
		b.Messages = append(b.Messages, m)
	}
	f.next += n
	return b
}

// put stores records as one batch and returns their messages.
func (f *feed) put(t testing.TB, window time.Duration, records ...entity.Record) ([]entity.Message, repository.Stored) {
	t.Helper()
	b := f.batch(window, records...)
	stored, err := f.store.Store(t.Context(), b)
	check.Require(t, err == nil && len(stored.Ranges) == 1, "Store = %+v, %v, want one range", stored, err)
	return b.Messages, stored
}

// send makes one acknowledged attempt on each message. The attempts belong to the given redrive.
func (f *feed) send(t testing.TB, redrive uuid.UUID, messages ...entity.Message) {
	t.Helper()
	var claims []repository.Claim
	var results []repository.Result
	for i, m := range messages {
		id := uuid.New()
		claims = append(claims, repository.Claim{MessageID: m.ID, ID: id, RedriveID: redrive, Topic: "orders", TopicID: "life-1", Partition: 1})
		results = append(results, repository.Result{MessageID: m.ID, ClaimID: id, Verdict: entity.Acknowledged, Partition: 1, Offset: int64(i)})
	}
	check.Must(f.store.Claim(t.Context(), claims, repository.Claiming{Expiry: time.Minute, Cause: entity.By("a")}))(t)
	check.Len(t, check.Must(f.store.Finish(t.Context(), results, entity.By("a")))(t), len(messages), "Finish")
}

// records returns n records with different contents, which are numbered from first on.
func records(first, n int) []entity.Record {
	out := make([]entity.Record, n)
	for i := range out {
		out[i] = entity.Record{Key: fmt.Appendf(nil, "order-%d", first+i), Value: fmt.Appendf(nil, `{"id":%d}`, first+i)}
	}
	return out
}

// TestReturnsAreNoted: dlq.returns contains one row for each attempt whose record came back, with the redrive that made
// the attempt, both for returns that were recognised by headers and for those that were recognised by content.
func TestReturnsAreNoted(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	redrive := uuid.New()
	sent, _ := f.put(t, 0, records(0, 3)...)
	f.send(t, redrive, sent[:2]...)
	claim := repository.Claim{MessageID: sent[2].ID, ID: uuid.New(), RedriveID: redrive, Topic: "orders"}
	_, err := f.store.Claim(t.Context(), []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute, Cause: entity.By("a")})
	check.NoError(t, err)

	back, _ := f.put(t, time.Hour, records(0, 2)...)
	b := f.batch(time.Hour, records(2, 2)...)
	for i := range b.Messages { // the headers of both records name the attempt that has no result yet
		b.Messages[i].Return = &entity.Return{Parent: claim.MessageID, Attempt: claim.ID}
	}
	check.NoError(t, check.Err(f.store.Store(t.Context(), b)))

	var got []struct {
		Parent    uuid.UUID `db:"parent_id"`
		Child     uuid.UUID `db:"child_id"`
		Redrive   uuid.UUID `db:"redrive_id"`
		ByContent bool      `db:"by_content"`
	}
	check.NoError(t, db.Select(&got, `SELECT parent_id, child_id, redrive_id, by_content FROM dlq.returns ORDER BY by_content DESC, parent_id`))
	check.Require(t, len(got) == 3, "dlq.returns has %+v, want a row for each of 3 attempts", got)
	wantChildren := []uuid.UUID{back[0].ID, back[1].ID, b.Messages[0].ID}
	for i, r := range got {
		check.True(t, r.Parent == sent[i].ID && r.Child == wantChildren[i] && r.Redrive == redrive && r.ByContent == (i < 2),
			"row %d is %+v, want %s, %s, %s, %v", i, r, sent[i].ID, wantChildren[i], redrive, i < 2)
	}
}

// TestArchivedParentIsKnownByContent: a return is recognised by its content even after its parent was archived, because
// the parent's attempts are still stored.
func TestArchivedParentIsKnownByContent(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	sent, _ := f.put(t, 0, records(0, 1)...)
	f.send(t, uuid.Nil, sent...)
	exec(t, db, `CALL dlq.archive_old_dlq_messages(0, 100)`)
	back, stored := f.put(t, time.Hour, records(0, 1)...)
	check.Require(t, len(stored.Returns) == 1 && stored.Returns[0].Parent == sent[0].ID && stored.Returns[0].MessageID == back[0].ID,
		"Store found the returns %+v, want %s of %s", stored.Returns, back[0].ID, sent[0].ID)
	outcome := postgrestest.Get[string](t, db, `SELECT outcome FROM dlq.dlq_messages_archive WHERE id = $1`, sent[0].ID)
	check.Same(t, outcome, string(entity.Returned), "outcome in the archive, want returned")
}

// TestEqualNumbersAreNoProof: a record with the same hash as a sent record does not count as its return when its bytes
// are different.
func TestEqualNumbersAreNoProof(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	sent, _ := f.put(t, 0, records(0, 2)...)
	f.send(t, uuid.Nil, sent...)
	same := entity.RecordHash(records(7, 1)[0].Key, records(7, 1)[0].Value)
	exec(t, db, `UPDATE dlq.attempts SET record_hash = $1`, same)
	if _, stored := f.put(t, time.Hour, records(7, 1)...); len(stored.Returns) != 0 {
		t.Errorf("Store found the returns %+v, want none: other bytes", stored.Returns)
	}
	exec(t, db, `UPDATE dlq.records SET key = $2, value = $3 WHERE message_id = $1`, sent[0].ID, records(7, 1)[0].Key, records(7, 1)[0].Value)
	if _, stored := f.put(t, time.Hour, records(7, 1)...); len(stored.Returns) != 1 || stored.Returns[0].Parent != sent[0].ID {
		t.Errorf("Store found the returns %+v, want that of %s", stored.Returns, sent[0].ID)
	}
}

// TestStoreLooksAgain: Store finds the attempts with one statement and inserts the returns with a second one. When
// another batch stores a return of the same attempt in between, the second statement fails. Store must then search
// again and not store a second return of that attempt.
func TestStoreLooksAgain(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	sent, _ := f.put(t, 0, append(records(0, 1), records(0, 1)...)...)
	f.send(t, uuid.Nil, sent...)

	tx := db.MustBegin() // the other batch: its transaction has inserted a return of the latest attempt, and is still open
	latest := postgrestest.Get[uuid.UUID](t, tx, `
		INSERT INTO dlq.returns SELECT attempt_id, message_id, $1, NULL, true, now() FROM dlq.attempts
		ORDER BY ended_at DESC, message_id DESC LIMIT 1 RETURNING parent_id`, uuid.New())
	other := sent[0].ID
	if latest == other {
		other = sent[1].ID
	}
	batch := f.batch(time.Hour, records(0, 1)...)
	var stored repository.Stored
	done := make(chan error)
	go func() {
		var err error
		stored, err = f.store.Store(context.Background(), batch)
		done <- err
	}()
	eventually(t, db, "the batch waits for the other", waitingQuery, "%held AS MATERIALIZED%ingest_positions%")
	check.NoError(t, tx.Commit())
	check.NoError(t, <-done)
	check.True(t, len(stored.Returns) == 1 && stored.Returns[0].Parent == other,
		"Store found the returns %+v, want that of the older attempt, of %s", stored.Returns, other)
}

// BenchmarkStoreWindow stores full batches of 1 KB records that were never sent, while the table contains 200,000
// attempts. Every second batch has a ReturnWindow; the difference of the two medians is the cost of searching for
// returns.
func BenchmarkStoreWindow(b *testing.B) {
	const rows = 1000
	db := postgrestest.Open(b)
	db.MustExec(`INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, verdict, actor, started_at, ended_at,
		from_status, to_status, target_topic, record_hash)
		SELECT gen_random_uuid(), 1, gen_random_uuid(), 1, 'acknowledged', 'a', now(), now(), 'RETRYING', 'RESOLVED', 'orders', hashint8extended(n, 7)
		FROM generate_series(1, 200000) n`)
	db.MustExec(`ANALYZE dlq.attempts`)
	f := newFeed(b, New(db))
	text := strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 12)
	var headers []entity.Header
	for i := range 8 {
		headers = append(headers, entity.Header{Key: fmt.Sprintf("kafka_dlt-header-%d", i), Value: []byte(strings.Repeat("v", 48))})
	}
	windows := []time.Duration{0, 24 * time.Hour}
	took := make([][]float64, len(windows))
	for n := 0; b.Loop(); {
		for i, window := range windows {
			all := records(n, rows)
			for k := range all {
				all[k].Value, all[k].Headers = fmt.Appendf(nil, `{"id":%d,"items":[%s{}]}`, n+k, text), headers
			}
			n += rows
			batch, start := f.batch(window, all...), time.Now()
			stored := check.Must(f.store.Store(b.Context(), batch))(b)
			check.Require(b, len(stored.Returns) == 0, "Store = %+v, want no returns", stored)
			took[i] = append(took[i], time.Since(start).Seconds()*1000)
		}
	}
	for i, name := range []string{"off-ms", "on-ms"} {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2], name)
	}
}

// TestAttemptThatSentNothingEndsWithItsReturns: when the result of an attempt says that nothing was sent, storing the
// result and deleting the returns that were matched to the attempt by content succeed or fail together.
func TestAttemptThatSentNothingEndsWithItsReturns(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	sent, _ := f.put(t, 0, records(0, 2)...)
	claims := make([]repository.Claim, len(sent))
	for i := range sent {
		claims[i] = repository.Claim{MessageID: sent[i].ID, ID: uuid.New(), Topic: "orders"}
	}
	check.NoError(t, check.Err(f.store.Claim(t.Context(), claims, repository.Claiming{Expiry: time.Minute, Cause: entity.By("a")})))
	f.put(t, time.Hour, records(0, 1)...) // another producer wrote a record that is equal to the first sent record
	n := count(t, db, "returns")
	check.Require(t, n == 1, "%d returns, want one by content", n)
	exec(t, db, `CREATE FUNCTION public.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stopped'; END $$`)
	exec(t, db, `CREATE TRIGGER stop BEFORE DELETE ON dlq.returns EXECUTE FUNCTION public.stop()`)
	wantState := func(want string) {
		t.Helper()
		got := postgrestest.Get[string](t, db, `SELECT concat_ws(' ', status, outcome) FROM dlq.dlq_messages WHERE id = $1`, sent[0].ID)
		check.Same(t, got, want, "the message")
	}
	check.True(t, check.Err(f.store.Finish(t.Context(), results(claims, entity.GivenBack), entity.By("a"))) != nil,
		"Finish succeeded without its last step")
	wantState("RETRYING returned")
	exec(t, db, `DROP TRIGGER stop ON dlq.returns`)
	finished := check.Must(f.store.Finish(t.Context(), results(claims, entity.GivenBack), entity.By("a")))(t)
	check.True(t, len(finished) == 1 && finished[0].MessageID == sent[0].ID && finished[0].Status == entity.Pending,
		"Finish = %+v, want the attempt that was left", finished)
	wantState("PENDING")
	check.Same(t, count(t, db, "returns"), 0, "returns")
}
