// Package proxy forwards connections to a server and injects faults: it loses answers, cuts
// connections and delays requests at chosen positions of the client's stream, and can slow
// everything down. It understands just enough of the protocols of Kafka and PostgreSQL to find
// those positions.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// dialTimeout limits connecting to the upstream. After it, the client's connection is reset.
const dialTimeout = 5 * time.Second

// Proxy forwards connections from its own port to an upstream. Its methods are safe for concurrent
// use.
type Proxy struct {
	listener net.Listener
	matcher  func() Matcher
	running  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	upstream string
	decide   func(what string) Action
	slowness Slowness
	links    map[*link]struct{}
	closed   bool
}

// Listen opens a free port of the loopback address and returns the proxy that listens there. For each connection, it
// calls matcher to make the Matcher of the client's bytes; a nil matcher matches nothing. Until the first call of To,
// the proxy accepts connections and closes them at once.
func Listen(matcher func() Matcher) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if matcher == nil {
		matcher = Nothing
	}
	p := &Proxy{listener: listener, matcher: matcher, links: map[*link]struct{}{}}
	p.running.Go(p.serve)
	return p, nil
}

// Addr returns the address for clients, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port returns the port of Addr.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// To sets the upstream of later connections, as host:port; with an empty address, later connections are closed at once.
func (p *Proxy) To(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Decide sets the function that chooses the action at each match, for open and later connections. Its argument is the
// name that the matcher gave to the match. The request waits while decide works; several connections may call decide
// concurrently. nil lets everything pass.
func (p *Proxy) Decide(decide func(what string) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
}

// CutAll breaks every open connection, and returns the number of these connections.
func (p *Proxy) CutAll() int {
	open := p.open()
	for _, l := range open {
		l.abort()
	}
	return len(open)
}

// Close stops listening, breaks open connections and returns when all of the proxy's goroutines
// have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.CutAll()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := make([]*link, 0, len(p.links))
	for l := range p.links {
		open = append(open, l)
	}
	return open
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.connect(client.(*net.TCPConn)) })
	}
}

// connect serves one client until its connection ends.
func (p *Proxy) connect(client *net.TCPConn) {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	if upstream == "" {
		reset(client)
		return
	}
	server, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(context.Background(), "tcp", upstream)
	if err != nil {
		reset(client) // the client's connection breaks at once
		return
	}
	l := &link{proxy: p, client: client, server: server.(*net.TCPConn), matcher: p.matcher(), gone: make(chan struct{})}
	if !p.keep(l) {
		l.abort()
		return
	}
	defer p.forget(l)
	l.run()
}

func (p *Proxy) keep(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) action(what string) Action {
	p.mu.Lock()
	decide := p.decide
	p.mu.Unlock()
	if decide == nil {
		return Pass()
	}
	return decide(what)
}

// reset closes a connection so that the other side gets an error, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
