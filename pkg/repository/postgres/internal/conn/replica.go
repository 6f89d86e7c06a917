package conn

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

// Replica is a streaming replica of a database. It follows how far the replica has replayed the database's log, and
// decides which reads it may answer. It is safe for concurrent use.
type Replica struct {
	DB      *DB
	primary *DB
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

// NewReplica returns the replica of a database. It answers no reads until Run has asked how far it is.
func NewReplica(primary, replica *DB, maxLag time.Duration, registry prometheus.Registerer, log *zap.Logger) *Replica {
	r := &Replica{
		DB: replica, primary: primary, maxLag: maxLag, log: log, now: time.Now,
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
	registry.MustRegister(r.lag, r.reads)
	for _, answer := range []string{byReplica, isBehind, isLate, hasFailed} {
		r.reads.WithLabelValues(answer)
	}
	r.lag.Set(math.Inf(1))
	return r
}

// Run follows the replica until ctx ends.
func (r *Replica) Run(ctx context.Context) {
	for out := new(outage.Log); ctx.Err() == nil; wait.Sleep(ctx, followInterval) {
		err := r.look(ctx)
		age := math.Inf(1)
		if lag, known := r.age(); known {
			age = lag.Seconds()
		}
		r.lag.Set(age)
		out.Report(ctx, r.log, err, "the replica of the database cannot be used; reads use the database", "the replica of the database is used again")
	}
}

var errNoReplica = errors.New("the server at database.read_host is no replica: it is not in recovery")

// look asks the database and then its replica how far they are.
func (r *Replica) look(ctx context.Context) error {
	written, err := ask(ctx, r.primary, `SELECT pg_current_wal_lsn()::text`)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	r.mu.Lock()
	if r.written = append(r.written, writtenAt{written, r.now()}); len(r.written) > maxWritten {
		r.written = r.written[maxWritten/2:] // the replica is hours behind, and its age becomes unknown
	}
	r.mu.Unlock()
	return r.askReplica(ctx)
}

func (r *Replica) askReplica(ctx context.Context) error {
	replayed, err := ask(ctx, r.DB, `SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END`)
	if err != nil {
		return fmt.Errorf("ask the replica: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replayed = max(r.replayed, replayed)
	// The newest entry that the replica has reached says how old it is; those before it say nothing more.
	for len(r.written) > 1 && r.written[1].lsn <= r.replayed {
		r.written = r.written[1:]
	}
	return nil
}

func ask(ctx context.Context, db *DB, query string) (LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var text *string
	if err := db.Pool.GetContext(ctx, &text, query); err != nil {
		return 0, err
	}
	if text == nil {
		return 0, errNoReplica
	}
	return ParseLSN(*text)
}

// age returns how old the data of the replica may be. It is not known before the replica has reached a position of the
// database that was seen.
func (r *Replica) age() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.written) == 0 || r.replayed < r.written[0].lsn {
		return 0, false
	}
	return r.now().Sub(r.written[0].at), true
}

// Serves reports whether the replica may answer a read, and counts when it may not. A read whose caller brings the mark
// of a change is not answered before the replica has replayed this change.
func (r *Replica) Serves(ctx context.Context, reading *repository.Reading) bool {
	if reading == nil || reading.UsesPrimary() {
		return false
	}
	answer := r.answerTo(ctx, reading.After())
	if answer == byReplica {
		return true
	}
	r.reads.WithLabelValues(answer).Inc()
	reading.UsePrimary()
	return false
}

func (r *Replica) answerTo(ctx context.Context, after string) string {
	if age, known := r.age(); !known || age > r.maxLag {
		return isLate
	}
	if after == "" {
		return byReplica
	}
	mark, err := ParseLSN(after)
	if err != nil {
		return isBehind
	}
	if !r.hasReplayed(mark) {
		if err := r.askReplica(ctx); err != nil || !r.hasReplayed(mark) {
			return isBehind
		}
	}
	return byReplica
}

func (r *Replica) hasReplayed(mark LSN) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replayed >= mark
}

// Answered notes how the replica answered a read that it serves. It reports whether the database must answer it instead:
// when the replica is away, or ended the statement because of what it replays.
func (r *Replica) Answered(ctx context.Context, reading *repository.Reading, err error) (again bool) {
	if err != nil && ctx.Err() == nil && (errors.Is(err, entity.ErrUnavailable) || errors.Is(err, entity.ErrContended)) {
		r.reads.WithLabelValues(hasFailed).Inc()
		reading.UsePrimary()
		return true
	}
	r.reads.WithLabelValues(byReplica).Inc()
	return false
}

// WriteMark returns a mark for repository.WithReading: a read with this mark sees all changes that were made before the
// call.
func (r *Replica) WriteMark(ctx context.Context) (string, error) {
	lsn, err := ask(ctx, r.primary, `SELECT pg_current_wal_insert_lsn()::text`)
	if err != nil {
		return "", Translate("read the position of the write-ahead log", err)
	}
	return lsn.String(), nil
}
