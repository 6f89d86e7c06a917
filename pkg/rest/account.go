package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// Each answer has pageRoom reserved from its beginning, and largeRoom once that is not enough: about twice
	// the largest page of a store.
	pageRoom  = 1 << 20
	largeRoom = repository.ListPageLimit + repository.ListPageLimit/4
)

var (
	errShare  = errors.New("the principal's share is used up")
	errFull   = errors.New("the budget is used up")
	errNoRoom = errors.New("no room for the answer now")
)

// limits are shared by requests: answers and exports under way, bytes of answers in memory, and one value
// larger than a share.
type limits struct {
	pages, exports, bytes, large *budget
}

func newLimits(cfg Config) limits {
	return limits{newBudget(int64(cfg.MaxPages)), newBudget(int64(cfg.MaxExports)), newBudget(cfg.BufferBytes), newBudget(1)}
}

// account is one request's share of the limits. Calls of the API that a page of the console makes use that
// page's account, so that no page waits for itself. It is safe for concurrent use.
type account struct {
	limits limits

	mu       sync.Mutex
	who      string
	slot     *budget // nil: not entered yet
	reserved int64   // bytes
	taken    int64   // of them, by what was read
	wanted   int64   // by a read that ended for want of room
	large    bool    // it has a value that is larger than a share
}

type accountKey struct{}

// auditedRead identifies one entry of the audit trail among those that a single read makes.
type auditedRead struct {
	action entity.Action
	kind   entity.Kind
	object uuid.UUID
	text   string
}

type auditedReads struct{ recorded []auditedRead }

type auditedKey struct{}

// recordOnce records a read once for each request: without room for its answer a handler is called again.
func (s *Server) recordOnce(ctx context.Context, entry entity.AuditEntry) error {
	reads, _ := ctx.Value(auditedKey{}).(*auditedReads)
	read := auditedRead{entry.Action, entry.Kind, entry.ObjectID, entry.LastError}
	if reads != nil && slices.Contains(reads.recorded, read) {
		return nil
	}
	err := s.store.Record(ctx, entry)
	if err == nil && reads != nil {
		reads.recorded = append(reads.recorded, read)
	}
	return err
}

// accountOf is the account of a read, and of a request that the console answers; nil otherwise.
func accountOf(ctx context.Context) *account {
	a, _ := ctx.Value(accountKey{}).(*account)
	return a
}

// enter takes a slot and room for a small answer, once.
func (a *account) enter(ctx context.Context, who string, slots *budget) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slot != nil {
		return nil
	}
	if err := slots.wait(ctx, who, 1); err != nil {
		return a.refusal(err, slots)
	}
	if err := a.limits.bytes.wait(ctx, who, pageRoom); err != nil {
		slots.release(who, 1)
		return a.refusal(err, a.limits.bytes)
	}
	a.who, a.slot, a.reserved = who, slots, pageRoom
	return nil
}

// Take implements repository.MemoryReservation. It does not wait, since a read holds a connection of the store: after
// errNoRoom, makeRoom waits and the read is repeated.
func (a *account) Take(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken += n
	if a.taken <= a.reserved {
		return nil
	}
	want := max(a.taken, largeRoom, 2*a.reserved)
	if want = min(want, max(a.taken, a.limits.bytes.share)); a.limits.bytes.try(a.who, want-a.reserved) {
		a.reserved = want
		return nil
	}
	a.wanted = want
	return errNoRoom
}

// makeRoom waits for the room that the last read lacked. The read begins again at mark, what was taken before
// it.
func (a *account) makeRoom(ctx context.Context, mark int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = mark
	// What one waits with, others wait for: all of it is given back.
	kept := max(mark, pageRoom)
	a.limits.bytes.release(a.who, a.reserved-min(a.reserved, kept))
	a.reserved = min(a.reserved, kept)
	if err := a.limits.bytes.wait(ctx, a.who, a.wanted-a.reserved); err != nil {
		return a.refusal(err, a.limits.bytes)
	}
	a.reserved = a.wanted
	return nil
}

// takeValue reserves room for a value that is held whole. Of values larger than one principal's share, one at a
// time is in memory.
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

// settle gives back what was reserved and not taken: all has been read.
func (a *account) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := max(a.taken, pageRoom); kept < a.reserved {
		a.limits.bytes.release(a.who, a.reserved-kept)
		a.reserved = kept
	}
}

// hold reserves n bytes that are in memory already, in place of less.
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
		debug.FreeOSMemory() // the next value must not come on top of this one
		a.limits.large.release(a.who, 1)
	}
	a.slot, a.reserved, a.taken, a.large = nil, 0, 0, false
}

// refusal names the limit: 429 where the client's own requests use it up, 503 where those of others do.
func (a *account) refusal(err error, of *budget) error {
	what, setting := "bytes of answers", "buffer_bytes"
	switch of {
	case a.limits.exports:
		what, setting = "exports", "max_exports"
	case a.limits.pages:
		what, setting = "answers", "max_pages"
	case a.limits.large:
		what, setting = "value larger than a share", "buffer_bytes"
		if errors.Is(err, errShare) { // of one value there are no halves
			err = errFull
		}
	}
	switch {
	case errors.Is(err, errShare):
		text := fmt.Sprintf("%d %s are under way for you already, which is your share of server.%s: try again when one of them is over", of.share, what, setting)
		return refused(errRateLimited, text, detail{setting, text})
	case errors.Is(err, errFull):
		text := fmt.Sprintf("%d %s are all that are under way at a time (server.%s): try again when one of them is over", of.total, what, setting)
		return refused(entity.ErrUnavailable, text, detail{setting, text})
	default:
		return err
	}
}

// limited gives a read or an export its account, and closes it when the handler has returned, however late.
func (s *Server) limited(rt route, handle handler) handler {
	if rt.kind != read && rt.kind != stream {
		return handle
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		a := accountOf(r.Context())
		if a == nil {
			a = &account{limits: s.limits}
			defer a.close()
		}
		if rt.kind == stream {
			if r.Method == http.MethodHead {
				return handle(w, r)
			}
			own := &account{limits: s.limits}
			defer own.close()
			if err := own.enter(r.Context(), s.clientOf(r), s.limits.exports); err != nil {
				return err
			}
			return handle(w, r)
		}
		if err := a.enter(r.Context(), s.clientOf(r), s.limits.pages); err != nil {
			return err
		}
		if g, ok := w.(*gate); ok {
			g.account = a
		}
		ctx := context.WithValue(r.Context(), auditedKey{}, new(auditedReads))
		r = r.WithContext(repository.WithMemoryReservation(context.WithValue(ctx, accountKey{}, a), a))
		for {
			mark := a.mark()
			err := handle(w, r)
			if !errors.Is(err, errNoRoom) {
				return err
			}
			if err := a.makeRoom(r.Context(), mark); err != nil {
				return err
			}
		}
	}
}

// clientOf is the owner of a share: the principal, or the client's address without authentication.
func (s *Server) clientOf(r *http.Request) string {
	if _, nobody := s.authenticator.(auth.Nobody); !nobody {
		return "principal " + principalOf(r).Name
	}
	return "address " + exchangeOf(r).address.String()
}
