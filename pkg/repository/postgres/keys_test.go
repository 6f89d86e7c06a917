package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestOpenKeyOfTheSameMoment: another caller inserts the same key while OpenKey runs, so the snapshot of OpenKey's
// statement does not contain the key. OpenKey must still find the key when the other caller commits, and acquire the
// key when the other caller rolls back.
func TestOpenKeyOfTheSameMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  string
		want repository.KeyPhase
	}{
		"Committed":  {"COMMIT", repository.KeyAtWork},
		"RolledBack": {"ROLLBACK", repository.KeyNew},
	} {
		withDB(t, name, func(t *testing.T, db *sqlx.DB) {
			mine := repository.Key{
				Principal: "p", Key: "k", Request: sha256.Sum256([]byte("r")), Operation: uuid.New(), Owner: uuid.New(),
			}
			conn := check.Must(db.Connx(t.Context()))(t)
			defer func() { _ = conn.Close() }()
			check.NoError(t, check.Err(conn.ExecContext(t.Context(), `BEGIN`)))
			_, err := conn.ExecContext(t.Context(), `INSERT INTO dlq.idempotency_keys
				(principal, key, request, operation_id, owner, lease_expires_at, created_at)
				VALUES ('p', 'k', $1, gen_random_uuid(), gen_random_uuid(), now() + interval '1 minute', now())`, mine.Request[:])
			check.NoError(t, err)

			type answer struct {
				state repository.KeyState
				err   error
			}
			answered := make(chan answer, 1)
			go func() {
				state, err := New(db).OpenKey(t.Context(), mine, time.Minute)
				answered <- answer{state, err}
			}()
			eventually(t, db, "the second caller waits", waitingQuery, "%INSERT INTO dlq.idempotency_keys%")
			check.NoError(t, check.Err(conn.ExecContext(t.Context(), c.end)))
			got := <-answered
			if got.err != nil || got.state.Phase != c.want || (got.state.Operation == mine.Operation) != (c.want == repository.KeyNew) {
				t.Errorf("got %+v, %v, want phase %d", got.state, got.err, c.want)
			}
		})
	}
}

// Processes that start at the same time with an empty database all use the same signing key.
func TestSigningKeys_OneForAll(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
	const processes = 8
	got := make([][][]byte, processes)
	var all sync.WaitGroup
	for i := range processes {
		s := insight.NewSessions(openConfig(t, cfg))
		all.Go(func() {
			keys, err := s.SigningKeys(t.Context(), bytes.Repeat([]byte{byte(i)}, 32))
			check.True(t, err == nil && len(keys) == 1, "process %d: got %d keys, %v, want one", i, len(keys), err)
			got[i] = keys
		})
	}
	all.Wait()
	db := openConfig(t, cfg)
	after := check.Must(insight.NewSessions(db).SigningKeys(t.Context(), make([]byte, 32)))(t)
	for i, keys := range got {
		check.True(t, reflect.DeepEqual(keys, after), "process %d has another key", i)
	}
	exec(t, db, `INSERT INTO dlq.signing_keys (id, key) VALUES (2, decode(repeat('ff', 32), 'hex'))`)
	keys := check.Must(insight.NewSessions(db).SigningKeys(t.Context(), make([]byte, 32)))(t)
	check.True(t, len(keys) == 2 && keys[0][0] == 0xff && bytes.Equal(keys[1], after[0]),
		"with a second key: got %x, want the newest first", keys)
}

func TestEndedSessions(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
	db := openConfig(t, cfg)
	s := insight.NewSessions(db)
	a, b, c := [32]byte{1}, [32]byte{2}, [32]byte{3}
	wantEnded := func(what string, want ...[32]byte) {
		t.Helper()
		got, err := s.EndedSessions(t.Context(), [][32]byte{a, b, c})
		if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %x, %v, want %x", what, got, err, want)
		}
	}
	wantEnded("at first")
	soon, later := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	check.NoError(t, s.EndSessions(t.Context(), [][32]byte{b, a}, soon))
	check.NoError(t, s.EndSessions(t.Context(), [][32]byte{b}, later))
	check.NoError(t, s.EndSessions(t.Context(), [][32]byte{b}, soon))
	check.Same(t, count(t, db, "revoked_sessions"), 2, "rows")
	n := check.Must(New(db).PurgeBookkeeping(t.Context(), 365, 730, 1))(t)
	check.Same(t, n, 1, "purged, want the one whose token has ended")
	wantEnded("after the purge", b)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	err := check.Err(s.EndedSessions(gone, [][32]byte{a}))
	check.True(t, errors.Is(err, context.Canceled) || errors.Is(err, entity.ErrUnavailable), "without an answer: got %v, want no result", err)
}

func TestDrafts(t *testing.T) {
	db := freshDB(t)
	drafts := insight.NewDrafts(db, 24*time.Hour)
	keep := func(id, owner string, size int) {
		t.Helper()
		check.NoError(t, drafts.KeepDraft(t.Context(), id, owner, bytes.Repeat([]byte(id[:1]), size)))
	}
	wantKept := func(id string, size int) {
		t.Helper()
		check.Len(t, check.Must(drafts.Draft(t.Context(), id))(t), size, "bytes of the draft %s", id)
	}
	keep("of bob", "bob", 9)
	for i := range 120 {
		keep("small "+strconv.Itoa(i), "alice", 1)
	}
	check.Same(t, count(t, db, "console_drafts WHERE owner = 'alice'"), 100, "drafts of alice")
	for i := range 6 {
		keep("large "+strconv.Itoa(i), "alice", 8<<20)
	}
	check.Same(t, count(t, db, "console_drafts WHERE owner = 'alice'"), 4, "drafts of 8 MiB, want 32 MiB of them")
	for i := range 3 {
		keep("unowned "+strconv.Itoa(i), "", 4<<20)
	}
	check.Same(t, count(t, db, "console_drafts WHERE owner = ''"), 2, "drafts of 4 MiB without an owner, want 8 MiB of them")
	wantKept("large 1", 0)
	wantKept("large 5", 8<<20)
	wantKept("of bob", 9)
	wantKept("unknown\x00", 0)
	exec(t, db, `UPDATE dlq.console_drafts SET created_at = now() - interval '25 hours' WHERE owner = 'bob'`)
	wantKept("of bob", 0)
	check.Same(t, check.Must(New(db).PurgeBookkeeping(t.Context(), 365, 730, 10))(t), 1, "purged, want the one that has expired")
}
