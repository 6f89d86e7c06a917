package rest

import (
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// carryOut runs a route's handler and returns its error. One that is late is left to itself, and its answer
// dropped: a driver may wait for a silent database whatever the context says, and the client must not.
func (s *Server) carryOut(rt route, handle handler, w http.ResponseWriter, r *http.Request) error {
	if rt.kind == probe || rt.kind == work || rt.kind == stream { // probes and streams limit themselves, and the drain ends work
		return handle(w, r)
	}
	g := &gate{w: w, header: w.Header().Clone()}
	done := make(chan error, 1)
	go func() { done <- guarded(func() error { return handle(g, r) }) }()
	select {
	case err := <-done:
		return err
	case <-r.Context().Done():
	}
	if g.shut() {
		return fmt.Errorf("no end of %s %s: %w", rt.method, rt.path, r.Context().Err())
	}
	return <-done // the answer has begun: the client alone holds it up, and has a limit of its own
}

// guarded turns a panic into an error: in a goroutine a panic would end the program.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return do()
}

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// gate lets either the handler answer, or the one that waited for it in vain: the first stays the only one.
type gate struct {
	w      http.ResponseWriter
	header http.Header // the handler's until it answers

	account *account // of a read, nil of others; the handler's

	mu        sync.Mutex
	closed    bool // the handler is too late
	answering bool // the handler has begun
}

func (g *gate) Header() http.Header { return g.header }

func (g *gate) WriteHeader(status int) {
	if g.enter() {
		g.w.WriteHeader(status)
	}
}

func (g *gate) Write(b []byte) (int, error) {
	if !g.enter() {
		return 0, http.ErrHandlerTimeout
	}
	if g.account != nil {
		g.account.hold(int64(len(b)))
	}
	return g.w.Write(b)
}

// SetReadDeadline serves http.ResponseController. A late handler must not touch the connection of the next
// request.
func (g *gate) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return http.ErrHandlerTimeout
	}
	return http.NewResponseController(g.w).SetReadDeadline(t)
}

// enter says whether the handler may write.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if !g.answering {
		g.answering = true
		maps.Copy(g.w.Header(), g.header)
		if g.account != nil {
			g.account.settle()
		}
	}
	return true
}

// shut keeps the handler from answering, unless it has begun.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = !g.answering
	return g.closed
}
