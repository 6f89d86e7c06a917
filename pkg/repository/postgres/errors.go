package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// unavailableError hides a driver's error behind the kind that callers decide
// upon, and keeps it for the log.
type unavailableError struct {
	where string
	err   error
}

func (e *unavailableError) Error() string {
	return e.where + ": database unavailable: " + e.err.Error()
}

func (e *unavailableError) Is(target error) bool { return target == entity.ErrUnavailable }

func (e *unavailableError) Unwrap() error { return e.err }

// translate is the one place that knows the driver's errors. where is a verb and
// its object.
func translate(where string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", where, err)
	case transient(err):
		return &unavailableError{where, err}
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}

// transient reports whether the same statement may succeed later: the server
// cannot be reached, is starting or stopping, is full, or chose us as the victim
// of a deadlock. A connection whose role was dropped under it (42501 on a live
// session, 28xxx on a new one) counts too: credentials rotate, and the next
// connection reads the new ones.
func transient(err error) bool {
	var network net.Error
	var connect *connectError
	if errors.As(err, &connect) {
		return true
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) {
		return true
	}
	var pe *pq.Error
	if !errors.As(err, &pe) {
		// lib/pq passes io errors on as they are: EOF, "unexpected message", and so on.
		return strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "connection")
	}
	switch code := string(pe.Code); {
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57P"),
		strings.HasPrefix(code, "28"), strings.HasPrefix(code, "58"):
		return true
	case code == "40001", code == "40P01", code == "55P03", code == "57014", code == "42501":
		return true
	}
	return false
}

// roleMayBeGone reports whether the session's role may not do what it always may, or
// is not known any more: it may have been dropped under the session.
func roleMayBeGone(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && (pe.Code == "42501" || pe.Code == "42704")
}

// badData reports whether a value of the statement, not the statement, was
// refused: one row of a batch is to blame.
func badData(err error) bool {
	var pe *pq.Error
	if !errors.As(err, &pe) {
		return false
	}
	code := string(pe.Code)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || code == "54001" || code == "54000"
}
