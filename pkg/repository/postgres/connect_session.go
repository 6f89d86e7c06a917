package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"syscall"
)

// session is a connection that ends with its credentials: when the server refuses it
// because its role was dropped or replaced, it answers driver.ErrBadConn, and database/sql
// sends the statement again on another connection. A refused statement has changed nothing,
// so that is safe.
type session struct {
	driverConn
	of         *connector
	user       string
	generation int64

	closed []driverStmt // which the server still has

	inTx   bool
	denied bool // in the transaction, which has to end before a question can be asked
}

// driverConn is what the driver's connections can do. database/sql asks for each of
// these, and does without what it does not find.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// lostError is the server's answer to a statement that is to be tried on another
// connection.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection is of no use any more: " + e.err.Error() }

func (e *lostError) Unwrap() []error { return []error{driver.ErrBadConn, e.err} }

// ResetSession is asked before the connection is used again.
func (s *session) ResetSession(ctx context.Context) error {
	if s.of.retired(s.generation) {
		return driver.ErrBadConn
	}
	for _, st := range s.closed {
		if err := st.Close(); err != nil {
			return driver.ErrBadConn
		}
	}
	s.closed = nil
	return s.driverConn.ResetSession(ctx)
}

// IsValid is asked when the connection goes back to the pool.
func (s *session) IsValid() bool { return !s.of.retired(s.generation) && s.driverConn.IsValid() }

// QueryContext is part of driver.QueryerContext.
func (s *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.driverConn.QueryContext(ctx, query, args)
	return rows, s.judge(ctx, err)
}

// ExecContext is part of driver.ExecerContext.
func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.driverConn.ExecContext(ctx, query, args)
	return result, s.judge(ctx, err)
}

// PrepareContext is part of driver.ConnPrepareContext.
func (s *session) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := s.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, s.judge(ctx, err)
	}
	able, ok := stmt.(driverStmt)
	if !ok {
		return stmt, nil
	}
	return &sessionStmt{able, s}, nil
}

// BeginTx is part of driver.ConnBeginTx.
func (s *session) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := s.driverConn.BeginTx(ctx, options)
	if err != nil {
		return nil, s.judge(ctx, err)
	}
	s.inTx, s.denied = true, false
	return &sessionTx{tx, s}, nil
}

// judge looks at what came of a statement.
func (s *session) judge(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrBadConn):
		s.lost(ctx)
		return err
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		s.lost(ctx)
		return &lostError{err}
	case !roleMayBeGone(err):
		return err
	case s.inTx:
		s.denied = true
		return err
	case s.roleIsGone(ctx):
		s.of.retire()
		return &lostError{err}
	}
	return err
}

// lost: the server ended the session, and is likely to have ended others. The
// pool's idle ones are thrown away, or a statement would be tried on them.
func (s *session) lost(ctx context.Context) {
	if ctx.Err() == nil { // or we ended it
		s.of.dropIdle()
	}
}

// roleIsGone tells a role that was dropped or replaced from one that never had the
// right. The grants of a role that was replaced may be revoked before it is dropped.
func (s *session) roleIsGone(ctx context.Context) bool {
	if now, err := s.of.cfg.credentials(); err == nil && now.user != s.user {
		return true
	}
	rows, err := s.driverConn.QueryContext(ctx, "SELECT current_user", nil)
	if err != nil {
		return ctx.Err() == nil
	}
	defer func() { _ = rows.Close() }()
	return rows.Next(make([]driver.Value, 1)) != nil && ctx.Err() == nil
}

type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type sessionStmt struct {
	driverStmt
	s *session
}

// Close leaves it to the next use of the connection to tell the server: database/sql calls it
// while no other connection can be taken from the pool.
func (t *sessionStmt) Close() error {
	t.s.closed = append(t.s.closed, t.driverStmt)
	return nil
}

func (t *sessionStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := t.driverStmt.QueryContext(ctx, args)
	return rows, t.s.judge(ctx, err)
}

func (t *sessionStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := t.driverStmt.ExecContext(ctx, args)
	return result, t.s.judge(ctx, err)
}

type sessionTx struct {
	driver.Tx
	s *session
}

// Commit ends the transaction. Its error is the driver's: nobody may try again.
func (t *sessionTx) Commit() error {
	err := t.Tx.Commit()
	t.s.ended()
	return err
}

func (t *sessionTx) Rollback() error {
	err := t.Tx.Rollback()
	t.s.ended()
	return err
}

// ended asks what could not be asked within the transaction.
func (s *session) ended() {
	s.inTx = false
	if !s.denied || !s.driverConn.IsValid() {
		return
	}
	s.denied = false
	ctx, cancel := context.WithTimeout(context.Background(), s.of.cfg.ConnectTimeout)
	defer cancel()
	if s.roleIsGone(ctx) {
		s.of.retire()
	}
}
