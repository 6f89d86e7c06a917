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

func TestWrite_NothingIsSentBeforeTheBrokersRestIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := &write{throttledUntil: began.Add(4 * time.Second)}
		if err := w.waitForThrottle(t.Context()); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("waitForThrottle = %v after %s, want nil after 4s", err, time.Since(began))
		}
		if err := w.waitForThrottle(t.Context()); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("waitForThrottle = %v after %s, want nil at once", err, time.Since(began))
		}
	})
}

func TestWrite_RestThatOutlastsTheCallIsNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		p := &Producer{cfg: DefaultProducerConfig()}
		w := &write{producer: p, lane: &lane{}, result: &ProduceResult{}, throttledUntil: time.Now().Add(time.Minute)}
		results := make([]RecordResult, 2)
		err := w.batch(ctx, []Record{{Value: []byte("a")}, {Value: []byte("b")}}, results)
		check.True(t, err != nil && err.Fate == NotSent && err.Class == ClassRateLimited && errors.Is(err, ErrNotTried),
			"batch = %v, want not sent, rate limited, not tried", err)
		check.True(t, errors.Is(results[1].Err, ErrNotTried) && results[1].Offset == OffsetUnknown,
			"second record = %+v, want the same", results[1])
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
