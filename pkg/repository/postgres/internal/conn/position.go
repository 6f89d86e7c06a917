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

// History is what two servers have in common when one of them is a replica of the other. A failover starts another
// timeline. Positions of different histories cannot be compared.
type History struct {
	System   string // identifier of the database cluster
	Timeline uint32
}

// Position is how far a server is.
type Position struct {
	History
	LSN LSN
}

// has reports whether a server at the position p has replayed everything up to the position q. Positions of different
// histories cannot be compared; then the result is false.
func (p Position) has(q Position) bool { return p.History == q.History && p.LSN >= q.LSN }

// ErrNoReplica is the error when a server is asked how far it has replayed the log of its database, although it is no
// replica.
var ErrNoReplica = errors.New("the server at database.read_host is no replica: it is not in recovery")

// Queries of the position of a database, and of its replica. The control file of a replica names a new timeline after
// the replica's next restartpoint at the latest. pg_walfile_name, which names it at once, refuses to run on a replica.
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

// Need is what statements need of the server that answers them. A host name may lead to several servers, or to another
// one than before, so each connection asks its own server.
type Need struct {
	Position Position        // position that the server must have replayed; the zero Position when any server will do
	Alive    context.Context // when it ends, the connection is closed, also while it waits for an answer
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

// BehindError reports that a server has not replayed what a statement needs.
type BehindError struct{ At Position }

func (e *BehindError) Error() string {
	return fmt.Sprintf("the replica is behind: it has replayed timeline %d up to %s", e.At.Timeline, e.At.LSN)
}

// Is makes the error's kind entity.ErrUnavailable.
func (e *BehindError) Is(target error) bool { return target == entity.ErrUnavailable }
