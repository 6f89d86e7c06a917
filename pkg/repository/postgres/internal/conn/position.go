package conn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// LSN is a position in the write-ahead log of PostgreSQL.
type LSN uint64

// ParseLSN reads an LSN in the form of PostgreSQL, two hexadecimal numbers as in 16/B374D848.
func ParseLSN(text string) (LSN, error) {
	var high, low uint32
	_, err := fmt.Sscanf(text, "%X/%X", &high, &low)
	lsn := LSN(high)<<32 | LSN(low)
	if err != nil || lsn.String() != text {
		return 0, fmt.Errorf("%q is not a position of the write-ahead log, such as 16/B374D848", text)
	}
	return lsn, nil
}

func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// History identifies a log of changes: that of a database cluster since its creation or its last failover, which starts
// a new timeline. Servers that replicate each other have the same History. Positions of different histories cannot be
// compared.
type History struct {
	System   string // identifier of the database cluster
	Timeline uint32
}

// Position is a position in the log of a History. For a replica, it is the position up to which the replica has
// replayed the log.
type Position struct {
	History
	LSN LSN
}

// has reports whether a server at the position p has replayed everything up to the position q. Positions of different
// histories cannot be compared; then the result is false.
func (p Position) has(q Position) bool { return p.History == q.History && p.LSN >= q.LSN }

// ErrNoReplica is the error when the server at database.read_host is asked up to which position it has replayed its
// database's log, but is not a replica.
var ErrNoReplica = errors.New("the server at database.read_host is no replica: it is not in recovery")

// Queries for the position of the database and for that of its replica. After a failover, the control file of a replica
// names the new timeline at the latest after the replica's next restartpoint. The function pg_walfile_name would name
// it at once, but it fails on a replica.
const (
	writtenQuery  = `SELECT ` + ownHistory + ` || ' ' || pg_current_wal_lsn() FROM pg_control_system() s`
	insertedQuery = `SELECT ` + ownHistory + ` || ' ' || pg_current_wal_insert_lsn() FROM pg_control_system() s`

	ownHistory = `s.system_identifier::text || ' ' || ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint`

	replayedQuery = `SELECT CASE WHEN pg_is_in_recovery() THEN
		s.system_identifier::text || ' ' || greatest(c.timeline_id, r.min_recovery_end_timeline) || ' ' || pg_last_wal_replay_lsn() END
	FROM pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() r`
)

func parsePosition(text string) (p Position, err error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return p, fmt.Errorf("%q is not the position of a server", text)
	}
	timeline, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return p, fmt.Errorf("%q is not a timeline", fields[1])
	}
	p.System, p.Timeline = fields[0], uint32(timeline)
	p.LSN, err = ParseLSN(fields[2])
	return p, err
}

// Need says what a statement needs of the server that answers it. Each connection asks its own server for the position,
// because one host name may lead to several servers, or to another server than before.
type Need struct {
	Position Position        // position that the server must have replayed; the zero Position when it need not have replayed any
	Alive    context.Context // when this context ends, the connection is closed, even while it waits for an answer
}

type needKey struct{}

// WithNeed returns a context for statements of a pool that Open returned. A statement whose server has not replayed the
// position is not sent, and its error is a *BehindError.
func WithNeed(ctx context.Context, need Need) context.Context {
	return context.WithValue(ctx, needKey{}, need)
}

func needOf(ctx context.Context) (Need, bool) {
	need, ok := ctx.Value(needKey{}).(Need)
	return need, ok
}

// BehindError reports that a server has not replayed the position that a statement needs.
type BehindError struct{ At Position }

func (e *BehindError) Error() string {
	return fmt.Sprintf("the replica is behind: it has replayed timeline %d up to %s", e.At.Timeline, e.At.LSN)
}

// Is makes the error's kind entity.ErrUnavailable.
func (e *BehindError) Is(target error) bool { return target == entity.ErrUnavailable }
