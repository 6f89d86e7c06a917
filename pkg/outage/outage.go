// Package outage logs once that a dependency does not answer, and once that it answers again; a loop that tries until
// it succeeds would log every try.
package outage

import (
	"context"
	"sync"

	"go.uber.org/zap"
)

// Log stores whether the last call failed. The zero value assumes success. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	failed bool
}

// Report logs lost as a warning with the first error, and back with the first success
// after it. An error does not count once ctx has ended.
func (l *Log) Report(ctx context.Context, log *zap.Logger, err error, lost, back string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil || l.failed == (err != nil) {
		return
	}
	if l.failed = err != nil; l.failed {
		log.Warn(lost, zap.Error(err))
		return
	}
	log.Info(back)
}
