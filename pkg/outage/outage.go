// Package outage logs that a dependency does not answer, once and not for every try of a loop, and logs once that the
// dependency answers again.
package outage

import (
	"context"
	"sync"

	"go.uber.org/zap"
)

// Log remembers whether the last call failed. In the zero value no call has failed. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	failed bool
}

// Report is called with the result of each call of the dependency. It logs the text lost as a warning at the first
// error, and the text back at the first success after an error. Errors are ignored once ctx has ended.
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
