package rest

import (
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// carryOut runs a route's handler and returns its error. It does not wait for a handler that exceeds the request's
// time, and drops the answer of such a handler. A driver may ignore its context and wait for a silent database; the
// client must not have to wait as well.
func carryOut(rt route, handle handler, w http.ResponseWriter, r *http.Request) error {
	// Probes and streams have time limits of their own; the drain ends requests of kind work.
	if rt.kind == probe || rt.kind == work || rt.kind == stream {
		return handle(w, r)
	}
	g := &responseGate{w: w, header: w.Header().Clone()}
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
	return <-done // the handler has started to answer, so only the client can delay it now, for whom pace has a limit
}

// guarded returns a panic of do as an error, because a panic in a goroutine would end the program.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return do()
}

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// responseGate makes sure that only one of two writes the answer: the handler, or carryOut after the request's
// timeout. The first of them that starts to write writes it.
type responseGate struct {
	w      http.ResponseWriter
	header http.Header // headers that the handler has set before it answers

	account *account // account of a read, which the handler uses; nil for other requests

	mu        sync.Mutex
	closed    bool // the handler was too late, and must not answer any more
	answering bool // the handler has started to write the answer
}

func (g *responseGate) Header() http.Header { return g.header }

func (g *responseGate) WriteHeader(status int) {
	if g.enter() {
		g.w.WriteHeader(status)
	}
}

func (g *responseGate) Write(b []byte) (int, error) {
	if !g.enter() {
		return 0, http.ErrHandlerTimeout
	}
	if g.account != nil {
		g.account.hold(int64(len(b)))
	}
	return g.w.Write(b)
}

// SetReadDeadline is called by http.ResponseController. A late handler must not change the connection, on which the
// next request may already arrive.
func (g *responseGate) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return http.ErrHandlerTimeout
	}
	return http.NewResponseController(g.w).SetReadDeadline(t)
}

// enter reports whether the handler may write the answer, and records that it has started to.
func (g *responseGate) enter() bool {
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

// shut prevents the handler from answering, unless the handler has started to answer.
func (g *responseGate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = !g.answering
	return g.closed
}
