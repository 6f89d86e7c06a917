package bulk

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// maxPasses is how many redrives a process works on at the same time. A redrive that pauses before its next pass does
// not count.
const maxPasses = 8

// Runner works on active redrives.
type Runner struct {
	deps     *dependencies
	redrives *Redrives
	leases   heldLeases
	passes   chan struct{} // one element for each pass that runs
}

// Run works on active redrives until ctx ends. It returns when no attempt is under way: results are stored,
// unsent claims given back, and leases released. With Config.Workers 0 it only waits for ctx.
func (r *Runner) Run(ctx context.Context) {
	drained := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(drained)
		r.drain()
	})
	defer func() { <-drained }() // otherwise the end of one Run could make calls of Wait return during the next
	if r.deps.cfg.Workers == 0 {
		<-ctx.Done()
		return
	}
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewal sync.WaitGroup
	renewal.Go(func() { r.renewLeases(renewing) })

	var runs sync.WaitGroup
	var mu sync.Mutex
	running := map[uuid.UUID]bool{}
	for ctx.Err() == nil {
		changed := r.redrives.changed.Listen()
		ids, err := r.deps.store.ActiveRedrives(ctx)
		if err != nil && ctx.Err() == nil {
			r.deps.log.Warn("cannot list active redrives", zap.Error(err))
		}
		for _, id := range ids {
			mu.Lock()
			free := !running[id]
			if free {
				running[id] = true
			}
			mu.Unlock()
			if !free {
				continue
			}
			runs.Go(func() {
				newRun(r, id).work(ctx)
				mu.Lock()
				defer mu.Unlock()
				delete(running, id)
			})
		}
		wait.Until(ctx, changed, pollInterval)
	}
	runs.Wait()
	stopRenewing()
	renewal.Wait()
}

// drain makes the calls of Wait in this process return, because the process shuts down and other processes continue the
// redrives.
func (r *Runner) drain() {
	r.redrives.draining.Store(true)
	r.redrives.changed.Notify()
}

// renewLeases extends the leases of this process. While the process shuts down, it continues until the last batch is
// saved. A lease lasts as long as a claim: when another process can take over the batch of a dead process, the batch's
// claims have expired too and can be settled.
func (r *Runner) renewLeases(ctx context.Context) {
	for wait.Sleep(ctx, r.deps.cfg.ClaimExpiry/4) {
		for _, owner := range r.leases.owners() {
			asked := time.Now()
			if err := r.deps.store.RenewLeases(ctx, owner, r.deps.cfg.ClaimExpiry); err != nil {
				if ctx.Err() == nil {
					r.deps.log.Warn("cannot renew leases", zap.Error(err))
				}
				break
			}
			r.leases.renewed(owner, asked, asked.Add(r.deps.cfg.ClaimExpiry))
		}
	}
}
