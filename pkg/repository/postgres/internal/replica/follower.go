package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
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
	// followInterval is the pause between two calls of look, which asks the database and the replica for their
	// positions.
	followInterval = time.Second
	// askTimeout is the time in which the database, and then the replica, must answer look.
	askTimeout = 2 * time.Second
	// maxWritten is the maximum number of positions in follower.written.
	maxWritten = 10_000
)

// server returns the positions of a PostgreSQL server in the write-ahead log. *conn.DB implements it.
type server interface {
	Written(ctx context.Context) (conn.Position, error)
	Inserted(ctx context.Context) (conn.Position, error)
	Replayed(ctx context.Context) (conn.Position, error)
}

// follower follows how far a streaming replica has replayed the log of its database, and decides which reads the replica
// may answer. It is safe for concurrent use.
type follower struct {
	primary server
	replica server // asks for the replica's position, over a connection that no read of the API uses
	maxLag  time.Duration
	log     *zap.Logger
	now     func() time.Time

	lag   prometheus.Gauge
	reads *prometheus.CounterVec

	mu       sync.Mutex
	history  conn.History  // history (system and timeline) that the database writes
	written  []writtenAt   // ends of the database's log at different times, all in this history, the oldest first
	replayed conn.LSN      // position up to which the replica had replayed the log at the last call of look; 0 when the position is not known
	oldest   time.Duration // age of the data of the oldest server that a read has reached since the last call of oldestAge

	alive context.Context // ends when the replica does not answer look or follows another history, so that reads stop waiting for the replica
	lose  context.CancelFunc
}

// writtenAt is the end of the database's log at a time.
type writtenAt struct {
	lsn conn.LSN
	at  time.Time
}

// The values of the label answer of the metric dlq_replica_reads_total, which counts the reads that may use the replica
// by the server that answered them, and why.
const (
	byReplica = "replica" // the replica answered
	isBehind  = "behind"  // the database answered, because the replica had not replayed the caller's last change, or did not contain the object that was asked for
	isLate    = "late"    // the database answered, because the data of the replica was too old, or its age was not known
	hasFailed = "failed"  // the database answered, because the replica did not answer this read or ended it
)

// newFollower returns a follower. The replica answers no reads before look has read the replica's position.
func newFollower(primary, replica server, maxLag time.Duration, registry prometheus.Registerer, log *zap.Logger) *follower {
	f := &follower{
		primary: primary, replica: replica, maxLag: maxLag, log: log, now: time.Now,
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_replica_lag_seconds",
			Help: "How old the data of the database's replica is; of the oldest one, if reads reached several. +Inf while that is not known. Reads use the replica up to database.read_max_lag.",
		}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_replica_reads_total",
			Help: "Reads that may use the replica, by who answered: the replica, or the database because the replica had not replayed the " +
				"caller's last change or did not have the object (behind), was away or too far behind (late), or did not answer (failed).",
		}, []string{"answer"}),
	}
	registry.MustRegister(f.lag, f.reads)
	for _, answer := range []string{byReplica, isBehind, isLate, hasFailed} {
		f.reads.WithLabelValues(answer)
	}
	f.lag.Set(math.Inf(1))
	f.alive, f.lose = context.WithCancel(context.Background())
	return f
}

// run calls look every followInterval until ctx ends, and logs when the replica cannot be used.
func (f *follower) run(ctx context.Context) {
	for out := new(outage.Log); ctx.Err() == nil; wait.Sleep(ctx, followInterval) {
		err := f.look(ctx)
		f.measure()
		out.Report(ctx, f.log, err, "the replica of the database cannot be used; reads use the database", "the replica of the database is used again")
	}
}

// measure sets the metric of the age of the replica's data.
func (f *follower) measure() {
	age := math.Inf(1)
	if oldest := f.oldestAge(); oldest != unknownAge {
		age = oldest.Seconds()
	}
	f.lag.Set(age)
}

// look asks the database for the end of its log, and then the replica how much of this log it has replayed. When the
// replica does not answer within askTimeout, or replays another history than the database's, the reads that wait for
// the replica end at once.
func (f *follower) look(ctx context.Context) error {
	at := f.now()
	written, err := ask(ctx, f.primary.Written)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	f.write(written, at)
	replayed, err := f.askReplica(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		err = fmt.Errorf("ask the replica: %w", err)
	case replayed.System != written.System:
		err = errors.New("the server at database.read_host is a replica of another database")
	case replayed.Timeline != written.Timeline:
		err = fmt.Errorf("the replica has replayed timeline %d, and the database writes timeline %d", replayed.Timeline, written.Timeline)
	}
	if err != nil {
		f.lost()
		return err
	}
	f.advance(replayed.LSN)
	return nil
}

func ask(ctx context.Context, position func(context.Context) (conn.Position, error)) (conn.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return position(ctx)
}

// write appends to f.written that the database's log ended at p at the time at.
func (f *follower) write(p conn.Position, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enter(p.History)
	if f.written = append(f.written, writtenAt{p.LSN, at}); len(f.written) > maxWritten {
		f.written = f.written[maxWritten/2:] // drops positions that only a replica that is hours behind still needs; the age of its data becomes unknown
	}
}

// enter sets the history that the database writes. When the history has changed, as after a failover, enter forgets all
// positions, because those of the old history say nothing about the new one.
func (f *follower) enter(h conn.History) {
	if f.history != h {
		f.history, f.written, f.replayed = h, nil, 0
	}
}

func (f *follower) askReplica(ctx context.Context) (conn.Position, error) {
	alive, lose := context.WithCancel(context.Background())
	defer time.AfterFunc(askTimeout, lose).Stop() // closes the connection if the replica does not answer within askTimeout
	return ask(conn.WithNeed(ctx, conn.Need{Alive: alive}), f.replica.Replayed)
}

// lost ends the reads that wait for the replica, and forgets the position that the replica had replayed.
func (f *follower) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replayed = 0
	f.lose()
	f.alive, f.lose = context.WithCancel(context.Background())
}

// advance sets the position up to which the replica has replayed the log. It drops the replayed positions of f.written
// that are not needed to decide whether a server's data is older than maxLag.
func (f *follower) advance(replayed conn.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replayed = replayed
	since := f.now().Add(-f.maxLag)
	for len(f.written) > 1 && f.written[1].lsn <= replayed && f.written[1].at.Before(since) {
		f.written = f.written[1:]
	}
}

// age returns how old the data of a server that has replayed the database's log up to lsn may be: the time since the
// database's log ended at the newest position in f.written that the server has reached. The result is unknownAge when
// the server has reached none of these positions.
func (f *follower) age(lsn conn.LSN) time.Duration {
	for i := len(f.written) - 1; i >= 0; i-- {
		if f.written[i].lsn <= lsn {
			return f.now().Sub(f.written[i].at)
		}
	}
	return unknownAge
}

const unknownAge = time.Duration(math.MaxInt64)

// oldestAge returns the age of the data of the replica that look asked last, or of a server with older data that a read
// has reached since the last call of oldestAge.
func (f *follower) oldestAge() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := max(f.age(f.replayed), f.oldest)
	f.oldest = 0
	return age
}

// needed returns the position that a server must have replayed so that its data is not older than maxLag. It returns
// false when the replica has not reached this position, or when the database has not answered look for the time maxLag.
func (f *follower) needed() (conn.Need, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := f.now().Add(-f.maxLag)
	i := sort.Search(len(f.written), func(i int) bool { return !f.written[i].at.Before(since) })
	if i == len(f.written) {
		return conn.Need{}, false
	}
	lsn := f.written[i].lsn
	return conn.Need{Position: conn.Position{History: f.history, LSN: lsn}, Alive: f.alive}, f.replayed >= lsn
}

// serves reports whether the replica may answer a read. When the replica is not up to date enough, serves counts the
// read as one for the database; after an earlier answer of the replica, the error is repository.ErrReadAgain. The
// returned context makes each connection check that its own server has replayed enough. When the caller's request
// carries the mark of a change, a server answers the read only if it has replayed this change.
func (f *follower) serves(ctx context.Context, reading *repository.Reading) (context.Context, bool, error) {
	if reading == nil || reading.UsesPrimary() {
		return ctx, false, nil
	}
	need, ok := f.needed()
	if !ok {
		return ctx, false, f.usePrimary(reading, isLate)
	}
	if after := reading.After(); after != "" {
		mark, err := conn.ParseLSN(after)
		if err != nil {
			return ctx, false, f.usePrimary(reading, isBehind)
		}
		need.Position.LSN = max(need.Position.LSN, mark)
	}
	return conn.WithNeed(ctx, need), true, nil
}

// failed handles the error of a read that the replica should have answered. It returns nil, or repository.ErrReadAgain
// after an earlier answer of the replica, when the database must answer the read: when the replica cannot be reached,
// has not replayed enough, does not contain what was asked for, or ended the statement in order to replay changes.
func (f *follower) failed(ctx context.Context, reading *repository.Reading, err error) error {
	var behind *conn.BehindError
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &behind):
		return f.usePrimary(reading, f.refused(behind.At))
	case errors.Is(err, entity.ErrNotFound):
		return f.usePrimary(reading, isBehind)
	case errors.Is(err, entity.ErrUnavailable), errors.Is(err, entity.ErrContended):
		return f.usePrimary(reading, hasFailed)
	}
	f.reads.WithLabelValues(byReplica).Inc()
	return err
}

// refused returns isLate or isBehind, the reason why a server did not answer a read. p is the position up to which this
// server has replayed the log.
func (f *follower) refused(p conn.Position) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := unknownAge
	if p.History == f.history {
		age = f.age(p.LSN)
	}
	f.oldest = max(f.oldest, age)
	if age > f.maxLag {
		return isLate
	}
	return isBehind
}

func (f *follower) usePrimary(reading *repository.Reading, why string) error {
	f.reads.WithLabelValues(why).Inc()
	return reading.UsePrimary()
}

// writeMark returns a mark for repository.WithReading: a read with this mark sees all changes that were made before the
// call.
func (f *follower) writeMark(ctx context.Context) (string, error) {
	p, err := ask(ctx, f.primary.Inserted)
	if err != nil {
		return "", conn.Translate("read the position of the write-ahead log", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enter(p.History)
	return p.LSN.String(), nil
}
