package replica

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// at is a fake server whose methods all return the same position, or the error err.
type at struct {
	conn.Position
	err error
}

func (s *at) Written(context.Context) (conn.Position, error)  { return s.Position, s.err }
func (s *at) Inserted(context.Context) (conn.Position, error) { return s.Position, s.err }
func (s *at) Replayed(context.Context) (conn.Position, error) { return s.Position, s.err }

// followed is a follower with a fake database and a fake replica, and with a clock that the test sets.
type followed struct {
	*follower
	primary, replica *at
	clock            time.Time
}

var first = conn.History{System: "1", Timeline: 1}

func newFollowed() *followed {
	f := &followed{primary: &at{}, replica: &at{}, clock: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	f.primary.History, f.replica.History = first, first
	f.follower = newFollower(f.primary, f.replica, 10*time.Second, prometheus.NewRegistry(), nil)
	f.now = func() time.Time { return f.clock }
	return f
}

// pass advances the clock by a second, sets the positions of the fake database and of the fake replica, and calls look.
func (f *followed) pass(written, replayed conn.LSN) error {
	f.clock = f.clock.Add(time.Second)
	f.primary.LSN, f.replica.LSN = written, replayed
	return f.look(context.Background())
}

// answersTo returns which server may answer a read with this mark, according to the positions that look has read:
// byReplica for the replica; isBehind or isLate for the database, as the reason why the replica may not answer.
func (f *followed) answersTo(t *testing.T, mark string) string {
	t.Helper()
	before := map[string]float64{}
	for _, answer := range []string{isBehind, isLate} {
		before[answer] = testutil.ToFloat64(f.reads.WithLabelValues(answer))
	}
	reading := repository.ReadingOf(repository.WithReading(t.Context(), mark))
	_, ok, err := f.serves(t.Context(), reading)
	check.NoError(t, err)
	check.Same(t, reading.UsesPrimary(), !ok, "the request uses the database")
	for answer, n := range before {
		if testutil.ToFloat64(f.reads.WithLabelValues(answer)) > n {
			return answer
		}
	}
	return byReplica
}

// TestAge: the age of the replica's data is the age of the newest known position that the replica has reached. It is
// unknown until the replica has reached such a position.
func TestAge(t *testing.T) {
	t.Parallel()
	f := newFollowed()
	for i := range 5 {
		check.NoError(t, f.pass(conn.LSN(100*(i+1)), 0))
	}
	f.clock = f.clock.Add(6 * time.Second)
	for replayed, age := range map[conn.LSN]time.Duration{
		99: unknownAge, 100: 10 * time.Second, 399: 8 * time.Second, 350: 8 * time.Second, 1000: 6 * time.Second,
	} {
		check.Same(t, f.age(replayed), age, "age of %d", replayed)
	}
	for range 100 {
		check.NoError(t, f.pass(1000, 1000))
	}
	check.True(t, len(f.written) < 15, "%d positions are kept, want those of read_max_lag", len(f.written))
}

// TestReplicaThatIsLate: a replica is read while its data is not older than read_max_lag, however few changes there are.
func TestReplicaThatIsLate(t *testing.T) {
	t.Parallel()
	f := newFollowed()
	check.Equal(t, f.answersTo(t, ""), isLate, "who answers before the first look")
	for range 60 {
		check.NoError(t, f.pass(100, 100))
		check.Equal(t, f.answersTo(t, ""), byReplica, "who answers while nothing changes")
	}
	for i := range 60 {
		check.NoError(t, f.pass(conn.LSN(200+i), 100))
		want := byReplica
		if i > 9 {
			want = isLate
		}
		check.Equal(t, f.answersTo(t, ""), want, "who answers after a delay")
	}
	check.NoError(t, f.pass(400, 300))
	check.Equal(t, f.answersTo(t, ""), byReplica, "who answers when the replica has caught up")
	f.clock = f.clock.Add(11 * time.Second)
	check.Equal(t, f.answersTo(t, ""), isLate, "who answers when no look has ended for longer than read_max_lag")
}

// TestReplicaThatIsLost: after the replica has not answered a call of look, no read uses the replica, and reads that
// wait for the replica end.
func TestReplicaThatIsLost(t *testing.T) {
	t.Parallel()
	f := newFollowed()
	check.NoError(t, f.pass(100, 100))
	need, ok := f.needed()
	check.True(t, ok && need.Alive.Err() == nil, "the replica is used")
	f.replica.err = errors.New("no answer")
	check.Is(t, f.pass(100, 100), f.replica.err, "look")
	check.True(t, need.Alive.Err() != nil, "a read waits for a replica that is lost")
	check.Equal(t, f.answersTo(t, ""), isLate, "who answers")
	check.Same(t, f.oldestAge(), unknownAge, "age")
	f.replica.err = nil
	check.NoError(t, f.pass(100, 100))
	check.Equal(t, f.answersTo(t, ""), byReplica, "who answers after the next look")
}

// TestSeveralReplicas: database.read_host may lead to several replicas, as a Service or a reader endpoint does. The
// position of one replica says nothing about another replica. The metric shows the age of the oldest data.
func TestSeveralReplicas(t *testing.T) {
	t.Parallel()
	f := newFollowed()
	for i := range 3600 { // one of the two replicas is an hour behind the database
		replayed := conn.LSN(100 * (i + 1))
		if i%2 == 1 {
			replayed = 100
		}
		check.NoError(t, f.pass(conn.LSN(100*(i+1)), replayed))
	}
	check.Equal(t, f.answersTo(t, ""), isLate, "who answers after a look at the one that is an hour behind")
	check.NoError(t, f.pass(360_100, 360_100))
	check.Equal(t, f.answersTo(t, ""), byReplica, "who answers after a look at the other one")
	check.Same(t, f.oldestAge(), 0, "age")

	need, _ := f.needed()
	check.True(t, need.Position.LSN > 358_000, "a connection needs %s, which is too old", need.Position.LSN)
	reading := repository.ReadingOf(repository.WithReading(t.Context(), ""))
	behind := &conn.BehindError{At: conn.Position{History: first, LSN: 100}}
	check.NoError(t, f.failed(t.Context(), reading, behind))
	check.True(t, reading.UsesPrimary(), "a read of the replica that is an hour behind is not repeated")
	check.Same(t, testutil.ToFloat64(f.reads.WithLabelValues(isLate)), 2, "reads that were late")
	check.Same(t, f.oldestAge(), unknownAge, "age after a read has reached the one that is an hour behind")
	check.Same(t, f.oldestAge(), 0, "age after the next look")
}

// TestFailover: the database fails over to a server whose log ends before the position that the replica has reached on
// the old timeline. The replica answers no reads before it has reached the new timeline.
func TestFailover(t *testing.T) {
	t.Parallel()
	f := newFollowed()
	check.NoError(t, f.pass(1000, 1000))
	check.Equal(t, f.answersTo(t, ""), byReplica, "who answers before the failover")
	f.primary.Timeline = 2
	f.primary.LSN = 950
	mark := check.Must(f.writeMark(t.Context()))(t)
	check.Equal(t, f.answersTo(t, mark), isLate, "who answers a caller who has changed something after the failover")
	for i := range 3600 {
		check.Says(t, f.pass(conn.LSN(950+i/60), 1000), "the replica has replayed timeline 1, and the database writes timeline 2", "look")
		check.Equal(t, f.answersTo(t, ""), isLate, "who answers after the failover")
	}
	check.Equal(t, f.answersTo(t, mark), isLate, "who answers a caller with a mark an hour later")
	f.replica.Timeline = 2
	check.NoError(t, f.pass(1010, 1010))
	check.Equal(t, f.answersTo(t, mark), byReplica, "who answers when the replica follows the new database")
	f.replica.System = "2"
	check.Says(t, f.pass(1000, 2000), "another database", "look at a replica of another database")
	check.Equal(t, f.answersTo(t, ""), isLate, "who answers then")
}

// TestLag: the metric is +Inf while the age of the replica is not known.
func TestLag(t *testing.T) {
	t.Parallel()
	f := newFollowed()
	check.NoError(t, f.pass(100, 100))
	f.clock = f.clock.Add(3 * time.Second)
	f.measure()
	check.Same(t, testutil.ToFloat64(f.lag), 3, "lag")
	f.lost()
	f.measure()
	check.True(t, math.IsInf(testutil.ToFloat64(f.lag), 1), "the lag of a replica that is lost is known")
}
