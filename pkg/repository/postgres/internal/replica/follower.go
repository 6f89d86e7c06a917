package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// followInterval is the time between two looks at how far the replica is.
	followInterval = time.Second
	// askTimeout limits the wait for an answer about that.
	askTimeout = 2 * time.Second
	// maxWritten limits how many positions of the database are kept.
	maxWritten = 10_000
)

// LSN is a position in the write-ahead log of PostgreSQL.
type LSN uint64

// parseLSN reads an LSN in the form of PostgreSQL, two hexadecimal numbers as in 16/B374D848.
func parseLSN(text string) (LSN, error) {
	var high, low uint32
	_, err := fmt.Sscanf(text, "%X/%X", &high, &low)
	lsn := LSN(high)<<32 | LSN(low)
	if err != nil || lsn.String() != text {
		return 0, fmt.Errorf("%q is not a position of the write-ahead log, such as 16/B374D848", text)
	}
	return lsn, nil
}

func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// follower follows how far a streaming replica has replayed the log of its database, and decides which reads the replica
// may answer. It is safe for concurrent use.
type follower struct {
	primary *conn.DB
	replica *conn.DB
	maxLag  time.Duration
	log     *zap.Logger
	now     func() time.Time

	lag   prometheus.Gauge
	reads *prometheus.CounterVec

	mu       sync.Mutex
	written  []writtenAt // of the database, the oldest first
	replayed LSN
}

// writtenAt is how far the database's log was at a time.
type writtenAt struct {
	lsn LSN
	at  time.Time
}

// The values of the label answer of dlq_replica_reads_total.
const (
	byReplica = "replica" // the replica answered
	isBehind  = "behind"  // the replica had not replayed the caller's last change
	isLate    = "late"    // the replica was away, or too far behind
	hasFailed = "failed"  // the replica did not answer this read
)

// newFollower returns a follower. The replica answers no reads until Run has asked how far it is.
func newFollower(primary, replica *conn.DB, maxLag time.Duration, registry prometheus.Registerer, log *zap.Logger) *follower {
	f := &follower{
		primary: primary, replica: replica, maxLag: maxLag, log: log, now: time.Now,
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_replica_lag_seconds",
			Help: "How old the data of the database's replica is; +Inf while that is not known. Reads use the replica up to database.read_max_lag.",
		}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_replica_reads_total",
			Help: "Reads that may use the replica, by who answered: the replica, or the database because the replica had not replayed the " +
				"caller's last change (behind), was away or too far behind (late), or did not answer (failed).",
		}, []string{"answer"}),
	}
	registry.MustRegister(f.lag, f.reads)
	for _, answer := range []string{byReplica, isBehind, isLate, hasFailed} {
		f.reads.WithLabelValues(answer)
	}
	f.lag.Set(math.Inf(1))
	return f
}

// run follows the replica until ctx ends.
func (f *follower) run(ctx context.Context) {
	for out := new(outage.Log); ctx.Err() == nil; wait.Sleep(ctx, followInterval) {
		err := f.look(ctx)
		age := math.Inf(1)
		if lag, known := f.age(); known {
			age = lag.Seconds()
		}
		f.lag.Set(age)
		out.Report(ctx, f.log, err, "the replica of the database cannot be used; reads use the database", "the replica of the database is used again")
	}
}

var errNoReplica = errors.New("the server at database.read_host is no replica: it is not in recovery")

// look asks the database and then its replica how far they are.
func (f *follower) look(ctx context.Context) error {
	written, err := ask(ctx, f.primary, `SELECT pg_current_wal_lsn()::text`)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	f.mu.Lock()
	if f.written = append(f.written, writtenAt{written, f.now()}); len(f.written) > maxWritten {
		f.written = f.written[maxWritten/2:] // the replica is hours behind, and its age becomes unknown
	}
	f.mu.Unlock()
	return f.askReplica(ctx)
}

func (f *follower) askReplica(ctx context.Context) error {
	replayed, err := ask(ctx, f.replica, `SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END`)
	if err != nil {
		return fmt.Errorf("ask the replica: %w", err)
	}
	f.advance(replayed)
	return nil
}

// advance notes how far the replica is. The newest entry of written that it has reached says how old it is; the entries
// before are not needed any more.
func (f *follower) advance(replayed LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replayed = max(f.replayed, replayed)
	for len(f.written) > 1 && f.written[1].lsn <= f.replayed {
		f.written = f.written[1:]
	}
}

func ask(ctx context.Context, db *conn.DB, query string) (LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var text *string
	if err := db.Pool.GetContext(ctx, &text, query); err != nil {
		return 0, err
	}
	if text == nil {
		return 0, errNoReplica
	}
	return parseLSN(*text)
}

// age returns how old the data of the replica may be. It is not known before the replica has reached a position of the
// database that was seen.
func (f *follower) age() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.written) == 0 || f.replayed < f.written[0].lsn {
		return 0, false
	}
	return f.now().Sub(f.written[0].at), true
}

// serves reports whether the replica may answer a read, and counts when it may not. A read whose caller brings the mark
// of a change is not answered before the replica has replayed this change.
func (f *follower) serves(ctx context.Context, reading *repository.Reading) bool {
	if reading == nil || reading.UsesPrimary() {
		return false
	}
	answer := f.answerTo(ctx, reading.After())
	if answer == byReplica {
		return true
	}
	f.reads.WithLabelValues(answer).Inc()
	reading.UsePrimary()
	return false
}

func (f *follower) answerTo(ctx context.Context, after string) string {
	if age, known := f.age(); !known || age > f.maxLag {
		return isLate
	}
	if after == "" {
		return byReplica
	}
	mark, err := parseLSN(after)
	if err != nil {
		return isBehind
	}
	if !f.hasReplayed(mark) {
		if err := f.askReplica(ctx); err != nil || !f.hasReplayed(mark) {
			return isBehind
		}
	}
	return byReplica
}

func (f *follower) hasReplayed(mark LSN) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replayed >= mark
}

// answered notes how the replica answered a read that it serves. It reports whether the database must answer it instead:
// when the replica is away, or ended the statement because of what it replays.
func (f *follower) answered(ctx context.Context, reading *repository.Reading, err error) (again bool) {
	if err != nil && ctx.Err() == nil && (errors.Is(err, entity.ErrUnavailable) || errors.Is(err, entity.ErrContended)) {
		f.reads.WithLabelValues(hasFailed).Inc()
		reading.UsePrimary()
		return true
	}
	f.reads.WithLabelValues(byReplica).Inc()
	return false
}

// writeMark returns a mark for repository.WithReading: a read with this mark sees all changes that were made before the
// call.
func (f *follower) writeMark(ctx context.Context) (string, error) {
	lsn, err := ask(ctx, f.primary, `SELECT pg_current_wal_insert_lsn()::text`)
	if err != nil {
		return "", conn.Translate("read the position of the write-ahead log", err)
	}
	return lsn.String(), nil
}
