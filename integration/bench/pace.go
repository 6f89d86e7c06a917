package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// paceGrace is how long after the last request is due those that are late may
// still be asked.
const paceGrace = 5 * time.Second

// load is how reads at a fixed rate went.
type load struct {
	work
	times  []time.Duration // from when a request was due to its answer, ascending
	failed int             // answers that were not good
	late   int             // requests that were never asked: no connection was free until long after
	first  error           // the first failure
}

// steadily asks perSecond times a second for some time, over so many connections
// at once, whatever becomes of the answers: one that is slow delays no other
// request as long as a connection is free. When none is, requests wait, and
// that counts as theirs: the time of each begins when it was due. Failures are
// counted, and no reason to end.
func steadily(ctx context.Context, workers int, perSecond float64, d time.Duration, ask func(worker, n int) error) (l load, err error) {
	l.work, err = timed(func() (int, error) {
		l.pace(ctx, workers, perSecond, d, ask)
		return len(l.times), context.Cause(ctx)
	})
	slices.Sort(l.times)
	return l, err
}

func (l *load) pace(ctx context.Context, workers int, perSecond float64, d time.Duration, ask func(worker, n int) error) {
	all := int(perSecond * d.Seconds())
	start := time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				due := start.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
				if n >= all || time.Since(start) > d+paceGrace {
					return
				}
				await(ctx, time.Until(due))
				err := ask(w, n)
				took := time.Since(due)
				mu.Lock()
				l.note(took, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	l.late = max(0, all-len(l.times)-l.failed)
}

// note takes in one answer.
func (l *load) note(took time.Duration, err error) {
	if err == nil {
		l.times = append(l.times, took)
		return
	}
	l.failed++
	if l.first == nil {
		l.first = err
	}
}

// good tells whether every request had a good answer.
func (l load) good() bool { return len(l.times) > 0 && l.failed == 0 && l.late == 0 }

// await returns after d, or when ctx ends.
func await(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
