package schema

import (
	"context"
	"sync"
)

// maxWaiting is how many look-ups of one topic may wait for their turn. Those that come after them fail at once.
const maxWaiting = 2 * lookupsPerSecond

// turns shares something that is scarce between topics. At any time only one user of each topic may use it or stand in
// the queue for it, so that a topic with very many users delays each user of another topic by one turn at most. The
// zero value is ready. It is safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	byTopic map[string]*turn // only topics that have users now
}

type turn struct {
	taken chan struct{}
	users int
}

// take waits until no other user of the topic has its turn. The caller must call done when its own turn is over. The
// error is errBusy.
func (t *turns) take(ctx context.Context, topic string) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byTopic == nil {
		t.byTopic = map[string]*turn{}
	}
	own := t.byTopic[topic]
	if own == nil {
		own = &turn{taken: make(chan struct{}, 1)}
		t.byTopic[topic] = own
	}
	if own.users >= maxWaiting {
		return nil, errBusy
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.taken <- struct{}{}:
		done = func() {
			<-own.taken
			t.mu.Lock()
			defer t.mu.Unlock()
			t.leave(topic, own)
		}
	case <-ctx.Done():
		err = errBusy
	}
	t.mu.Lock()
	if err != nil {
		t.leave(topic, own)
	}
	return done, err
}

func (t *turns) leave(topic string, own *turn) {
	if own.users--; own.users == 0 {
		delete(t.byTopic, topic)
	}
}
