package schema

import (
	"context"
	"sync"
)

// maxWaiting is how many look-ups of one topic may wait for their turn. Those that come after them fail at once.
const maxWaiting = 2 * lookupsPerSecond

// turns shares something that is scarce between topics. At any time only one user of each topic uses it or stands in the
// queue for it, so that a topic with very many users delays each user of another topic by one turn at most. The zero
// value is ready. It is safe for concurrent use.
type turns struct {
	byTopic sync.Map // from string to *turn; dead-letter topics are not many, and records do not choose them
}

type turn struct{ users, taken chan struct{} }

// take waits until no other user of the topic has its turn. The caller must call done when its own turn is over. The
// error is errBusy.
func (t *turns) take(ctx context.Context, topic string) (done func(), err error) {
	v, ok := t.byTopic.Load(topic)
	if !ok {
		v, _ = t.byTopic.LoadOrStore(topic, &turn{make(chan struct{}, maxWaiting), make(chan struct{}, 1)})
	}
	own := v.(*turn) //nolint:forcetypeassert // the map has no other values
	select {
	case own.users <- struct{}{}:
	default:
		return nil, errBusy
	}
	select {
	case own.taken <- struct{}{}:
		return func() { <-own.taken; <-own.users }, nil
	case <-ctx.Done():
		<-own.users
		return nil, errBusy
	}
}
