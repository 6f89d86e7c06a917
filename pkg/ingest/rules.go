package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// rulesTimeout limits the time that discovery waits for the rules; they are read again at the next interval.
const rulesTimeout = 2 * time.Second

// MappingStore is the part of a store that contains the operators' topic mapping.
type MappingStore interface {
	Mapping(ctx context.Context) (entity.Mapping, error)
}

// rules remembers which version of the operators' mapping is in use.
type rules struct {
	asking atomic.Bool // whether a call to the store is running; it may never return, because a driver may hang while its server does not answer

	mu      sync.Mutex
	version int64 // version of the mapping that was read last
	silent  bool  // whether the last call failed; only the first failure in a row is logged
}

// refreshRules reads the operators' mapping from the store. The new mapping is used for records that are decoded later.
// While the store does not answer, or the mapping cannot be used, the previous mapping stays in use.
func (i *Ingester) refreshRules(ctx context.Context) {
	if !i.rules.asking.CompareAndSwap(false, true) {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, rulesTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer i.rules.asking.Store(false)
		m, err := i.stores.Mappings.Mapping(bounded)
		if err != nil {
			i.rulesFailed(ctx, err)
			return
		}
		i.useRules(m)
	}()
	select {
	case <-done:
	case <-bounded.Done():
		i.rulesFailed(ctx, bounded.Err())
	}
}

func (i *Ingester) rulesFailed(ctx context.Context, err error) {
	i.rules.mu.Lock()
	defer i.rules.mu.Unlock()
	if ctx.Err() != nil || i.rules.silent {
		return
	}
	i.rules.silent = true
	i.log.Warn("the topic mapping cannot be read; the last one stays in force", zap.Error(err))
}

func (i *Ingester) useRules(m entity.Mapping) {
	i.rules.mu.Lock()
	defer i.rules.mu.Unlock()
	i.rules.silent = false
	if m.Version == i.rules.version {
		return
	}
	i.rules.version = m.Version
	decoder, err := i.decoder.Load().WithRules(m.Rules)
	if err != nil {
		i.log.Error("the topic mapping cannot be used; the last one stays in force",
			zap.Int64("version", m.Version), zap.Error(err))
		return
	}
	i.decoder.Store(decoder)
	i.log.Info("the topic mapping changed", zap.Int64("version", m.Version), zap.Int("rules", len(m.Rules)))
}
