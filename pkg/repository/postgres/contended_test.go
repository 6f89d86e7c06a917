package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// openWith connects to a new database with the given setting.
func openWith(t *testing.T, setting string) *sqlx.DB {
	t.Helper()
	db := postgrestest.Open(t)
	exec(t, db, `DO $do$ BEGIN EXECUTE format('ALTER DATABASE %I SET %s', current_database(), $set$`+setting+`$set$); END $do$`)
	exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	db.SetMaxIdleConns(0) // no idle connections, so that every statement gets a new session with the setting
	return db
}

// TestDeadlockIsTriedAgain: when PostgreSQL ends a deadlock by aborting a statement of the store, the store repeats the
// statement, and the caller gets no error.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := openWith(t, `deadlock_timeout = '3s'`)
	store := New(db)
	for range 5 { // PostgreSQL may miss the deadlock on a very busy machine, because the session that waits first checks for it only once
		first, second := seedTen(t, db, "PENDING", "2001-01-01"), seedTen(t, db, "PENDING", "2001-01-01")
		if strings.Compare(first.String(), second.String()) > 0 {
			first, second = second, first // first has the lower id, which the store locks first
		}
		other := db.MustBegin()
		other.MustExec(`SET LOCAL deadlock_timeout = '1h'; SET LOCAL lock_timeout = '20s'`)
		other.MustExec(`SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, second)
		ended := make(chan error, 1)
		go func() {
			changed, err := store.Change(t.Context(), repository.Change{Action: entity.RedriveDead, IDs: []uuid.UUID{first, second}}, entity.By("alice"))
			ended <- errors.Join(err, unless(err != nil || len(changed) == 2))
		}()
		eventually(t, db, "the change waits", waitingQuery, "%FOR NO KEY UPDATE%")
		_, err := other.Exec(`SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, first)
		check.NoError(t, other.Rollback())
		check.NoError(t, <-ended)
		if err == nil { // the other session succeeded, so PostgreSQL aborted the store's statement
			return
		}
	}
	t.Error("there was no deadlock in five rounds")
}

// TestSerializationFailureIsTriedAgain: in a database with a stricter isolation level, a statement fails after it has
// waited for a row that another session changed; the store repeats the statement.
func TestSerializationFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := openWith(t, `default_transaction_isolation = 'repeatable read'`)
	f := newFeed(t, New(db))
	batch := f.batch(0, records(0, 3)...)
	other := db.MustBegin()
	other.MustExec(`UPDATE dlq.ingest_positions SET next_offset = next_offset`)
	ended := make(chan error, 1)
	go func() {
		stored, err := f.store.Store(context.WithoutCancel(t.Context()), batch)
		ended <- errors.Join(err, unless(err != nil || len(stored.Ranges) == 1))
	}()
	eventually(t, db, "the batch waits", waitingQuery, "%held AS MATERIALIZED%ingest_positions%")
	check.NoError(t, other.Commit())
	check.NoError(t, <-ended)
}

// TestContentionThatGoesOnIsNoOutage: when the tries of a statement are used up, the store returns an error that names
// the conflict with other sessions, and not that of an unavailable database.
func TestContentionThatGoesOnIsNoOutage(t *testing.T) {
	db := freshDB(t)
	exec(t, db, `CREATE SEQUENCE public.tries`)
	exec(t, db, `CREATE FUNCTION public.collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('public.tries');
		RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
	END $$`)
	exec(t, db, `CREATE TRIGGER collide BEFORE INSERT ON dlq.dlq_messages FOR EACH ROW EXECUTE FUNCTION public.collide()`)
	f := newFeed(t, New(db))
	began := time.Now()
	_, err := f.store.Store(t.Context(), f.batch(0, records(0, 1)...))
	if !errors.Is(err, entity.ErrContended) || errors.Is(err, entity.ErrUnavailable) || strings.Contains(err.Error(), "unavailable") {
		t.Errorf("Store = %v after %s, want that other sessions change the same rows", err, time.Since(began))
	}
	check.Same(t, postgrestest.Get[int](t, db, `SELECT last_value FROM public.tries`), conn.StatementTries, "the batch was sent times")
}

// TestStoreInOppositeOrders: an ingester that has not noticed that it lost its partitions stores the same ranges as the
// new owner of the partitions, in the opposite order. They do not deadlock, and each range is stored once. The table of
// positions is so large that PostgreSQL reads the positions one by one through the index.
func TestStoreInOppositeOrders(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	refs := check.Must(store.OpenTopics(t.Context(), []repository.Topic{{Name: "orders.dlq", Incarnation: "1"}}))(t)
	exec(t, db, `INSERT INTO dlq.ingest_positions SELECT $1::int, n, 0 FROM generate_series(0, 4999) n`, refs[0].Incarnation)
	exec(t, db, `ANALYZE dlq.ingest_positions`)

	for round := range int64(60) {
		var batch repository.Batch
		for p := range int32(80) {
			at := repository.Partition{Incarnation: refs[0].Incarnation, Partition: p * 61}
			batch.Ranges = append(batch.Ranges, repository.Range{Partition: at, From: round, To: round + 1})
		}
		backwards := repository.Batch{Ranges: slices.Clone(batch.Ranges)}
		slices.Reverse(backwards.Ranges)
		counted := make([]int, 2)
		var both sync.WaitGroup
		for i, b := range []repository.Batch{batch, backwards} {
			both.Go(func() {
				stored, err := store.Store(t.Context(), b)
				check.True(t, err == nil, "round %d: got %v, want no deadlock", round, err)
				counted[i] = len(stored.Ranges)
			})
		}
		both.Wait()
		check.Require(t, counted[0]+counted[1] == 80, "round %d: %v ranges counted, want each once: 80", round, counted)
	}
}

// TestDocumentsInOppositeOrders: two indexers assign error groups to the same messages at the same time, in opposite
// orders. They do not deadlock, and each message gets its error group. One half of the messages is live, the other half
// archived.
func TestDocumentsInOppositeOrders(t *testing.T) {
	db := freshDB(t)
	indexers := []*Store{New(db), New(db)}
	exec(t, db, `UPDATE dlq.search_index SET version = 1`)
	for round := range 40 {
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, updated_at)
			SELECT 'orders', 'boom', (ARRAY['PENDING', 'RESOLVED'])[1 + n % 2], '2001-01-01', '2001-01-01' FROM generate_series(1, 120) n`)
		check.NoError(t, check.Err(indexers[0].ArchiveOld(t.Context(), 1, 1000)))
		ids := postgrestest.All[uuid.UUID](t, db, `SELECT id FROM (
			SELECT id FROM dlq.dlq_messages WHERE group_id IS NULL UNION ALL
			SELECT id FROM dlq.dlq_messages_archive WHERE group_id IS NULL) m ORDER BY md5(id::text)`)
		check.Require(t, len(ids) == 120, "round %d: %d messages without a group, want 120", round, len(ids))
		fingerprint := entity.Fingerprint{Title: "boom"}
		documents := make([]entity.Document, len(ids))
		for i, id := range ids {
			documents[i] = entity.Document{MessageID: id, Text: "boom", Terms: []int64{1}, Fingerprint: &fingerprint}
		}
		backwards := slices.Clone(documents)
		slices.Reverse(backwards)
		errs := inParallel(
			func() error { return indexers[0].StoreDocuments(t.Context(), 1, documents) },
			func() error { return indexers[1].StoreDocuments(t.Context(), 1, backwards) },
		)
		check.Require(t, errs == nil, "round %d: got %v, want no deadlock", round, errs)
	}
	left := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE group_id IS NULL`)
	check.True(t, left <= 0, "%d archived messages have no group, want none", left)
	wantExactCounters(t, db)
}

// inParallel calls the functions at the same time, waits for all of them, and joins their errors.
func inParallel(calls ...func() error) error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { errs[i] = call() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// TestStatementSentTwice: when a connection ends after a change was committed but before the answer arrived,
// database/sql sends the statement again. The caller must still get the correct answer, and the audit trail must
// contain the change only once.
func TestStatementSentTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status string
		do     func(ctx context.Context, s *Store, id uuid.UUID) error
	}{
		"Delete": {"DEAD", func(ctx context.Context, s *Store, id uuid.UUID) error {
			return s.Delete(ctx, id, entity.By("alice"))
		}},
		"Requeue": {"DEAD", func(ctx context.Context, s *Store, id uuid.UUID) error {
			m, err := s.Requeue(ctx, id, entity.By("alice"))
			return errors.Join(err, unless(m.Status == entity.Pending))
		}},
		"GiveUp": {"PENDING", func(ctx context.Context, s *Store, id uuid.UUID) error {
			m, err := s.MarkDead(ctx, id, entity.By("alice"))
			return errors.Join(err, unless(m.Status == entity.Dead))
		}},
		"Change": {"PENDING", func(ctx context.Context, s *Store, id uuid.UUID) error {
			changed, err := s.Change(ctx, repository.Change{Action: entity.RedriveDead, IDs: []uuid.UUID{id, uuid.New()}}, entity.By("alice"))
			return errors.Join(err, unless(slices.Equal(changed, []uuid.UUID{id})))
		}},
		"Map": {"PENDING", func(ctx context.Context, s *Store, id uuid.UUID) error {
			changed, err := s.Change(ctx, repository.Change{
				Action: entity.RedriveMap, IDs: []uuid.UUID{id, uuid.New()}, OriginalTopic: "payments",
			}, entity.By("alice"))
			return errors.Join(err, unless(slices.Equal(changed, []uuid.UUID{id})))
		}},
		"ClaimWithEdit": {"PENDING", func(ctx context.Context, s *Store, id uuid.UUID) error {
			c := repository.Claim{MessageID: id, ID: uuid.New(), Topic: "orders", Edit: &entity.Edit{SetKey: true}}
			taken, err := s.Claim(ctx, []repository.Claim{c}, repository.Claiming{Expiry: time.Minute, Cause: entity.By("alice"), Audit: true})
			return errors.Join(err, unless(len(taken) == 1 && taken[0].Claim.ID == c.ID))
		}},
		"ReplaceMapping": {"PENDING", func(ctx context.Context, s *Store, _ uuid.UUID) error {
			m, err := s.ReplaceMapping(ctx, []entity.TopicRule{{Pattern: "a", Original: "b"}}, 0, entity.By("alice"))
			return errors.Join(err, unless(m.Version == 1 && len(m.Rules) == 1))
		}},
		"Record": {"PENDING", func(ctx context.Context, s *Store, id uuid.UUID) error {
			return s.Record(ctx, entity.AuditEntry{
				Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: id, Cause: entity.By("alice"),
			})
		}},
		"MoveRedrive": {"PENDING", func(ctx context.Context, s *Store, id uuid.UUID) error {
			n := retryAll("orders")
			n.Selection = entity.Selection{IDs: []uuid.UUID{id}}
			if _, err := s.CreateRedrive(ctx, n); err != nil {
				return err
			}
			r, err := s.MoveRedrive(ctx, n.ID, repository.RedriveMove{
				To: entity.RedrivePaused, Action: entity.ActionPause, Cause: entity.By("alice"),
			})
			return errors.Join(err, unless(r.State == entity.RedrivePaused))
		}},
		"OpenKey": {"PENDING", func(ctx context.Context, s *Store, _ uuid.UUID) error {
			k := repository.Key{Principal: "p", Key: "k", Request: sha256.Sum256(nil), Operation: uuid.New(), Owner: uuid.New()}
			state, err := s.OpenKey(ctx, k, time.Minute)
			return errors.Join(err, unless(state.Phase == repository.KeyNew && state.Operation == k.Operation))
		}},
	} {
		postgrestest.Parallel(t, name, func(t *testing.T) {
			at := postgrestest.URL(t)
			connector := check.Must(pq.NewConnector(at))(t)
			var lost atomic.Int32
			db := sqlx.NewDb(sql.OpenDB(losing{connector, &lost}), "postgres")
			defer func() { _ = db.Close() }()
			id := postgrestest.Get[uuid.UUID](t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status)
				VALUES ('orders', 'boom', $1) RETURNING id`, c.status)
			check.NoError(t, c.do(t.Context(), New(db), id))
			check.True(t, lost.Load() != 0, "no answer was lost, want one")
			lines := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.audit WHERE action <> 'create'`)
			want := 1
			check.True(t, name == "OpenKey" || lines == want, "the audit trail has %d lines, want %d", lines, want)
		})
	}
}

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("another answer than wanted")
}

// losing is a connector whose connections lose the answer to the first statement that writes an audit entry or an
// idempotency key.
type losing struct {
	driver.Connector
	lost *atomic.Int32
}

func (l losing) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := l.Connector.Connect(ctx)
	return losingConn{c, l.lost}, err
}

type losingConn struct {
	driver.Conn
	lost *atomic.Int32
}

func (c losingConn) Prepare(query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	change := strings.Contains(query, "UPDATE") || strings.Contains(query, "DELETE FROM dlq.dlq_messages") || query == audit.RecordQuery
	if err != nil || !change || strings.Contains(query, "INSERT INTO dlq.redrives") {
		return s, err
	}
	return losingStmt{s, c.lost}, nil
}

type losingStmt struct {
	driver.Stmt
	lost *atomic.Int32
}

func (s losingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil || !s.lost.CompareAndSwap(0, 1) {
		return rows, err
	}
	if err := rows.Close(); err != nil { // waits until the server has executed the statement
		return nil, err
	}
	return nil, driver.ErrBadConn
}

func (s losingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	done, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err != nil || !s.lost.CompareAndSwap(0, 1) {
		return done, err
	}
	return nil, driver.ErrBadConn
}
