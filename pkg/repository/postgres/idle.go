package postgres

import (
	"sync"
	"time"
)

// quiet is how long a pool has opened no connection before it goes back to as many
// idle ones as it is configured to keep.
const quiet = 30 * time.Second

// pool is what idle needs of a database/sql pool.
type pool interface{ SetMaxIdleConns(n int) }

// idle lets a busy pool keep what it has opened. A pool closes every connection
// beyond its idle ones the moment nobody uses it, and between two requests nobody
// does: under a load of more requests at a time than idle connections it would open
// and close some all the time, and to open one costs more than to answer a request.
type idle struct {
	pool      pool
	few, most int

	mu     sync.Mutex
	timer  *time.Timer
	last   time.Time // when one was opened
	raised bool
}

// opened is to be called for every new connection.
func (i *idle) opened() {
	if i.few == 0 || i.few >= i.most { // none are to be kept, or all are
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = time.Now()
	if !i.raised {
		i.raised = true
		i.pool.SetMaxIdleConns(i.most)
	}
	if i.timer == nil {
		i.timer = time.AfterFunc(quiet, i.settle)
		return
	}
	i.timer.Reset(quiet)
}

// settle may come late: one may have been opened while it waited for the lock.
func (i *idle) settle() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.last) < quiet {
		return
	}
	i.raised = false
	i.pool.SetMaxIdleConns(i.few)
}

// drop closes the connections that are idle now.
func (i *idle) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pool.SetMaxIdleConns(0)
	if i.raised {
		i.pool.SetMaxIdleConns(i.most)
	} else {
		i.pool.SetMaxIdleConns(i.few)
	}
}
