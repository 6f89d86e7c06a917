package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// unavailableError wraps an error of the driver. Callers see the kind entity.ErrUnavailable; the log shows the driver's
// text.
type unavailableError struct {
	where string
	err   error
}

func (e *unavailableError) Error() string {
	return e.where + ": database unavailable: " + e.err.Error()
}

// Away names what cannot be reached, for clients.
func (e *unavailableError) Away() string { return "the database" }

func (e *unavailableError) Is(target error) bool { return target == entity.ErrUnavailable }

func (e *unavailableError) Unwrap() error { return e.err }

// Unavailable returns err as an error of the kind entity.ErrUnavailable. The parameter where says what was being done:
// a verb and its object, such as "read history".
func Unavailable(where string, err error) error { return &unavailableError{where, err} }

// connectError is the error of a failed connection. It contains the address of the database.
type connectError struct {
	address string
	err     error
}

func (e *connectError) Error() string {
	return "connect to database " + e.address + ": " + strings.ReplaceAll(e.err.Error(), "\n", "; ")
}

func (e *connectError) Unwrap() error { return e.err }

// contendedError says that PostgreSQL aborted a statement in every try because of other sessions, by a deadlock or a
// serialization failure.
type contendedError struct {
	where string
	err   error
}

func (e *contendedError) Error() string {
	return e.where + ": other sessions change the same rows: " + e.err.Error()
}

func (e *contendedError) Is(target error) bool { return target == entity.ErrContended }

func (e *contendedError) Unwrap() error { return e.err }

// contended reports whether PostgreSQL aborted a statement because of other sessions. An aborted statement has changed
// nothing and may be repeated at once.
func contended(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01")
}

// StatementTries is the maximum number of tries of a statement that fails because of other sessions.
const StatementTries = 6

// Retry runs do, which sends one statement outside a transaction. It runs do again when PostgreSQL aborted the
// statement because of other sessions. do must not keep results of a failed try. A statement with a Need is not
// repeated: a replica has aborted it in order to replay changes, and the caller can send it to the database.
func Retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if _, bound := needOf(ctx); try == StatementTries || bound || !contended(err) {
			return err
		}
		// Each of the sessions that conflicted waits for a random time, so that they do not repeat their statements at
		// the same moment.
		if !wait.Sleep(ctx, rand.N(time.Millisecond<<try)) { //nolint:gosec // no secret
			return err
		}
	}
}

// Translate returns an error of the driver as an error of the right kind. No other package interprets the driver's
// errors. The parameter where says what was being done: a verb and its object.
func Translate(where string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", where, err)
	case contended(err):
		return &contendedError{where, err}
	case Refused(err):
		return &refusedError{where, err}
	case transient(err):
		return &unavailableError{where, err}
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}

// transient reports whether the same statement may succeed later: because the server cannot be reached, is starting or
// stopping or has no resources left, because a lock or a time limit stopped the statement, or because the role was
// dropped. When a role was dropped, PostgreSQL returns 42501 in an existing session and 28xxx for a new one. This
// counts as transient because the next connection reads the credentials again.
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
		// lib/pq returns I/O errors that have no type; their texts are "EOF", "unexpected message" and similar.
		return strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "connection")
	}
	switch code := string(pe.Code); {
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57P"),
		strings.HasPrefix(code, "28"), strings.HasPrefix(code, "58"):
		return true
	case code == "55P03", code == "57014", code == "42501":
		return true
	}
	return false
}

// RoleMayBeGone reports whether the server denied the session a right or does not know its role. In both cases the role
// may have been dropped during the session.
func RoleMayBeGone(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && (pe.Code == "42501" || pe.Code == "42704")
}

// Refused reports whether the server refused a statement because of its content, so that it fails again when it is
// repeated: because of a value, a constraint, a limit of PostgreSQL, or an exception in a trigger.
func Refused(err error) bool {
	var pe *pq.Error
	if !errors.As(err, &pe) || PartitionMissing(err) {
		return false
	}
	code := string(pe.Code)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54") || code == "P0001"
}

// Violates reports whether the server refused a statement with the given SQLSTATE, and named the given table or
// constraint.
func Violates(err error, code, name string) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && string(pe.Code) == code && (pe.Table == name || pe.Constraint == name)
}

// RefusalOf returns the SQLSTATE and the text of an error that the server returned. For any other error it returns only
// the text.
func RefusalOf(err error) (code, text string) {
	var pe *pq.Error
	if errors.As(err, &pe) {
		return string(pe.Code), pe.Message
	}
	return "", err.Error()
}

// Canceled reports whether the server cancelled a statement, because of its time limit or at the request of another
// session.
func Canceled(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && pe.Code == "57014"
}

// PartitionMissing reports whether a row could not be stored because its table has no partition for it.
func PartitionMissing(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && pe.Code == "23514" && pe.Routine == "ExecFindPartition"
}

// refusedError is an error with which the server refused a statement for good. Its kind is entity.ErrRefused.
type refusedError struct {
	where string
	err   error
}

func (e *refusedError) Error() string { return e.where + ": " + e.err.Error() }

func (e *refusedError) Is(target error) bool { return target == entity.ErrRefused }

func (e *refusedError) Unwrap() error { return e.err }
