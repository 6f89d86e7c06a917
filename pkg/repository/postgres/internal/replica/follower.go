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
	// followInterval is the pause between two calls of look.
	followInterval = time.Second
	// askTimeout limits the time in which the database and the replica must answer look.
	askTimeout = 2 * time.Second
	// maxWritten is the maximum number of positions in follower.written.
	maxWritten = 10_000
)

// LSN is a position in PostgreSQL's write-ahead log.
type LSN uint64

// parseLSN parses an LSN in PostgreSQL's text form, two hexadecimal numbers such as 16/B374D848.
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

// follower finds out which part of the database's write-ahead log a streaming replica has replayed, and decides which
// reads the replica may answer. It is safe for concurrent use.
type follower struct {
	primary *conn.DB
	replica *conn.DB
	maxLag  time.Duration
	log     *zap.Logger
	now     func() time.Time

	lag   prometheus.Gauge
	reads *prometheus.CounterVec

	mu       sync.Mutex
	written  []writtenAt // positions that the database's log had, the oldest first
	replayed LSN
}

// writtenAt is the end of the database's log at a time.
type writtenAt struct {
	lsn LSN
	at  time.Time
}

// The values of the label answer of dlq_replica_reads_total.
const (
	byReplica = "replica" // the replica had not replayed the caller's last change yet
	isBehind  = "behind"  // the replica had not replayed the caller's last change
	isLate    = "late"    // the replica was unavailable, or its data were too old
	hasFailed = "failed"  // the replica failed to answer this read
)

// newFollower returns a follower. The replica answers no reads until run has read its position for the first time.
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

// run calls look again and again until ctx ends.
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

// look reads the present positions of the database and of its replica.
func (f *follower) look(ctx context.Context) error {
	written, err := ask(ctx, f.primary, `SELECT pg_current_wal_lsn()::text`)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	f.mu.Lock()
	if f.written = append(f.written, writtenAt{written, f.now()}); len(f.written) > maxWritten {
		f.written = f.written[maxWritten/2:] // the replica is hours behind; the age of its data becomes unknown
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

// advance stores that the replica has replayed the log up to a position. The newest entry of written that the replica
// has reached shows how old the replica's data are; older entries are deleted.
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

// age returns the maximum age of the replica's data. ok is false while the age is not known, because the replica has
// reached none of the positions that look has read from the database.
func (f *follower) age() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.written) == 0 || f.replayed < f.written[0].lsn {
		return 0, false
	}
	return f.now().Sub(f.written[0].at), true
}

// serves reports whether the replica may answer a read, and counts the reads that it may not answer. When the read has
// the mark of a change, the replica may answer it only after it has replayed this change.
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

// answered records the result of a read on the replica. again reports whether the database must answer the read: when
// the replica is unavailable, or when it ended the statement because of changes that it had to replay.
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
