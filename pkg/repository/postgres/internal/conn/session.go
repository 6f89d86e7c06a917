package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"syscall"
)

// session is a connection that ends with its credentials: when the server refuses a statement because the role was
// dropped or replaced, it returns driver.ErrBadConn, and database/sql sends the statement again on another
// connection. A refused statement has changed nothing, so that is safe.
type session struct {
	driverConn
	of         *connector
	user       string
	generation int64

	closed []driverStmt // not yet closed on the server

	inTx   bool
	denied bool // in this transaction; roleIsGone can only be checked after its end
}

// driverConn has the optional interfaces of the driver's connections. database/sql checks for each of them, and works
// without those that it does not find.
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

// lostError is the server's error for a statement that must be tried on another connection.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection is of no use any more: " + e.err.Error() }

func (e *lostError) Unwrap() []error { return []error{driver.ErrBadConn, e.err} }

// ResetSession is called before the connection is used again.
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

// IsValid is called when the connection returns to the pool.
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

// judge makes database/sql try a failed statement on another connection if the session is lost or its role is gone.
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
	case !RoleMayBeGone(err):
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

// lost handles a session that the server ended. It has probably ended others too, so the pool's idle ones are closed;
// otherwise a statement would be tried on each of them.
func (s *session) lost(ctx context.Context) {
	if ctx.Err() == nil { // otherwise the caller's cancellation ended it
		s.of.dropIdle()
	}
}

// roleIsGone distinguishes a role that was dropped or replaced from one that never had the right. The grants of a
// replaced role may be revoked before it is dropped.
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

// Close postpones the message to the server until the connection is next used: database/sql calls it while no other
// connection can be taken from the pool.
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

// Commit ends the transaction. It returns the driver's error: a commit must not be repeated.
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

// ended checks after a transaction whether the role is gone, which is not possible within it.
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
