package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// refuse adds a constraint to the table of records. PostgreSQL then refuses records whose value contains "refused".
func refuse(t testing.TB, db *sqlx.DB) {
	t.Helper()
	db.MustExec(`ALTER TABLE dlq.records ADD CONSTRAINT chk_test CHECK (position('refused'::bytea IN value) = 0) NOT VALID`)
}

// twoPartitions returns a batch of two partitions with n records each. PostgreSQL refuses the records whose index is in
// the parameter refused. The indexes of the second partition's records begin at n.
func twoPartitions(t testing.TB, f *feed, n int, refused ...int) repository.Batch {
	t.Helper()
	_, err := f.store.OpenPosition(t.Context(), []repository.Position{{Partition: repository.Partition{Incarnation: f.ref.Incarnation, Partition: 1}}})
	check.NoError(t, err)
	all := records(0, 2*n)
	for _, i := range refused {
		all[i].Value, all[i].Headers = fmt.Appendf(nil, `{"refused":%d}`, i), []entity.Header{{Key: "h", Value: []byte("v")}, {Key: "h"}}
	}
	b := f.batch(0, all...)
	f.next -= int64(n)
	b.Ranges[0].To = f.next
	b.Ranges = append(b.Ranges, b.Ranges[0])
	b.Ranges[1].Partition.Partition = 1
	for i := range n {
		m := &b.Messages[n+i]
		m.Source.Partition, m.Source.Offset = 1, b.Messages[i].Source.Offset
	}
	return b
}

func wantCounts(t *testing.T, db *sqlx.DB, messages, quarantined int) {
	t.Helper()
	if m, q := count(t, db, "dlq_messages"), count(t, db, "quarantine"); m != messages || q != quarantined {
		t.Errorf("%d messages and %d records in quarantine, want %d and %d", m, q, messages, quarantined)
	}
}

// TestRefusedRecordGoesIntoQuarantine: when PostgreSQL refuses one of 200 records, Store stores the other 199. After
// the constraint was dropped, the refused record is tried again and stored as a message, with all of its data.
func TestRefusedRecordGoesIntoQuarantine(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	b := twoPartitions(t, f, 100, 137)
	stored := check.Must(f.store.Store(t.Context(), b))(t)
	if len(stored.Ranges) != 2 || len(stored.Quarantined) != 1 || stored.Quarantined[0] != (repository.Refused{Source: b.Messages[137].Source, SQLState: "23514"}) {
		t.Fatalf("Store = %+v, want both ranges and one record in quarantine", stored)
	}
	wantCounts(t, db, 199, 1)

	again, err := f.store.Store(t.Context(), b) // a second Store, as from an ingester that lost its partitions or got no answer, stores nothing
	check.True(t, err == nil && len(again.Ranges) == 0, "Store of the same batch = %+v, %v, want nothing", again, err)
	exec(t, db, `UPDATE dlq.ingest_positions SET next_offset = next_offset - 100`)
	bad := repository.Batch{Ranges: b.Ranges[1:], Messages: b.Messages[137:138]}
	if _, err := f.store.Store(t.Context(), bad); err != nil { // the position was moved back, so the record is passed to Store again; it must stay in quarantine
		t.Errorf("Store of the refused record = %v", err)
	}
	wantCounts(t, db, 199, 1)

	list := check.Must(f.store.Quarantined(t.Context(), repository.QuarantineQuery{Topic: "orders.dlq.v1", Limit: 10}))(t)
	if len(list) != 1 || list[0].SQLState != "23514" || !strings.Contains(list[0].Error, "chk_test") || list[0].Tries != 1 {
		t.Fatalf("Quarantined = %+v, want the record with its refusal", list)
	}
	q := list[0]
	want := b.Messages[137]
	want.Source.Topic = "orders.dlq.v1"
	want.Source.Timestamp = want.Source.Timestamp.Truncate(time.Millisecond)
	if q.ID != want.ID || q.Source != want.Source || string(q.Record.Value) != string(want.Record.Value) || len(q.Record.Headers) != 2 {
		t.Errorf("Quarantined = %+v, want %+v", q, want)
	}

	m := want
	m.Record = q.Record
	check.Is(t, check.Err(f.store.Release(t.Context(), repository.Batch{Messages: []entity.Message{m}})), entity.ErrRefused,
		"Release")
	wantCounts(t, db, 199, 1)
	exec(t, db, `ALTER TABLE dlq.records DROP CONSTRAINT chk_test`)
	if _, err := f.store.Store(t.Context(), bad); err != nil { // the record is in quarantine and must not be stored a second time
		t.Errorf("Store of the record in quarantine = %v", err)
	}
	wantCounts(t, db, 199, 1)
	for range 2 { // two processes may release the record; the second one finds nothing to release
		check.Must(f.store.Release(t.Context(), repository.Batch{Messages: []entity.Message{m}}))(t)
	}
	wantCounts(t, db, 200, 0)
	got := check.Must(f.store.Get(t.Context(), m.ID, -1))(t)
	check.True(t, string(got.Record.Value) == `{"refused":137}` && got.Source == want.Source && len(got.Record.Headers) == 2,
		"released %+v, want the record as it was", got)
}

// TestEveryPermanentRefusal: when PostgreSQL refuses some records of a batch for good, with any of several error codes,
// they go into quarantine with this code, and the other records are stored.
func TestEveryPermanentRefusal(t *testing.T) {
	t.Parallel()
	raise := func(code string) string {
		return `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF position('refused'::bytea IN NEW.value) > 0 THEN RAISE EXCEPTION 'no' USING ERRCODE = '` + code + `'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON dlq.records FOR EACH ROW EXECUTE FUNCTION public.refuse()`
	}
	for state, ddl := range map[string]string{
		"P0001": raise("P0001"),
		"22012": `ALTER TABLE dlq.records ADD CONSTRAINT chk_test CHECK (1 / (1 - sign(position('refused'::bytea IN value))) > 0) NOT VALID`,
		"54000": "",
		"23514": `ALTER TABLE dlq.records ADD CONSTRAINT chk_test CHECK (position('refused'::bytea IN value) = 0) NOT VALID`,
	} {
		withDB(t, state, func(t *testing.T, db *sqlx.DB) {
			if state == "54000" { // PostgreSQL returns this error for a row that is too large for a page of an index
				exec(t, db, `CREATE FUNCTION public.long(value bytea) RETURNS text IMMUTABLE LANGUAGE sql AS $$
					SELECT string_agg(md5(n::text || $1::text), '') FROM generate_series(1, 500) n $$`)
				ddl = `CREATE INDEX ON dlq.records ((CASE WHEN position('refused'::bytea IN value) > 0 THEN public.long(value) END))`
			}
			f := newFeed(t, New(db))
			db.MustExec(ddl)
			stored, err := f.store.Store(t.Context(), twoPartitions(t, f, 8, 0, 7, 15))
			check.Require(t, err == nil && len(stored.Ranges) == 2, "Store = %+v, %v, want both ranges", stored, err)
			wantCounts(t, db, 13, 3)
			states := postgrestest.All[string](t, db, `SELECT DISTINCT sqlstate FROM dlq.quarantine`)
			check.True(t, slices.Equal(states, []string{state}), "refused with %v, want %s", states, state)
		})
	}
}

// TestQuarantineIsTriedWhenItIsDue: after a caller has taken a quarantined record to try it again, another call does
// not get it. The record is due when WakeQuarantined is called and when an operator requests a retry. A record that was
// deleted is not released.
func TestQuarantineIsTriedWhenItIsDue(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	b := twoPartitions(t, f, 1, 0)
	check.NoError(t, check.Err(f.store.Store(t.Context(), b)))
	take := func(want bool) {
		t.Helper()
		q, err := f.store.TakeQuarantined(t.Context())
		if err != nil || (q != nil) != want || want && string(q.Record.Value) != `{"refused":0}` {
			t.Fatalf("TakeQuarantined = %+v, %v, want one: %t", q, err, want)
		}
	}
	take(false)
	check.NoError(t, f.store.WakeQuarantined(t.Context()))
	take(true)
	take(false)
	id := b.Messages[0].ID
	q, err := f.store.RetryQuarantined(t.Context(), id, entity.By("alice"))
	check.Require(t, err == nil && q.Tries == 2, "RetryQuarantined = %+v, %v, want it after two tries", q, err)
	take(true)
	check.NoError(t, f.store.DeleteQuarantined(t.Context(), id, entity.By("alice")))
	var gone *entity.QuarantineNotFoundError
	if err := f.store.DeleteQuarantined(t.Context(), id, entity.By("alice")); !errors.As(err, &gone) {
		t.Errorf("DeleteQuarantined twice = %v, want that it is not there", err)
	}
	trail, err := f.store.Trail(t.Context(), repository.TrailQuery{ObjectID: id, Limit: 10})
	if err != nil || len(trail) != 2 || trail[0].Action != entity.ActionDelete || trail[0].Kind != entity.KindQuarantine ||
		trail[0].LastError != "orders.dlq.v1/0/0: SQLSTATE 23514" {
		t.Errorf("the audit trail has %+v, %v, want the retry and the deletion", trail, err)
	}
	nothing, err := f.store.Release(t.Context(), repository.Batch{Messages: b.Messages[:1]})
	check.True(t, err == nil && len(nothing.Ranges) == 0, "Release of a deleted record = %+v, %v, want nothing", nothing, err)
	wantCounts(t, db, 1, 0)
}

// TestQuarantineOfVisibleTopics: the list of quarantined records contains only records of topics that the caller may
// see. Its pages contain each record once, and QuarantineCounts counts the records of each topic.
func TestQuarantineOfVisibleTopics(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	check.NoError(t, check.Err(f.store.Store(t.Context(), twoPartitions(t, f, 2, 0, 1, 3))))
	for pattern, want := range map[string]int{"orders.*": 3, "payments.*": 0} {
		visible := check.Must(entity.ParseTopicPatterns("topics", pattern))(t)
		list, err := f.store.Quarantined(t.Context(), repository.QuarantineQuery{Visible: &visible, Limit: 10})
		check.True(t, err == nil && len(list) == want, "%s sees %d, %v, want %d", pattern, len(list), err, want)
	}
	var all []uuid.UUID
	q := repository.QuarantineQuery{Limit: 2}
	for range 3 {
		list := check.Must(f.store.Quarantined(t.Context(), q))(t)
		for _, r := range list {
			all, q.Before = append(all, r.ID), repository.Cursor{CreatedAt: r.FirstTry, ID: r.ID}
		}
	}
	check.True(t, len(all) == 3 && all[0] != all[1] && all[1] != all[2], "pages of two have %v, want three records, each once", all)
	counts := check.Must(f.store.QuarantineCounts(t.Context()))(t)
	check.True(t, len(counts) == 1 && counts[0] == (repository.QuarantineCount{Topic: "orders.dlq.v1", Records: 3}),
		"QuarantineCounts = %+v, want 3 of one topic", counts)
}

// TestRefusedBatchThatFails: when Store fails in the middle of a batch that also contains a refused record, it returns
// the error and the ranges that it has stored. The caller can then store the rest, beginning at the present positions.
func TestRefusedBatchThatFails(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	db.MustExec(`CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.dlq_partition = 1 AND NEW.dlq_offset = 6 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '55006'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER fail BEFORE INSERT ON dlq.dlq_messages FOR EACH ROW EXECUTE FUNCTION public.fail()`)
	b := twoPartitions(t, f, 8, 2, 9)
	stored, err := f.store.Store(t.Context(), b)
	if err == nil || errors.Is(err, entity.ErrRefused) || len(stored.Quarantined) != 2 || len(stored.Ranges) != 1 || stored.Ranges[0] != b.Ranges[0].Partition {
		t.Fatalf("Store = %+v, %v, want the first partition, two records in quarantine, and the error", stored, err)
	}
	exec(t, db, `DROP TRIGGER fail ON dlq.dlq_messages`)
	at, err := f.store.OpenPosition(t.Context(), []repository.Position{{Partition: b.Ranges[1].Partition}})
	check.Require(t, err == nil && at[0].Next == 4, "OpenPosition = %+v, %v, want where the half that failed begins", at, err)
	rest := repository.Batch{Ranges: []repository.Range{{Partition: b.Ranges[1].Partition, From: 4, To: 8}}, Messages: b.Messages[12:]}
	if stored, err = f.store.Store(t.Context(), rest); err != nil || len(stored.Ranges) != 1 {
		t.Errorf("Store of the rest = %+v, %v, want it stored", stored, err)
	}
	wantCounts(t, db, 14, 2)
}

// TestRefusedBatchAsksAboutEachValueOnce: Store halves a refused batch until it finds the refused record. In doing so,
// it lets PostgreSQL check each value only once, and not again for each half.
func TestRefusedBatchAsksAboutEachValueOnce(t *testing.T) {
	t.Parallel()
	db, count := postgrestest.OpenCounted(t)
	f := newFeed(t, New(db, WithPayload(ingest.PayloadInline, ingest.DefaultPayloadLimit)))
	refuse(t, db)
	const n = 128
	b := twoPartitions(t, f, n/2, 3)
	trips := count.Of(func() {
		stored, err := f.store.Store(t.Context(), b)
		check.Require(t, err == nil && len(stored.Quarantined) == 1, "Store = %+v, %v, want one record in quarantine", stored, err)
	})
	check.True(t, trips <= n+50, "statements = %d for %d values, want at most %d", trips, n, n+50)
	t.Logf("statements: %d", trips)
	wantCounts(t, db, n-1, 1)
}

// TestQuarantineIsListedWithinItsRoom: the list of quarantined records leaves out a long key, and reserves memory for
// its records in the caller's MemoryReservation.
func TestQuarantineIsListedWithinItsRoom(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	const long = repository.ListValueLimit + 1
	for _, size := range []int{long, repository.ListValueLimit} {
		r := records(0, 1)
		r[0].Key, r[0].Value = make([]byte, size), []byte("refused")
		check.NoError(t, check.Err(f.store.Store(t.Context(), f.batch(0, r...))))
	}
	room := &countedRoom{}
	list, err := f.store.Quarantined(repository.WithMemoryReservation(t.Context(), room), repository.QuarantineQuery{Limit: 10})
	check.Require(t, err == nil && len(list) == 2, "Quarantined = %d records, %v, want 2", len(list), err)
	for _, q := range list {
		r := q.Record
		check.True(t, len(r.Key) == repository.ListValueLimit || r.Key == nil && r.KeyOmitted == long,
			"key of %d bytes, %d omitted, want %d or one that is left out", len(r.Key), r.KeyOmitted, repository.ListValueLimit)
	}
	check.True(t, room.taken >= repository.ListValueLimit,
		"%d bytes were taken from the room, want the key's %d", room.taken, repository.ListValueLimit)
	exec(t, db, `UPDATE dlq.quarantine SET retry_at = now() - interval '1 hour'`)
	for range 2 {
		q := check.Must(f.store.TakeQuarantined(t.Context()))(t)
		check.True(t, len(q.Record.Key) >= repository.ListValueLimit && q.Record.KeyOmitted == 0,
			"TakeQuarantined = a key of %d bytes, %d omitted, want the whole key", len(q.Record.Key), q.Record.KeyOmitted)
	}
	room.full = true
	if _, err := f.store.Quarantined(repository.WithMemoryReservation(t.Context(), room), repository.QuarantineQuery{Limit: 10}); !errors.Is(err, errFullRoom) {
		t.Errorf("without room: %v, want %v", err, errFullRoom)
	}
}

var errFullRoom = errors.New("the room is full")

// countedRoom is a MemoryReservation that counts the reserved bytes. When full is true, it refuses to reserve any.
type countedRoom struct {
	taken int64
	full  bool
}

func (r *countedRoom) Take(n int64) error {
	if r.full {
		return errFullRoom
	}
	r.taken += n
	return nil
}
