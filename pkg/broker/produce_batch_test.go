package broker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// resting returns a producer whose broker asks for no records for the given time, and a partition of that broker.
func resting(rest time.Duration) (*Producer, TopicPartition) {
	p := (&Cluster{leaders: newLeaders(nil)}).NewProducer(ProducerConfig{})
	p.leaders.put(Topic{Name: "orders", Partitions: []Partition{{ID: 0, Leader: 1}}})
	p.pause(1, rest)
	return p, TopicPartition{Topic: "orders"}
}

func TestProducer_WaitsUntilTheBrokersRestIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p, tp := resting(4 * time.Second)
		p.pause(1, time.Second) // a shorter rest does not end the longer one
		check.True(t, p.AwaitThrottle(t.Context(), tp), "AwaitThrottle = false")
		check.Equal(t, time.Since(began), 4*time.Second, "wait")
		check.True(t, p.AwaitThrottle(t.Context(), TopicPartition{Topic: "payments"}), "AwaitThrottle for an unknown leader = false")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.pause(1, time.Minute)
		check.True(t, !p.AwaitThrottle(ctx, tp), "AwaitThrottle = true before the rest is over")
	})
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
