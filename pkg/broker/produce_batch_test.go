package broker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestWrite_NothingIsSentBeforeTheBrokersRestIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := &write{rested: began.Add(4 * time.Second)}
		if err := w.rest(t.Context()); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("rest = %v after %s, want nil after 4s", err, time.Since(began))
		}
		if err := w.rest(t.Context()); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("rest = %v after %s, want nil at once", err, time.Since(began))
		}
	})
}

func TestWrite_RestThatOutlastsTheCallIsNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		p := &Producer{cfg: DefaultProducerConfig()}
		w := &write{producer: p, lane: &lane{}, result: &ProduceResult{}, rested: time.Now().Add(time.Minute)}
		results := make([]RecordResult, 2)
		err := w.batch(ctx, []Record{{Value: []byte("a")}, {Value: []byte("b")}}, results)
		check.True(t, err != nil && err.Fate == NotSent && err.Class == ClassRateLimited && errors.Is(err, ErrNotTried),
			"batch = %v, want not sent, rate limited, not tried", err)
		check.True(t, errors.Is(results[1].Err, ErrNotTried) && results[1].Offset == OffsetUnknown,
			"second record = %+v, want the same", results[1])
	})
}
