package auth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// issuerFresh is how long an answer of the issuer is used without another question, keysStale how long its keys
	// are used while it does not answer.
	issuerFresh = 15 * time.Minute
	keysStale   = 24 * time.Hour

	// issuerPause is the least time between two questions: tokens with unknown keys must not cause questions without
	// end.
	issuerPause = 10 * time.Second
)

// issuerCache holds an answer of the issuer. It asks for the first caller, when the answer is not enough for a
// caller, and when it is no longer fresh. go-oidc's RemoteKeySet would ask for every token with an unknown key, and
// use withdrawn keys until such a token comes.
type issuerCache[T any] struct {
	ask     func(context.Context) (T, error)
	timeout time.Duration // of a question
	stale   time.Duration // when an answer is too old to be used
	log     *zap.Logger
	now     func() time.Time

	mu      sync.Mutex
	answer  T
	gotAt   time.Time     // when the answer came; zero for never
	askedAt time.Time     // when the last question began
	err     error         // of the last question
	asking  chan struct{} // closed when the current question has ended; nil when there is none
}

// get returns an answer that is enough, or the issuer's latest. The error is entity.ErrUnavailable.
func (c *issuerCache[T]) get(ctx context.Context, enough func(T) bool) (T, error) {
	var none T
	if asking := c.refresh(enough); asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return none, fmt.Errorf("wait for the issuer: %w: %w", ctx.Err(), entity.ErrUnavailable)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && !c.has(enough) {
		return none, fmt.Errorf("%w: %w", c.err, entity.ErrUnavailable)
	}
	return c.answer, nil
}

// refresh asks the issuer if there is a reason and the last question is old enough. It returns the question to wait
// for, nil for none.
func (c *issuerCache[T]) refresh(enough func(T) bool) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, has := c.now(), c.has(enough)
	if has && now.Sub(c.gotAt) < issuerFresh {
		return nil
	}
	if c.asking == nil && (c.askedAt.IsZero() || now.Sub(c.askedAt) >= issuerPause) {
		c.askedAt, c.asking = now, make(chan struct{})
		go c.question(c.asking)
	}
	if has {
		return nil
	}
	return c.asking
}

func (c *issuerCache[T]) has(enough func(T) bool) bool {
	return !c.gotAt.IsZero() && c.now().Sub(c.gotAt) < c.stale && enough(c.answer)
}

// question asks the issuer. It does not end with a request: all that wait share the answer.
func (c *issuerCache[T]) question(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	answer, err := c.ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.answer, c.gotAt = answer, c.now()
	} else {
		c.log.Warn("the issuer does not answer", zap.Error(err))
	}
	c.err, c.asking = err, nil
	close(done)
}
