package wait

import (
	"context"
	"sync"
)

// Gates limit for each key how many callers are inside at a time. They are safe for concurrent use.
type Gates[K comparable] struct {
	most  int
	mu    sync.Mutex
	gates map[K]*gate
}

type gate struct {
	inside chan struct{}
	users  int // callers that are inside or wait
}

// NewGates returns gates through which most callers fit for each key.
func NewGates[K comparable](most int) *Gates[K] {
	return &Gates[K]{most: most, gates: map[K]*gate{}}
}

// Enter waits until there is room inside. The caller must call leave once. The error is that of ctx, if it ends before.
func (g *Gates[K]) Enter(ctx context.Context, key K) (leave func(), err error) {
	g.mu.Lock()
	at := g.gates[key]
	if at == nil {
		at = &gate{inside: make(chan struct{}, g.most)}
		g.gates[key] = at
	}
	at.users++
	g.mu.Unlock()
	select {
	case at.inside <- struct{}{}:
		return func() { <-at.inside; g.release(key, at) }, nil
	case <-ctx.Done():
		g.release(key, at)
		return nil, ctx.Err()
	}
}

func (g *Gates[K]) release(key K, at *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(g.gates, key)
	}
}
