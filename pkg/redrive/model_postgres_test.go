package redrive

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// modelOnPostgres is the number of command sequences that TestModelPostgres plays on PostgreSQL.
const modelOnPostgres = 3

// TestModelPostgres plays some of the sequences on PostgreSQL. The test sets the database's clock to the fake clock of
// the synctest bubble. That clock does not move during a statement, and jumps to the next timer between statements.
func TestModelPostgres(t *testing.T) {
	t.Parallel()
	for seed := range uint64(modelOnPostgres) {
		url := postgrestest.URL(t)
		w := play(t, seed+1, newCommands(rand.New(rand.NewPCG(seed+1, 1)), modelCommands), func() (repository.Repository, func()) {
			// The connection is opened in the bubble, because the connection's timers follow the bubble's clock.
			db, err := sqlx.Connect("postgres", url)
			check.NoError(t, err)
			return postgres.New(db, postgres.WithClock(time.Now)), func() { _ = db.Close() }
		})
		t.Log(w.score)
		check.True(t, w.failure == "", "seed %d: %s", seed+1, w.failure)
	}
}
