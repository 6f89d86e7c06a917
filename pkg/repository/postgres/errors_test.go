package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	for code, unavailable := range map[string]bool{
		"08000": true, "08003": true, "08006": true, "08001": true, "08P01": true, // connection
		"53000": true, "53100": true, "53200": true, "53300": true, "53400": true, // resources
		"57P01": true, "57P02": true, "57P03": true, "57P05": true, "57014": true, // stopping, starting, cancelled
		"58000": true, "58030": true, // the server's own disk
		"55P03": true,                               // another transaction
		"28P01": true, "28000": true, "42501": true, // credentials that rotate
		"40001": false, "40P01": false, // other sessions: a separate kind
		"23505": false, "23514": false, "22001": false, "22003": false, "22P02": false, "22P05": false, "22021": false,
		"42P01": false, "42703": false, "42601": false, "0A000": false, "54001": false, "25006": false, "P0001": false, "XX000": false,
	} {
		err := translate("claim messages", &pq.Error{Code: pqerror.Code(code), Message: "said the server"})
		check.Same(t, errors.Is(err, entity.ErrUnavailable), unavailable, "%s: unavailable", code)
		var kept *pq.Error
		check.True(t, strings.HasPrefix(err.Error(), "claim messages: ") && errors.As(err, &kept),
			"%s: got %q, want where it was and the cause", code, err)
	}
	for _, c := range []struct {
		err         error
		unavailable bool
	}{
		{driver.ErrBadConn, true},
		{sql.ErrConnDone, true},
		{context.DeadlineExceeded, true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		{fmt.Errorf("connect: %w", &pq.Error{Code: "57P03"}), true},
		{context.Canceled, false},
		{errors.New("something else"), false},
	} {
		check.Same(t, errors.Is(translate("x", c.err), entity.ErrUnavailable), c.unavailable, "%v: unavailable", c.err)
	}
	check.True(t, translate("x", nil) == nil, "no error became one")
}

func TestBadData(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"22P05": true, "22P02": true, "22021": true, "22003": true, "23514": true, "54001": true, "54000": true,
		"57P01": false, "40P01": false, "42501": false, "53100": false, "42703": false,
	} {
		check.Same(t, refused(&pq.Error{Code: pqerror.Code(code)}), want, "%s: bad data", code)
	}
	check.True(t, !refused(io.EOF) && !refused(nil), "an error that is not the server's is called bad data")
}

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
	// A statement that never began is tried on other connections, a few times.
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
	for name, cfg := range map[string]Config{"wrong password": real, "dead server": dead, "unknown host": nowhere, "no TLS": noTLS, "no such database": gone} {
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
