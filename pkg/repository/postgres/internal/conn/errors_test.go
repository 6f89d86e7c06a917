package conn

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

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	for code, unavailable := range map[string]bool{
		"08000": true, "08003": true, "08006": true, "08001": true, "08P01": true, // errors of the connection
		"53000": true, "53100": true, "53200": true, "53300": true, "53400": true, // the server has no resources left
		"57P01": true, "57P02": true, "57P03": true, "57P05": true, "57014": true, // the server stops, is starting, or cancelled the statement
		"58000": true, "58030": true, // errors of the server's own disk
		"55P03": true,                               // another transaction holds a lock
		"28P01": true, "28000": true, "42501": true, // the role or its password was replaced
		"40001": false, "40P01": false, // false, because conflicts with other sessions are ErrContended
		"23505": false, "23514": false, "22001": false, "22003": false, "22P02": false, "22P05": false, "22021": false,
		"42P01": false, "42703": false, "42601": false, "0A000": false, "54001": false, "25006": false, "P0001": false, "XX000": false,
	} {
		err := Translate("claim messages", &pq.Error{Code: pqerror.Code(code), Message: "said the server"})
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
		check.Same(t, errors.Is(Translate("x", c.err), entity.ErrUnavailable), c.unavailable, "%v: unavailable", c.err)
	}
	check.True(t, Translate("x", nil) == nil, "no error became one")
}

func TestBadData(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"22P05": true, "22P02": true, "22021": true, "22003": true, "23514": true, "54001": true, "54000": true,
		"57P01": false, "40P01": false, "42501": false, "53100": false, "42703": false,
	} {
		check.Same(t, Refused(&pq.Error{Code: pqerror.Code(code)}), want, "%s: bad data", code)
	}
	check.True(t, !Refused(io.EOF) && !Refused(nil), "an error that is not the server's is called bad data")
}
