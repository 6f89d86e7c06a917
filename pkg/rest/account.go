package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/budget"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

const (
	// Each answer reserves pageReservation when it begins. An answer that needs more memory reserves at least
	// largeReservation, which is a quarter more than the largest page of a store.
	pageReservation  = 1 << 20
	largeReservation = repository.ListPageLimit + repository.ListPageLimit/4
)

var errNoMemory = errors.New("no memory for the answer now")

// limits are shared by all requests. They limit the number of answers in progress, the number of exports in progress,
// and the bytes of answers in memory. Only one value at a time may be larger than half of a principal's share.
type limits struct {
	pages, exports, bytes, large *budget.Budget
}

func newLimits(cfg Config) limits {
	return limits{budget.New(int64(cfg.MaxPages)), budget.New(int64(cfg.MaxExports)), budget.New(cfg.BufferBytes), budget.New(1)}
}

// account counts how much of the limits one request has taken. Reads of a console page use the page's account, so that
// they never wait for memory that the page itself has reserved. It is safe for concurrent use.
type account struct {
	limits limits

	mu       sync.Mutex
	who      string
	slot     *budget.Budget // the budget from which the request took a slot, for a page or an export; nil before enter was called
	reserved int64          // bytes that the answer has reserved
	taken    int64          // bytes of the reservation that the values already read use
	wanted   int64          // size of the reservation that the last read needed but did not have
	large    bool           // the answer has a value that is larger than half of a principal's share
}

type accountKey struct{}

// accountOf returns the account of a read or of a request to the console. Other requests have none, and the result is
// nil.
func accountOf(ctx context.Context) *account {
	a, _ := ctx.Value(accountKey{}).(*account)
	return a
}

// enter waits for a free slot in the budget slots, and reserves memory for a small answer. Further calls do nothing.
func (a *account) enter(ctx context.Context, who string, slots *budget.Budget) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slot != nil {
		return nil
	}
	if err := slots.Wait(ctx, who, 1); err != nil {
		return a.refusal(err, slots)
	}
	if err := a.limits.bytes.Wait(ctx, who, pageReservation); err != nil {
		slots.Release(who, 1)
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
	if want = min(want, max(a.taken, a.limits.bytes.Share)); a.limits.bytes.Try(a.who, want-a.reserved) {
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
	// To avoid deadlock, memory that was reserved for the last read is released before the wait.
	kept := max(mark, pageReservation)
	a.limits.bytes.Release(a.who, a.reserved-min(a.reserved, kept))
	a.reserved = min(a.reserved, kept)
	if err := a.limits.bytes.Wait(ctx, a.who, a.wanted-a.reserved); err != nil {
		return a.refusal(err, a.limits.bytes)
	}
	a.reserved = a.wanted
	return nil
}

// takeValue reserves memory for a value that is held completely in memory. A value larger than half of a principal's
// share reserves none, but waits until no other such value is in memory.
func (a *account) takeValue(ctx context.Context, size int64) error {
	if size <= a.limits.bytes.Share/2 {
		return a.Take(size)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.large {
		return nil
	}
	if err := a.limits.large.Wait(ctx, a.who, 1); err != nil {
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
		a.limits.bytes.Release(a.who, a.reserved-kept)
		a.reserved = kept
	}
}

// hold raises the reservation to n bytes at once, because they are already in memory; not for a large value.
func (a *account) hold(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.reserved && !a.large {
		a.limits.bytes.Force(a.who, n-a.reserved)
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
	a.limits.bytes.Release(a.who, a.reserved)
	a.slot.Release(a.who, 1)
	if a.large {
		debug.FreeOSMemory() // returns the memory of this large value to the system before another one is read
		a.limits.large.Release(a.who, 1)
	}
	a.slot, a.reserved, a.taken, a.large = nil, 0, 0, false
}

// refusal converts the error of a budget to the answer for the client, which names the limit. The status is 429 when
// the client's own requests have used up its share; else 503: the limit is used up, or the answer exceeds a share.
func (a *account) refusal(err error, of *budget.Budget) error {
	what, setting := "bytes of answers", "buffer_bytes"
	switch of {
	case a.limits.exports:
		what, setting = "exports", "max_exports"
	case a.limits.pages:
		what, setting = "answers", "max_pages"
	case a.limits.large:
		what, setting = "value larger than a share", "buffer_bytes"
		if errors.Is(err, budget.ErrShare) { // this budget allows one value for all clients together, so a client has no share of it
			err = budget.ErrFull
		}
	}
	switch {
	case errors.Is(err, budget.ErrShare):
		text := fmt.Sprintf("%d %s are under way for you already, which is your share of server.%s: try again when one of them is over", of.Share, what, setting)
		return respond.Refused(respond.ErrRateLimited, text, respond.Detail{Field: setting, Reason: text})
	case errors.Is(err, budget.ErrFull):
		text := fmt.Sprintf("%d %s are all that are under way at a time (server.%s): try again when one of them is over", of.Total, what, setting)
		return respond.Refused(entity.ErrUnavailable, text, respond.Detail{Field: setting, Reason: text})
	default:
		return err
	}
}

// reserve reserves memory for a value of this size, by takeValue. A size of -1 means that the size is not known;
// reserve then assumes a principal's whole share.
func (l limits) reserve(ctx context.Context, size int64) error {
	if size < 0 {
		size = l.bytes.Share
	}
	return accountOf(ctx).takeValue(ctx, size)
}

// limited gives each read and each export an account; reads of a console page use the page's account. It closes its own
// accounts when the handler has returned, even after the request's time limit.
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
		r = r.WithContext(repository.WithMemoryReservation(context.WithValue(r.Context(), accountKey{}, a), a))
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
