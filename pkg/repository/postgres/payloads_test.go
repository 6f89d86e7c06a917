package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// pendingMessages stores n messages whose payload is to be filled, as one batch.
func pendingMessages(t *testing.T, store *Store, topic string, n int) []uuid.UUID {
	t.Helper()
	var values [][]byte
	for i := range n {
		values = append(values, fmt.Appendf(nil, `{"n": %d}`, i))
	}
	return storeBatch(t, store, topic, values)
}

// storeBatch stores values as one batch, by the way records come in, behind what the
// topic's partition has.
func storeBatch(t *testing.T, store *Store, topic string, values [][]byte) (ids []uuid.UUID) {
	t.Helper()
	refs, err := store.OpenTopics(t.Context(), []repository.Topic{{Name: topic, Incarnation: "1"}})
	wantNil(t, err)
	at := repository.Partition{Incarnation: refs[0].Incarnation}
	start, err := store.OpenPosition(t.Context(), []repository.Position{{Partition: at}})
	wantNil(t, err)
	from := start[0].Next
	batch := repository.Batch{Ranges: []repository.Range{{Partition: at, From: from, To: from + int64(len(values))}}}
	for i, value := range values {
		m := entity.NewMessage("orders", "boom", time.Unix(0, 0))
		m.Record.Value = value
		m.Record.Size = int64(len(value))
		m.Source = entity.Source{Topic: topic, TopicID: refs[0].TopicID, Incarnation: refs[0].Incarnation, Offset: from + int64(i)}
		batch.Messages = append(batch.Messages, m)
		ids = append(ids, m.ID)
	}
	stored, err := store.Store(t.Context(), batch)
	if err != nil || len(stored.Ranges) != 1 {
		t.Fatalf("got %v, %v, want one range stored", stored, err)
	}
	return ids
}

func wantFilled(t *testing.T, store *Store, filled int, found bool) {
	t.Helper()
	n, more, err := store.FillPayloads(t.Context())
	if n != filled || more != found || err != nil {
		t.Errorf("got %d filled, batch %t, %v, want %d and %t", n, more, err, filled, found)
	}
}

type payloadState struct {
	Filled, Pending int
	Until           time.Time
}

func payloadsOf(t *testing.T, db *sqlx.DB, table string) (p payloadState) {
	t.Helper()
	wantNil(t, db.QueryRowx(`SELECT count(payload), count(*) FILTER (WHERE payload_note = 'pending'),
		(SELECT payload_until FROM dlq.payload_progress) FROM dlq.`+table).Scan(&p.Filled, &p.Pending, &p.Until))
	return p
}

// The latest batches are filled first, many small ones at once, and payload_until is where the oldest one waits.
func TestFillPayloads_LatestFirst(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	pendingMessages(t, store, "orders.dlq", 450)
	var between time.Time
	wantNil(t, db.Get(&between, `SELECT clock_timestamp()`))
	newer := append(pendingMessages(t, store, "orders.dlq", payloadMessages-3), pendingMessages(t, store, "orders.dlq", 3)...)
	var changed time.Time
	wantNil(t, db.Get(&changed, `SELECT max(updated_at) FROM dlq.dlq_messages`))

	wantFilled(t, store, payloadMessages, true)
	wantProjection(t, db, newer[0], "", `{"n": 0}`)
	wantProjection(t, db, newer[len(newer)-1], "", `{"n": 2}`)
	if p := payloadsOf(t, db, "dlq_messages"); p.Pending != 450 || p.Until.After(between) {
		t.Errorf("got %d pending until %s, want 450 and before %s", p.Pending, p.Until, between)
	}
	if lag, err := store.PayloadLag(t.Context()); lag <= 0 || err != nil {
		t.Errorf("got the lag %s, %v, want one", lag, err)
	}
	wantFilled(t, store, 450, true)
	wantFilled(t, store, 0, false)
	if p := payloadsOf(t, db, "dlq_messages"); p.Pending != 0 || p.Filled != payloadMessages+450 || p.Until.Before(between.Add(-time.Second)) {
		t.Errorf("got %+v, want all filled, until about %s", p, between)
	}
	if lag, err := store.PayloadLag(t.Context()); lag != 0 || err != nil {
		t.Errorf("got the lag %s, %v, want none", lag, err)
	}
	var still time.Time
	wantNil(t, db.Get(&still, `SELECT max(updated_at) FROM dlq.dlq_messages`))
	if !still.Equal(changed) {
		t.Errorf("got updated_at %s, want it as it was, %s", still, changed)
	}
}

// A message that another session has locked is filled later; what was archived or
// deleted before its turn holds up nothing.
func TestFillPayloads_MovingRows(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	clock := time.Now()
	store := New(db, WithClock(func() time.Time { return clock }))
	ids := pendingMessages(t, store, "orders.dlq", 10)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = now() - interval '40 days', created_at = now() - interval '40 days'
		WHERE id = ANY ($1)`, uuids(ids[:3]))
	exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
	exec(t, db, `DELETE FROM dlq.dlq_messages WHERE id = $1`, ids[3])
	tx, err := db.Beginx()
	wantNil(t, err)
	_, err = tx.Exec(`UPDATE dlq.dlq_messages SET status = 'RETRYING' WHERE id = $1`, ids[4])
	wantNil(t, err)

	wantFilled(t, store, 8, true)
	wantFilled(t, store, 0, false) // the locked one rests
	if p := payloadsOf(t, db, "dlq_messages_archive"); p.Filled != 3 || p.Pending != 0 {
		t.Errorf("got %+v of the archive, want 3 filled", p)
	}
	wantNil(t, tx.Commit())
	clock = clock.Add(2 * payloadRest)
	wantFilled(t, store, 1, true)
	wantFilled(t, store, 0, false)
	if p := payloadsOf(t, db, "dlq_messages"); p.Filled != 6 || p.Pending != 0 {
		t.Errorf("got %+v, want 6 filled", p)
	}
	var status string
	wantNil(t, db.Get(&status, `SELECT status FROM dlq.dlq_messages WHERE id = $1`, ids[4]))
	if status != "RETRYING" {
		t.Errorf("got %s, want the claim untouched", status)
	}
}

// A caller that dies leaves its batch to the next one, after the lease; callers at the
// same time take different batches.
func TestFillPayloads_ManyCallers(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	clock := time.Now()
	store := New(db, WithClock(func() time.Time { return clock }))
	pendingMessages(t, store, "orders.dlq", 5)
	exec(t, db, `UPDATE dlq.payload_queue SET taken_until = $1`, clock.Add(payloadLease)) // by one that died
	wantFilled(t, store, 0, false)
	clock = clock.Add(payloadLease + time.Second)
	for range 20 {
		pendingMessages(t, store, "orders.dlq", 5)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		all.Go(func() {
			for {
				n, found, err := store.FillPayloads(t.Context())
				if err != nil {
					t.Error(err)
				}
				if !found || err != nil {
					return
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if p := payloadsOf(t, db, "dlq_messages"); total != 105 || p.Filled != 105 || p.Pending != 0 {
		t.Errorf("got %d filled and %+v, want 105", total, p)
	}
}

// Nothing is queued, and the reason is noted, where the payload is never to be filled.
func TestPayloadNever(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]Option{
		"never": WithPayload(PayloadNever, DefaultPayloadLimit), "limit of 0": WithPayload(PayloadInline, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.Open(t)
			store := New(db, option)
			ids := pendingMessages(t, store, "orders.dlq", 2)
			wantFilled(t, store, 0, false)
			wantProjection(t, db, ids[0], noteNever, "")
		})
	}
}
