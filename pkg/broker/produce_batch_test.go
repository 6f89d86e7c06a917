package broker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// resting returns a producer whose broker asks for no records for the given time, and a partition of that broker.
func resting(rest time.Duration) (*Producer, TopicPartition) {
	p := (&Cluster{leaders: newLeaders(nil)}).NewProducer(ProducerConfig{})
	p.leaders.put(Topic{Name: "orders", Partitions: []Partition{{ID: 0, Leader: 1}}})
	p.pause(1, rest)
	return p, TopicPartition{Topic: "orders"}
}

func TestProducer_ThrottleIsTheLongestRestOfTheLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, tp := resting(4 * time.Second)
		p.pause(1, time.Second) // a shorter rest does not end the longer one
		check.Equal(t, p.Throttle(t.Context(), tp), 4*time.Second, "throttle")
		p.leaders.put(Topic{Name: "payments", Partitions: []Partition{{ID: 0, Leader: 2}}})
		check.Equal(t, p.Throttle(t.Context(), TopicPartition{Topic: "payments"}), 0, "throttle of another broker")
		check.True(t, p.awaitThrottle(t.Context(), 1), "awaitThrottle = false")
		check.Equal(t, p.Throttle(t.Context(), tp), 0, "throttle after the rest")
		check.Equal(t, p.Throttle(t.Context(), TopicPartition{Topic: "unknown"}), 0, "throttle while no broker rests")
	})
}

// TestProducer_ThrottleOfALeaderThatWasForgotten: a failure of one partition makes the producer forget all leaders of the
// topic. The rest of a broker still holds.
func TestProducer_ThrottleOfALeaderThatWasForgotten(t *testing.T) {
	t.Parallel()
	kafka := check.Must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")))(t)
	defer kafka.Close()
	c := check.Must(Open(Config{Brokers: kafka.ListenAddrs(), SecurityProtocol: "PLAINTEXT"}))(t)
	defer c.Close()
	p, tp := c.NewProducer(ProducerConfig{}), TopicPartition{Topic: "orders"}
	leader := check.Must(c.leaders.of(t.Context(), tp))(t)
	p.pause(leader, time.Hour)
	c.leaders.forget("orders")
	check.True(t, p.Throttle(t.Context(), tp) > 0, "the broker's rest is forgotten")
	check.Equal(t, p.Throttle(t.Context(), TopicPartition{Topic: "missing"}), 0, "throttle of a topic that does not exist")
}

func TestProducer_RestThatOutlastsTheCallIsNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, tp := resting(time.Minute)
		got := p.Produce(t.Context(), tp, []Record{{Value: []byte("a")}, {Value: []byte("b")}})
		for _, r := range got.Records {
			err := check.As[*ProduceError](t, r.Err, "Produce")
			check.True(t, err.Fate == NotSent && err.Class == ClassRateLimited && errors.Is(err, ErrNotTried) && r.Offset == OffsetUnknown,
				"record = %+v, want not sent, rate limited, not tried", r)
		}
		check.Equal(t, p.Throttle(t.Context(), tp), time.Minute, "throttle after the call, which waited for nothing")
	})
}

func TestLane_SequenceWrapsAsBrokersExpect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		at   int32
		n    int
		want int32
	}{{0, 5, 5}, {1<<31 - 3, 2, 1<<31 - 1}, {1<<31 - 1, 1, 0}, {1<<31 - 3, 5, 2}} {
		l := lane{sequence: test.at}
		if l.advance(test.n); l.sequence != test.want {
			t.Errorf("sequence %d after %d records = %d, want %d", test.at, test.n, l.sequence, test.want)
		}
	}
}

func TestBatchEnd(t *testing.T) {
	t.Parallel()
	record := func(n int) Record { return Record{Value: make([]byte, n)} }
	records := []Record{record(100), record(100), record(5000), record(100)}
	var got []int
	for start := 0; start < len(records); start = got[len(got)-1] {
		got = append(got, batchEnd(records, start, 1000))
	}
	want := []int{2, 3, 4}
	check.True(t, slices.Equal(got, want), "batches end at %v, want %v", got, want)
}
