package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// How long one statement may take that somebody's filter made: of a search or an
// export, and of an exact count.
const (
	searchPatience = 10 * time.Second
	countPatience  = 5 * time.Second
)

// bounded runs what do reads, as of one moment, in statements of which none takes
// longer than patience: one that does is a *repository.TooBroadError. settings are
// statements that are run first, in the same round trip. do is called once more, in
// another transaction, when the connection is of no use: the pool tries again only
// what stands outside of one.
func (s *Store) bounded(ctx context.Context, patience time.Duration, do func(tx *sqlx.Tx) error, settings ...string) error {
	err := s.boundedOnce(ctx, patience, do, settings)
	if ctx.Err() == nil && (errors.Is(err, driver.ErrBadConn) || roleMayBeGone(err)) {
		err = s.boundedOnce(ctx, patience, do, settings)
	}
	return err
}

func (s *Store) boundedOnce(ctx context.Context, patience time.Duration, do func(tx *sqlx.Tx) error, settings []string) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	all := append([]string{fmt.Sprintf(
		`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = %d`,
		max(1, patience.Milliseconds()))}, settings...)
	_, err = tx.ExecContext(ctx, strings.Join(all, "; "))
	if err == nil {
		err = do(tx)
	}
	if isCanceled(err) && ctx.Err() == nil {
		return &repository.TooBroadError{}
	}
	return err
}

// isCanceled reports whether the server ended a statement, because it took too long or
// another session asked for that.
func isCanceled(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && pe.Code == "57014"
}

// readRows runs a query into dest, a pointer to a slice. It is prepared for the
// sake of its bytes, see Store.stmt, and planned for its arguments nevertheless:
// PostgreSQL does so the first five times.
func readRows(ctx context.Context, tx *sqlx.Tx, dest any, query string, args ...any) error {
	st, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	return st.SelectContext(ctx, dest, args...)
}
