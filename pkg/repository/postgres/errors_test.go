package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestKilledConnection(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	id := seedTen(t, db, "PENDING", "2001-01-01")
	holder := check.Must(db.Beginx())(t)
	holder.MustExec(`SELECT FROM dlq.dlq_messages FOR UPDATE`)

	claim := []repository.Claim{{MessageID: id, ID: uuid.New(), Topic: "orders"}}
	ended := make(chan error, 1)
	go func() {
		_, err := store.Claim(t.Context(), claim, repository.Claiming{Expiry: time.Minute, Wait: true, Cause: entity.By("alice")})
		ended <- err
	}()
	// When the server ends the connection of a statement that has changed nothing, the statement is sent again on
	// another connection, but only a few times. So the test ends the connection again until Claim returns the error.
	kills := 0
	var err error
	for ; err == nil && kills < 500; kills++ {
		exec(t, db, `SELECT pg_terminate_backend(pid), pg_sleep(0.02) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()`)
		select {
		case err = <-ended:
		default:
		}
	}
	check.Require(t, errors.Is(err, entity.ErrUnavailable), "got %v after %d rounds, want %v", err, kills, entity.ErrUnavailable)
	check.NoError(t, holder.Rollback())

	exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	if taken, err := store.Claim(t.Context(), claim, repository.Claiming{Expiry: time.Minute, Wait: true, Cause: entity.By("alice")}); err != nil || len(taken) != 1 {
		t.Errorf("with new connections: took %d, %v, want the message", len(taken), err)
	}
}

func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	const password = "hunter2-hunter2"
	real := configOf(t, postgrestest.URL(t))
	real.User = login(t, "dlq_rw")
	dead := real
	dead.Port = 1
	nowhere := real
	nowhere.Host = "host.invalid"
	noTLS := real
	noTLS.SSLMode = "require"
	gone := real
	gone.Name = "no_such_database"
	for name, cfg := range map[string]conn.Config{"wrong password": real, "dead server": dead, "unknown host": nowhere, "no TLS": noTLS, "no such database": gone} {
		cfg.Password = password
		store := New(openConfig(t, cfg))
		_, listed := store.List(t.Context(), "orders", repository.Page{Number: 1, Size: 1})
		_, _, locked := store.TryLock(t.Context())
		_, archived := store.ArchiveOld(t.Context(), 1, 1)
		for _, err := range []error{store.Ping(t.Context()), listed, locked, archived} {
			if err == nil {
				t.Errorf("%s: got no error, want one", name)
				continue
			}
			text := fmt.Sprintf("%v %+v", err, err)
			check.True(t, !strings.Contains(text, password) && !strings.Contains(text, "\n"),
				"%s: got %q, want one line without the password", name, text)
			check.True(t, name == "no such database" || name == "no TLS" || errors.Is(err, entity.ErrUnavailable),
				"%s: got %v, want %v", name, err, entity.ErrUnavailable)
		}
	}
}
