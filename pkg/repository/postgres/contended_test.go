package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// openWith connects to a new database with a setting of its own.
func openWith(t *testing.T, setting string) *sqlx.DB {
	t.Helper()
	db := postgrestest.Open(t)
	exec(t, db, `DO $do$ BEGIN EXECUTE format('ALTER DATABASE %I SET %s', current_database(), $set$`+setting+`$set$); END $do$`)
	exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	db.SetMaxIdleConns(0) // sessions begin anew, with the setting
	return db
}

// TestDeadlockIsTriedAgain: the store is the victim of a deadlock, and its caller does
// not notice.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := openWith(t, `deadlock_timeout = '3s'`)
	store := New(db)
	for range 5 { // a machine that is too busy finds no deadlock: the first to wait looks once
		first, second := seedTen(t, db, "PENDING", "2001-01-01"), seedTen(t, db, "PENDING", "2001-01-01")
		if strings.Compare(first.String(), second.String()) > 0 {
			first, second = second, first // the order in which the store locks them
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
		wantNil(t, other.Rollback())
		wantNil(t, <-ended)
		if err == nil { // the other session got on: the store's was the victim
			return
		}
	}
	t.Error("there was no deadlock in five rounds")
}

// TestSerializationFailureIsTriedAgain: a database whose operator chose a stricter
// isolation ends statements that wait for one another's rows.
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
	wantNil(t, other.Commit())
	wantNil(t, <-ended)
}

// TestContentionThatGoesOnIsNoOutage: after some tries the error says what it is.
func TestContentionThatGoesOnIsNoOutage(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
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
	var tries int
	wantNil(t, db.Get(&tries, `SELECT last_value FROM public.tries`))
	if tries != statementTries {
		t.Errorf("the batch was sent %d times, want %d", tries, statementTries)
	}
}
