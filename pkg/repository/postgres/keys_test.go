package postgres

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestOpenKeyOfTheSameMoment: a key that another caller makes after the statement
// began is not in its snapshot, and is found all the same; so is one whose maker
// goes away.
func TestOpenKeyOfTheSameMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  string
		want repository.KeyPhase
	}{
		"Committed":  {"COMMIT", repository.KeyAtWork},
		"RolledBack": {"ROLLBACK", repository.KeyNew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.Open(t)
			mine := repository.Key{
				Principal: "p", Key: "k", Request: sha256.Sum256([]byte("r")), Operation: uuid.New(), Owner: uuid.New(),
			}
			conn, err := db.Connx(t.Context())
			wantNil(t, err)
			defer func() { _ = conn.Close() }()
			_, err = conn.ExecContext(t.Context(), `BEGIN`)
			wantNil(t, err)
			_, err = conn.ExecContext(t.Context(), `INSERT INTO dlq.idempotency_keys
				(principal, key, request, operation_id, owner, lease_expires_at, created_at)
				VALUES ('p', 'k', $1, gen_random_uuid(), gen_random_uuid(), now() + interval '1 minute', now())`, mine.Request[:])
			wantNil(t, err)

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
			_, err = conn.ExecContext(t.Context(), c.end)
			wantNil(t, err)
			got := <-answered
			if got.err != nil || got.state.Phase != c.want || (got.state.Operation == mine.Operation) != (c.want == repository.KeyNew) {
				t.Errorf("got %+v, %v, want phase %d", got.state, got.err, c.want)
			}
		})
	}
}
