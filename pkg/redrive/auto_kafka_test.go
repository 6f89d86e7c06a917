package redrive_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
)

// pending returns the number of messages of the test's topic that are neither RESOLVED nor DEAD.
func (s *system) pending() (n int64) {
	s.Helper()
	counts := check.Must(s.store.Counts(s.Context()))(s)
	for _, c := range counts {
		if c.OriginalTopic == s.topic && !c.Status.Final() {
			n += c.Messages
		}
	}
	return n
}

func TestRealServersAuto(t *testing.T) {
	const n = 3000
	s := newSystem(t)
	s.fill(n, 100)
	cfg := redrive.DefaultConfig()
	cfg.Auto.Topics = []string{"redrive.*"}
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	for range 2 { // number of processes
		service := redrive.New(cfg, stores.Fill[redrive.Stores](s.store), s.publisher, prometheus.NewRegistry(), zap.NewNop())
		both.Go(func() { service.RunAuto(ctx) })
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	began := time.Now()
	for s.pending() > 0 && time.Since(began) < time.Minute {
		<-look.C
	}
	t.Logf("%d messages in %s", n, time.Since(began).Round(time.Millisecond))
	cancel()
	both.Wait()
	counts, err := s.store.Counts(t.Context())
	check.True(t, err == nil && len(counts) == 1 && counts[0].Status == entity.Resolved && counts[0].Messages == n,
		"counts = %+v, %v, want %d messages, all of them RESOLVED", counts, err, n)
	sent := map[string]int{}
	for p := range int32(partitions) {
		for _, key := range s.log(p) {
			sent[key]++
		}
	}
	for key, times := range sent {
		check.True(t, times == 1, "record %s was sent %d times, want once", key, times)
	}
	check.True(t, len(sent) == n, "%d records were sent, want %d", len(sent), n)
}
