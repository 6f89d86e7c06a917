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
	// issuerFresh is how long an answer of the issuer is used without a new request; keysStale is how long the issuer's
	// keys are used while the issuer does not answer.
	issuerFresh = 15 * time.Minute
	keysStale   = 24 * time.Hour

	// issuerPause is the shortest time between two requests, so that tokens with unknown key ids do not cause endless
	// requests.
	issuerPause = 10 * time.Second
)

// issuerCache holds an answer of the issuer. It sends a request when it has no answer yet, when its answer is not
// enough for a caller, and when its answer is no longer fresh. The RemoteKeySet of go-oidc would send a request for
// every token with an unknown key id, and would use withdrawn keys until a token with an unknown key id arrives.
type issuerCache[T any] struct {
	ask     func(context.Context) (T, error)
	timeout time.Duration // time limit of a request
	stale   time.Duration // age at which the answer is no longer used
	log     *zap.Logger
	now     func() time.Time

	mu      sync.Mutex
	answer  T
	gotAt   time.Time     // when the answer arrived; zero for never
	askedAt time.Time     // when the last request began
	err     error         // error of the last request
	asking  chan struct{} // closed when the request that is under way has ended; nil: no request is under way
}

// get returns an answer for which the function enough returns true. If the issuer gives no such answer, get returns the
// issuer's latest answer. The error is of kind entity.ErrUnavailable.
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

// refresh sends a request if issuerPause has passed since the last request, and the answer is not fresh or enough
// returns false for the answer. It returns a channel if the caller must wait for the answer, else nil.
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

// question sends the request to the issuer. It does not use the context of a caller, because all waiting callers share
// the answer.
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
