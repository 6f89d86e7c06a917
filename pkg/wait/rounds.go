package wait

import (
	"context"
	"sync"
	"time"
)

// roundPatience is how long a round waits for the end of the round before it, which may hang.
const roundPatience = 500 * time.Millisecond

// Rounds lets callers with the same question share one request. The zero value is ready to use. It is safe for
// concurrent use.
type Rounds[K comparable, A any] struct {
	mu    sync.Mutex
	asked map[K]*question[A]
}

// question holds the rounds of one question: the latest that has begun, and the one that gathers callers.
type question[A any] struct{ begun, next *round[A] }

type round[A any] struct {
	done   chan struct{} // closed when answer and err are complete
	answer A
	err    error
}

// Ask returns the result of a call of ask that begins after the call of Ask, so that it is not older than the caller's
// question. Callers that come while a request for the same key is under way share the next one. A request continues when
// the context of its callers ends. The answer is shared: callers must not change it.
func (r *Rounds[K, A]) Ask(ctx context.Context, key K, ask func(context.Context) (A, error)) (answer A, err error) {
	r.mu.Lock()
	if r.asked == nil {
		r.asked = map[K]*question[A]{}
	}
	q := r.asked[key]
	if q == nil {
		q = &question[A]{}
		r.asked[key] = q
	}
	mine := q.next
	if mine == nil {
		mine = &round[A]{done: make(chan struct{})}
		q.next = mine
		go r.carryOut(context.WithoutCancel(ctx), key, q, q.begun, ask)
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.answer, mine.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// carryOut waits for the round before, and then sends the request of the round that gathers callers.
func (r *Rounds[K, A]) carryOut(ctx context.Context, key K, q *question[A], before *round[A], ask func(context.Context) (A, error)) {
	if before != nil {
		Until(ctx, before.done, roundPatience)
	}
	r.mu.Lock()
	mine := q.next
	q.begun, q.next = mine, nil
	r.mu.Unlock()
	mine.answer, mine.err = ask(ctx)
	close(mine.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.begun == mine {
		q.begun = nil
	}
	if q.begun == nil && q.next == nil && r.asked[key] == q {
		delete(r.asked, key)
	}
}
