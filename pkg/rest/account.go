package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

const (
	// Each answer reserves pageReservation when it begins. An answer that needs more memory reserves at least
	// largeReservation, which is a quarter more than the largest page of a store.
	pageReservation  = 1 << 20
	largeReservation = repository.ListPageLimit + repository.ListPageLimit/4
)

var (
	errShare    = errors.New("the principal's share is used up")
	errFull     = errors.New("the budget is used up")
	errNoMemory = errors.New("no memory for the answer now")
)

// limits are shared by all requests. They limit the number of answers in progress, the number of exports in progress,
// and the bytes of answers in memory. They allow only one value at a time that is larger than a principal's share.
type limits struct {
	pages, exports, bytes, large *budget
}

func newLimits(cfg Config) limits {
	return limits{newBudget(int64(cfg.MaxPages)), newBudget(int64(cfg.MaxExports)), newBudget(cfg.BufferBytes), newBudget(1)}
}

// account counts how much of the limits one request has taken. API calls of a console page use the page's account, so
// that they never wait for memory that the page itself has reserved. It is safe for concurrent use.
type account struct {
	limits limits

	mu       sync.Mutex
	who      string
	slot     *budget // the budget from which the request took a slot, for a page or an export; nil before enter was called
	reserved int64   // bytes that the answer has reserved
	taken    int64   // bytes of the reservation that the values already read use
	wanted   int64   // size of the reservation that the last read needed but did not have
	large    bool    // the answer has a value that is larger than a principal's share
}

type accountKey struct{}

// accountOf returns the account of a read or of a request to the console. Other requests have none, and the result is
// nil.
func accountOf(ctx context.Context) *account {
	a, _ := ctx.Value(accountKey{}).(*account)
	return a
}

// enter waits for a free slot in the budget slots, and reserves memory for a small answer. Further calls do nothing.
func (a *account) enter(ctx context.Context, who string, slots *budget) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slot != nil {
		return nil
	}
	if err := slots.wait(ctx, who, 1); err != nil {
		return a.refusal(err, slots)
	}
	if err := a.limits.bytes.wait(ctx, who, pageReservation); err != nil {
		slots.release(who, 1)
		return a.refusal(err, a.limits.bytes)
	}
	a.who, a.slot, a.reserved = who, slots, pageReservation
	return nil
}

// Take implements repository.MemoryReservation. It does not wait, because the read that calls it holds a connection of
// the store. After errNoMemory the server calls reserveMore, which waits, and then repeats the read.
func (a *account) Take(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken += n
	if a.taken <= a.reserved {
		return nil
	}
	want := max(a.taken, largeReservation, 2*a.reserved)
	if want = min(want, max(a.taken, a.limits.bytes.share)); a.limits.bytes.try(a.who, want-a.reserved) {
		a.reserved = want
		return nil
	}
	a.wanted = want
	return errNoMemory
}

// reserveMore waits for the memory that the last read lacked. mark is the number of bytes that were taken before that
// read. The caller then repeats the read.
func (a *account) reserveMore(ctx context.Context, mark int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = mark
	// To avoid deadlock, all reserved memory is released before the wait.
	kept := max(mark, pageReservation)
	a.limits.bytes.release(a.who, a.reserved-min(a.reserved, kept))
	a.reserved = min(a.reserved, kept)
	if err := a.limits.bytes.wait(ctx, a.who, a.wanted-a.reserved); err != nil {
		return a.refusal(err, a.limits.bytes)
	}
	a.reserved = a.wanted
	return nil
}

// takeValue reserves memory for a value that is held completely in memory. Only one value larger than a principal's
// share is in memory at a time.
func (a *account) takeValue(ctx context.Context, size int64) error {
	if size <= a.limits.bytes.share/2 {
		return a.Take(size)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.large {
		return nil
	}
	if err := a.limits.large.wait(ctx, a.who, 1); err != nil {
		return a.refusal(err, a.limits.large)
	}
	a.large = true
	return nil
}

// settle releases the reserved memory that the answer does not use. It is called after everything was read.
func (a *account) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := max(a.taken, pageReservation); kept < a.reserved {
		a.limits.bytes.release(a.who, a.reserved-kept)
		a.reserved = kept
	}
}

// hold raises the reservation to n bytes without waiting, because these bytes are already in memory.
func (a *account) hold(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.reserved && !a.large {
		a.limits.bytes.force(a.who, n-a.reserved)
		a.reserved = n
	}
}

func (a *account) mark() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken
}

func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slot == nil {
		return
	}
	a.limits.bytes.release(a.who, a.reserved)
	a.slot.release(a.who, 1)
	if a.large {
		debug.FreeOSMemory() // returns the memory of this large value to the system before another one is read
		a.limits.large.release(a.who, 1)
	}
	a.slot, a.reserved, a.taken, a.large = nil, 0, 0, false
}

// refusal converts the error of a budget to the answer for the client, which names the limit. The status is 429 when
// the client's own requests have used up its share, and 503 when the requests of all clients have used up the limit.
func (a *account) refusal(err error, of *budget) error {
	what, setting := "bytes of answers", "buffer_bytes"
	switch of {
	case a.limits.exports:
		what, setting = "exports", "max_exports"
	case a.limits.pages:
		what, setting = "answers", "max_pages"
	case a.limits.large:
		what, setting = "value larger than a share", "buffer_bytes"
		if errors.Is(err, errShare) { // this budget allows one value for all clients together, so a client has no share of it
			err = errFull
		}
	}
	switch {
	case errors.Is(err, errShare):
		text := fmt.Sprintf("%d %s are under way for you already, which is your share of server.%s: try again when one of them is over", of.share, what, setting)
		return respond.Refused(respond.ErrRateLimited, text, respond.Detail{Field: setting, Reason: text})
	case errors.Is(err, errFull):
		text := fmt.Sprintf("%d %s are all that are under way at a time (server.%s): try again when one of them is over", of.total, what, setting)
		return respond.Refused(entity.ErrUnavailable, text, respond.Detail{Field: setting, Reason: text})
	default:
		return err
	}
}

// reserve waits until a value of this size may be held in memory. A size of -1 means that the size is not known;
// reserve then assumes a principal's whole share.
func (l limits) reserve(ctx context.Context, size int64) error {
	if size < 0 {
		size = l.bytes.share
	}
	return accountOf(ctx).takeValue(ctx, size)
}

// limited gives each read and each export an account. It closes the account when the handler has returned, even if the
// handler returns only after the request's time limit.
func (l limits) limited(rt route, client func(*http.Request) string, handle handler) handler {
	if rt.kind != read && rt.kind != stream {
		return handle
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		a := accountOf(r.Context())
		if a == nil {
			a = &account{limits: l}
			defer a.close()
		}
		if rt.kind == stream {
			if r.Method == http.MethodHead {
				return handle(w, r)
			}
			own := &account{limits: l}
			defer own.close()
			if err := own.enter(r.Context(), client(r), l.exports); err != nil {
				return err
			}
			return handle(w, r)
		}
		if err := a.enter(r.Context(), client(r), l.pages); err != nil {
			return err
		}
		if g, ok := w.(*responseGate); ok {
			g.account = a
		}
		ctx := request.WithAudit(r.Context())
		r = r.WithContext(repository.WithMemoryReservation(context.WithValue(ctx, accountKey{}, a), a))
		for {
			mark := a.mark()
			err := handle(w, r)
			if !errors.Is(err, errNoMemory) {
				return err
			}
			if err := a.reserveMore(r.Context(), mark); err != nil {
				return err
			}
		}
	}
}

// budgetTimeout is how long a request waits for units that other requests hold; slow clients are disconnected after
// about the same time.
const budgetTimeout = 5 * time.Second

// budget is a number of units that requests share. One principal gets at most half of the budget. It is safe for
// concurrent use.
type budget struct {
	total, share int64

	mu      sync.Mutex
	used    int64
	by      map[string]int64
	waiting []*waiter
}

// waiter waits for units of a budget; granted is closed when the waiter has the units.
type waiter struct {
	who     string
	n       int64
	granted chan struct{}
}

func newBudget(total int64) *budget {
	return &budget{total: total, share: max(1, total/2), by: map[string]int64{}}
}

// try takes n units for the client named who if these units are free, and reports whether it took them.
func (b *budget) try(who string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(who, n)
}

func (b *budget) take(who string, n int64) bool {
	if b.used+n > b.total || b.by[who]+n > b.share {
		return false
	}
	b.used += n
	b.by[who] += n
	return true
}

// force takes n units even if they are not free, because they are already in use.
func (b *budget) force(who string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.by[who] += n
}

// wait takes n units for the client named who, and waits at most budgetTimeout for them. The error is errShare when the
// principal's own share is used up, errFull when the whole budget is used up, and the context's error when ctx ends
// first.
func (b *budget) wait(ctx context.Context, who string, n int64) error {
	b.mu.Lock()
	if b.take(who, n) {
		b.mu.Unlock()
		return nil
	}
	if n > b.share {
		b.mu.Unlock()
		return errFull // a client never gets more than its share, so waiting would be in vain
	}
	w := &waiter{who: who, n: n, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	timer := time.NewTimer(budgetTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, w)
	if at < 0 { // a release has granted the units just before the wait ended
		return nil
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	switch {
	case err != nil:
		return err
	case b.by[who]+n > b.share:
		return errShare
	default:
		return errFull
	}
}

// release gives n units of the client named who back. It then serves the waiters in order; a waiter that cannot be
// served yet does not delay other waiters.
func (b *budget) release(who string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.by[who] -= n; b.by[who] == 0 {
		delete(b.by, who)
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if !b.take(w.who, w.n) {
			return false
		}
		close(w.granted)
		return true
	})
}
