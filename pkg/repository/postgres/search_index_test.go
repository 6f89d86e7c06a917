package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// finder does the work of an indexer, with a clock that the test sets.
type finder struct {
	*testing.T
	db    *sqlx.DB
	store *Store
	now   time.Time
}

func newFinder(t *testing.T) *finder {
	t.Helper()
	f := &finder{T: t, db: postgrestest.Open(t), now: time.Now()}
	f.store = New(f.db, WithClock(func() time.Time { return f.now }))
	held, err := f.store.AcquireIndexerLease(t.Context(), uuid.New(), 1, time.Minute)
	check.Require(t, err == nil && held, "AcquireIndexerLease = %v, %v, want it held", held, err)
	return f
}

// insert inserts a message of the given age by SQL. The message gets an error group and a topic of its own, so that
// parallel sessions do not wait for each other's counters.
func (f *finder) insert(db sqlx.Ext, age time.Duration) uuid.UUID {
	f.Helper()
	var id uuid.UUID
	row := db.QueryRowx(`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at)
		VALUES ('orders' || random(), 'boom', gen_random_uuid(), $1) RETURNING id`, f.now.Add(-age))
	check.NoError(f.T, row.Scan(&id))
	return id
}

func (f *finder) look() []uuid.UUID {
	f.Helper()
	found := check.Must(f.store.Unindexed(f.Context(), 1, 500, 1<<30, 1<<20))(f.T)
	ids := make([]uuid.UUID, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids
}

func (f *finder) keep(ids []uuid.UUID) {
	f.Helper()
	documents := make([]entity.Document, len(ids))
	for i, id := range ids {
		documents[i] = entity.Document{MessageID: id, Text: "boom"}
	}
	check.NoError(f.T, f.store.StoreDocuments(f.Context(), 1, documents))
}

// work asks the store once for messages without documents, stores documents for them, and returns the ids of these
// messages.
func (f *finder) work() []uuid.UUID {
	f.Helper()
	ids := f.look()
	f.keep(ids)
	return ids
}

func (f *finder) want(what string, got []uuid.UUID, want ...uuid.UUID) {
	f.Helper()
	if !slices.Equal(got, want) {
		f.Errorf("%s: found %v, want %v", what, got, want)
	}
}

// open returns a transaction that stays open until the test ends it. The transaction has a transaction id, as if it had
// written something.
func (f *finder) open() *sqlx.Tx {
	f.Helper()
	tx := check.Must(f.db.Beginx())(f.T)
	f.Cleanup(func() { _ = tx.Rollback() })
	check.NoError(f.T, check.Err(tx.Exec(`SELECT pg_current_xact_id()`)))
	return tx
}

// TestSearchIndexBehindAnOpenTransaction: while a transaction is open, the indexer finds the messages of other
// transactions, does not scan more and more, and reports the stall. Messages of the open transaction are found after
// its commit. The indexer waits for the open transactions of the whole server. Other tests open and end transactions at
// any time, so each subtest opens a transaction of its own.
func TestSearchIndexBehindAnOpenTransaction(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "ALookCostsNoMoreThanWithoutIt", func(t *testing.T) {
		f := newFinder(t)
		f.open()
		again := map[time.Time]bool{}
		for range 70 {
			f.now = f.now.Add(30 * time.Second)
			f.insert(f.db, 0)
			f.work()
			looked := postgrestest.Get[time.Time](t, f.db, `SELECT looked_at FROM dlq.search_index`)
			again[looked] = true
		}
		var behind, walked float64
		check.NoError(t, f.db.QueryRow(`SELECT extract(epoch FROM $1::timestamptz - walked_at)::float8, extract(epoch FROM $1::timestamptz - greatest(mark, '2000-01-01'))::float8
			FROM dlq.search_index`, f.now).Scan(&walked, &behind))
		check.True(t, behind >= 1900 && walked <= 11,
			"the mark is %v s old and the scan covers %v s, want an old mark and a scan of only the last seconds", behind, walked)
		n := len(again)
		check.True(t, n >= 8 && n <= 35, "it looked again %d times in 35 minutes, want once a minute at most", n)
	})

	postgrestest.Parallel(t, "WhatItStoresIsFoundSomeDay", func(t *testing.T) {
		f := newFinder(t)
		tx := f.open()
		late := f.insert(tx, 0)
		for range 30 {
			f.now = f.now.Add(10 * time.Second)
			id := f.insert(f.db, 0)
			f.want("what others store", f.work(), id)
			f.want("again", f.work())
		}
		check.NoError(t, tx.Commit())
		f.now = f.now.Add(time.Minute)
		f.want("a minute later", f.work(), late)
		f.want("again", f.work())
	})

	postgrestest.Parallel(t, "SomebodyHearsOfIt", func(t *testing.T) {
		f := newFinder(t)
		tx := f.open()
		postgrestest.Get[int](t, tx, `SELECT pg_backend_pid()`)
		f.work()
		f.now = f.now.Add(15 * time.Minute)
		f.work()
		stall := check.Must(f.store.IndexerStall(t.Context()))(t)
		check.True(t, stall.Age == 15*time.Minute && stall.Holder != "", "IndexerStall = %+v, want 15m and a process", stall)
		// After the commit IndexerStall cannot be checked, because the transactions of other tests may stall the
		// indexer too.
	})
}

// TestSearchIndexTakesWhatIsOld: a message that is older than the indexer's position when it is stored or restored is
// still indexed.
func TestSearchIndexTakesWhatIsOld(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	for range 4 {
		f.now = f.now.Add(time.Hour)
		f.work()
	}
	exec(t, f.db, `UPDATE dlq.search_index SET mark = $1, walked_at = $1, looked_at = $1`, f.now)
	old := f.insert(f.db, 1000*time.Hour)
	f.want("put in by SQL", f.look(), old)
	f.want("still without a document", f.look(), old)
	f.keep([]uuid.UUID{old})
	f.want("with one", f.look())
	check.Same(t, count(t, f.db, "late_messages"), 0, "messages noted as late, want none any more")
	gone := f.insert(f.db, 1000*time.Hour)
	exec(t, f.db, `DELETE FROM dlq.dlq_messages WHERE id = $1`, gone)
	f.want("deleted", f.look())
	check.Same(t, count(t, f.db, "late_messages"), 0, "messages noted as late, want none that is gone")

	// A message is restored while a poll waits for a lock: the poll began before the restore and ends after it. The
	// next poll must find the message.
	lost := f.insert(f.db, 0)
	archive(t, f.db, lost)
	exec(t, f.db, `UPDATE dlq.dlq_messages_archive SET created_at = created_at - interval '30 days'`)
	exec(t, f.db, `UPDATE dlq.search_index SET archive_mark = 'infinity', archive_walked = 'infinity'`)
	tx := f.open()
	check.NoError(t, check.Err(tx.Exec(`SELECT FROM dlq.search_index FOR UPDATE`)))
	looked := make(chan []uuid.UUID)
	go func() { looked <- f.look() }()
	waitForLock(t, f.db)
	check.NoError(t, check.Err(f.store.Restore(t.Context(), lost, entity.By("alice"))))
	check.NoError(t, tx.Rollback())
	<-looked
	f.want("restored meanwhile", f.look(), lost)
}

// waitForLock waits until a session of this database waits for a lock.
func waitForLock(t *testing.T, db *sqlx.DB) {
	t.Helper()
	for range 100_000 {
		waits := postgrestest.Get[bool](t, db, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		if waits {
			return
		}
	}
	t.Fatal("no session waits for a lock")
}

// TestDocumentsAgainstDeletions: the indexer and deletions get the same messages in different orders at the same time,
// but do not deadlock.
func TestDocumentsAgainstDeletions(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	f.db.SetMaxOpenConns(8)
	for round := range 40 {
		exec(t, f.db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status) SELECT 'orders', 'boom', 'DEAD' FROM generate_series(1, 120)`)
		ids := allIDs(t, f.db, "dlq_messages")
		f.keep(ids)
		random := rand.New(rand.NewPCG(3, uint64(round)))
		shuffled := func() []uuid.UUID {
			all := slices.Clone(ids)
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all
		}
		fingerprint := entity.Fingerprint{Title: "boom"}
		var errs [4]error
		var all sync.WaitGroup
		for i := range 2 {
			documents := make([]entity.Document, len(ids))
			for n, id := range shuffled() {
				documents[n] = entity.Document{MessageID: id, Text: fmt.Sprint("boom ", i, round), Fingerprint: &fingerprint}
			}
			doomed := shuffled()[:60]
			all.Go(func() { errs[i] = f.store.StoreDocuments(t.Context(), 1, documents) })
			all.Go(func() {
				_, errs[2+i] = f.store.Change(t.Context(), repository.Change{Action: entity.RedriveDelete, IDs: doomed}, entity.By("test"))
			})
		}
		all.Wait()
		for _, err := range errs {
			check.Require(t, err == nil, "round %d: got %v, want no deadlock", round, err)
		}
		exec(t, f.db, `DELETE FROM dlq.dlq_messages`)
		check.Must(f.store.PurgeBookkeeping(t.Context(), 365, 730, 1000))(t)
		if n := count(t, f.db, "message_documents"); n != 0 {
			t.Fatalf("round %d: %d documents of nothing, want none", round, n)
		}
	}
	wantExactCounters(t, f.db)
}

// TestUnderLoad: UnderLoad returns true during heavy ingest and while a redrive sends, and false for single messages,
// for a redrive with a low rate, and while a redrive waits.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	want := func(want bool, when string) {
		t.Helper()
		got := check.Must(f.store.UnderLoad(t.Context()))(t)
		check.Same(t, got, want, "%s", when)
	}
	const messages = `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at)
		SELECT 'orders', 'boom', $1::timestamptz - n * $2::interval FROM generate_series(1, 600) n`
	want(false, "without messages")
	exec(t, f.db, messages, f.now, "1 second")
	want(false, "one message a second")
	exec(t, f.db, messages, f.now, "1 millisecond")
	want(true, "a thousand a second")
	f.now = f.now.Add(time.Minute)
	want(false, "a minute later")
	exec(t, f.db, `INSERT INTO dlq.redrives (id, action, state, actor, selection, options, created_at, updated_at, selected, left_out, canary_passed, ordered)
		VALUES (gen_random_uuid(), 'retry', 'running', 'ana', '{}', '{}', now(), now(), 1, '{}', true, false)`)
	want(true, "a redrive that sends")
	exec(t, f.db, `UPDATE dlq.redrives SET rate = 5`)
	want(false, "a slow one")
	exec(t, f.db, `UPDATE dlq.redrives SET rate = NULL, waiting_since = now()`)
	want(false, "one that waits")
}

// TestActivityForgets: StoreDocuments deletes old rows of dlq.activity in parts, and skips rows that other sessions
// have locked.
func TestActivityForgets(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	exec(t, f.db, `INSERT INTO dlq.activity SELECT 'orders', 60, $1::timestamptz - (9 + n) * interval '1 day', 1, 0 FROM generate_series(1, 1500) n`, f.now)
	exec(t, f.db, `INSERT INTO dlq.activity SELECT 'orders', 5, $1::timestamptz - (3 + n) * interval '1 hour', 1, 0 FROM generate_series(1, 500) n`, f.now)
	exec(t, f.db, `INSERT INTO dlq.activity VALUES ('orders', 60, $1, 1, 0)`, f.now.Add(-7*24*time.Hour))
	holder := check.Must(f.db.Beginx())(t)
	defer func() { _ = holder.Rollback() }()
	old := `SELECT FROM dlq.activity WHERE at < $1::timestamptz - interval '1509 days' FOR UPDATE`
	check.Must(holder.Exec(old, f.now.Add(time.Hour)))(t)
	for _, want := range []int{500 + 1 + 3, 1 + 1 + 6, 1 + 1 + 9} { // each stored message adds three rows to dlq.activity
		f.insert(f.db, 0) // insert gives the message a topic of its own
		f.work()
		check.Same(t, count(t, f.db, "activity"), want, "rows that are left")
	}
}
