package redrive

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// TestWithoutADatabase: without a database, a redrive retries all messages of a topic. A dry run and a redrive with a
// canary are refused.
func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := memory.New(time.Now), &redrivetest.Kafka{}
		var ids []uuid.UUID
		for i := range 3 {
			m := entity.NewMessage(orders, "boom", time.Now().Add(time.Duration(i)*time.Millisecond))
			m.Record.Value = []byte("value")
			m.Source = entity.Source{Topic: deadLetter, Offset: int64(i)}
			store.Insert(m)
			ids = append(ids, m.ID)
		}
		s := New(DefaultConfig(), Stores{Attempts: store, Redrives: store, Due: store}, log, prometheus.NewRegistry(), zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { s.RunRedrives(ctx) })
		loops.Go(func() { s.RunOutcomes(ctx, nil) })
		defer loops.Wait()
		defer stop()

		order := repository.NewRedrive{
			Action: entity.RedriveRetry, Cause: entity.By("ana"), Selection: entity.Selection{Filter: entity.Filter{Topic: orders}},
		}
		r, err := s.Begin(ctx, order)
		if err == nil {
			r, err = s.Wait(ctx, r.ID)
		}
		check.True(t, err == nil && r.State == entity.RedriveFinished && r.Counts.Succeeded == len(ids),
			"redrive is %s with %+v, %v, want it finished with %d succeeded", r.State, r.Counts, err, len(ids))
		got := log.Sent(orders)
		check.True(t, slices.Equal(got, ids), "sent %v, want %v", got, ids)
		check.Is(t, check.Err(s.Preview(ctx, order)), repository.ErrNeedsDatabase, "Preview")
		order.Options.Canary = 1
		check.Is(t, check.Err(s.Begin(ctx, order)), repository.ErrNeedsDatabase, "Begin with a canary")
	})
}
