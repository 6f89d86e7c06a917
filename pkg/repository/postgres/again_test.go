package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestStatementSentTwice: a connection that ends after a change was committed has
// database/sql send the statement again, and the caller is told what is true.
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
			m, err := s.GiveUp(ctx, id, entity.By("alice"))
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := postgrestest.URL(t)
			connector, err := pq.NewConnector(at)
			wantNil(t, err)
			var lost atomic.Int32
			db := sqlx.NewDb(sql.OpenDB(losing{connector, &lost}), "postgres")
			defer func() { _ = db.Close() }()
			var id uuid.UUID
			wantNil(t, db.Get(&id, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status)
				VALUES ('orders', 'boom', $1) RETURNING id`, c.status))
			wantNil(t, c.do(t.Context(), New(db), id))
			if got := lost.Load(); got == 0 {
				t.Error("no answer was lost, want one")
			}
			var lines int
			wantNil(t, db.Get(&lines, `SELECT count(*) FROM dlq.audit WHERE action <> 'create'`))
			if want := 1; name != "OpenKey" && lines != want {
				t.Errorf("the audit trail has %d lines, want %d", lines, want)
			}
		})
	}
}

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("another answer than wanted")
}

// losing makes connections that lose the first answer to a change with a line in
// the audit trail, or to an idempotency key.
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
	change := strings.Contains(query, "UPDATE") || strings.Contains(query, "DELETE FROM dlq.dlq_messages") || query == recordQuery
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
	if err := rows.Close(); err != nil { // carried out to its end
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
