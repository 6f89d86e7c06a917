package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"syscall"
)

// session is a connection that ends when its role was dropped or replaced. When the server refuses a statement outside
// a transaction for this reason, session returns driver.ErrBadConn, and database/sql sends the statement again on
// another connection. This is safe, because a refused statement has changed nothing.
type session struct {
	driverConn
	of         *connector
	user       string
	generation int64

	closed []driverStmt // statements that must still be closed on the server

	inTx   bool
	denied bool // whether a statement of this transaction was refused for a missing right; roleIsGone can be called only after the transaction

	// The fields below are used only for statements whose context has a Need; see position.go.
	network  net.Conn // the network connection of this session; nil when it is not known
	replayed Position // position that this connection's server had replayed when it was last asked
	alive    context.Context
	unwatch  func() bool
}

// Close is part of driver.Conn.
func (s *session) Close() error {
	s.release()
	return s.driverConn.Close()
}

// driverConn lists the optional interfaces that the driver's connections implement. database/sql uses each of them if
// the connection implements it, so session must implement all of them.
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

// lostError wraps the error of a statement that database/sql must try on another connection.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection is of no use any more: " + e.err.Error() }

func (e *lostError) Unwrap() []error { return []error{driver.ErrBadConn, e.err} }

// ResetSession implements driver.SessionResetter. database/sql calls it before it uses an idle connection again.
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

// IsValid implements driver.Validator. database/sql calls it when the connection returns to the pool, and closes the
// connection when the result is false.
func (s *session) IsValid() bool { return !s.of.retired(s.generation) && s.driverConn.IsValid() }

// QueryContext implements driver.QueryerContext.
func (s *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.meets(ctx); err != nil {
		return nil, err
	}
	rows, err := s.driverConn.QueryContext(ctx, query, args)
	return rows, s.judge(ctx, err)
}

// ExecContext implements driver.ExecerContext.
func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := s.meets(ctx); err != nil {
		return nil, err
	}
	result, err := s.driverConn.ExecContext(ctx, query, args)
	return result, s.judge(ctx, err)
}

// PrepareContext implements driver.ConnPrepareContext.
func (s *session) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := s.meets(ctx); err != nil {
		return nil, err
	}
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

// BeginTx implements driver.ConnBeginTx.
func (s *session) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if err := s.meets(ctx); err != nil {
		return nil, err
	}
	tx, err := s.driverConn.BeginTx(ctx, options)
	if err != nil {
		return nil, s.judge(ctx, err)
	}
	s.inTx, s.denied = true, false
	return &sessionTx{tx, s}, nil
}

// judge returns the error that database/sql must get for the error of a statement. When the connection was lost or its
// role is gone, this error makes database/sql try the statement on another connection.
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

// lost is called when the server has ended the session. It closes the pool's idle connections, because the server has
// probably ended other sessions too, and database/sql would try the statement on each of them.
func (s *session) lost(ctx context.Context) {
	if ctx.Err() == nil { // a cancelled context also ends the connection
		s.of.dropIdle()
	}
}

// roleIsGone reports whether a right is missing because the role was dropped or replaced, so that new credentials help.
// A role that never had the right does not count. The rights of a replaced role may be revoked some time before it is
// dropped.
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

// Close closes the statement on the server only when the connection is used next. database/sql calls Close while it
// holds a lock, and a round trip during that time would keep all callers from taking connections from the pool.
func (t *sessionStmt) Close() error {
	t.s.closed = append(t.s.closed, t.driverStmt)
	return nil
}

func (t *sessionStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := t.s.meets(ctx); err != nil {
		return nil, err
	}
	rows, err := t.driverStmt.QueryContext(ctx, args)
	return rows, t.s.judge(ctx, err)
}

func (t *sessionStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := t.s.meets(ctx); err != nil {
		return nil, err
	}
	result, err := t.driverStmt.ExecContext(ctx, args)
	return result, t.s.judge(ctx, err)
}

type sessionTx struct {
	driver.Tx
	s *session
}

// Commit ends the transaction. It always returns the driver's own error, because database/sql must not repeat a commit
// on another connection.
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

// ended is called after a transaction. It checks whether the role is gone, which was not possible during the
// transaction.
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

// meets returns an error if the server of the session has not replayed the position that the statement's Need names. It
// asks the server for its position only when the last answer was a lower position, because a server never loses what it
// has replayed while a connection to it lasts.
func (s *session) meets(ctx context.Context) error {
	need, ok := needOf(ctx)
	if !ok {
		return nil
	}
	s.closeAfter(need.Alive)
	if need.Position == (Position{}) || s.replayed.has(need.Position) {
		return nil
	}
	at, err := s.readReplayed(ctx)
	if err != nil {
		return s.judge(ctx, err)
	}
	if s.replayed = at; !at.has(need.Position) {
		return &BehindError{at}
	}
	return nil
}

// closeAfter closes the connection when alive ends. The driver would wait for the server's answer even after the
// statement's context has ended.
func (s *session) closeAfter(alive context.Context) {
	if s.network == nil || s.alive == alive {
		return
	}
	s.release()
	s.alive, s.unwatch = alive, context.AfterFunc(alive, func() {
		_ = s.network.Close()
		s.of.dropIdle() // idle connections were closed together with this one; they must not be used for other statements
	})
}

// release stops the watch that closeAfter began, so that the connection stays open.
func (s *session) release() {
	if s.unwatch != nil {
		s.unwatch()
	}
}

func (s *session) readReplayed(ctx context.Context) (Position, error) {
	rows, err := s.driverConn.QueryContext(ctx, replayedQuery, nil)
	if err != nil {
		return Position{}, err
	}
	defer func() { _ = rows.Close() }()
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil {
		return Position{}, err
	}
	switch text := value[0].(type) {
	case string:
		return parsePosition(text)
	case []byte:
		return parsePosition(string(text))
	default:
		return Position{}, ErrNoReplica
	}
}
