package rest

import (
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// carryOut runs a route's handler, as guardedBy made it, and returns what it returned. A handler that
// is still at work when its time is over is left behind: a database that went
// silent holds up its driver whatever the context says, and the client must not
// wait for that. What it writes later goes nowhere.
func (s *Server) carryOut(rt route, handle handler, w http.ResponseWriter, r *http.Request) error {
	if rt.kind == probe || rt.kind == work || rt.kind == stream { // probes and streams limit themselves, and the drain ends work
		return handle(w, r)
	}
	g := &gate{w: w, header: w.Header().Clone()}
	done := make(chan error, 1)
	go func() { done <- guarded(handle, g, r) }()
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

// guarded turns a handler's panic into an error: it runs in a goroutine, where a
// panic would end the program.
func guarded(handle handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return handle(w, r)
}

// panicked is the error of a panic, for use where it was recovered.
func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// gate decides who answers: the handler, which has it as its writer, or the one
// who waited for the handler in vain. Whoever comes first stays the only one.
type gate struct {
	w      http.ResponseWriter
	header http.Header // the handler's until it answers

	account *account // of a read, nil of others; the handler's

	mu        sync.Mutex
	closed    bool // the handler is too late
	answering bool // the handler has begun
}

// Header returns what becomes the answer's header if the handler answers.
func (g *gate) Header() http.Header { return g.header }

// WriteHeader begins the handler's answer, unless it is too late.
func (g *gate) WriteHeader(status int) {
	if g.enter() {
		g.w.WriteHeader(status)
	}
}

// Write goes on with the handler's answer, unless it is too late.
func (g *gate) Write(b []byte) (int, error) {
	if !g.enter() {
		return 0, http.ErrHandlerTimeout
	}
	if g.account != nil {
		g.account.hold(int64(len(b)))
	}
	return g.w.Write(b)
}

// SetReadDeadline serves http.ResponseController. A handler that is too late
// must not touch the connection: it may be at the next request already.
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
