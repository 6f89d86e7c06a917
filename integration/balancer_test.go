package integration_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// balancer forwards connections in turn to the programs that are ready, as a Kubernetes Service
// does: it balances connections, not requests, asks /readyz repeatedly, and never closes an open
// connection.
type balancer struct {
	listener net.Listener
	running  sync.WaitGroup
	stop     chan struct{}

	mu    sync.Mutex // guards the fields below
	all   []*process
	ready []*process
	turn  int
	open  map[net.Conn]bool
	taken map[string]int // number of connections that each program got
}

func newBalancer(t *testing.T, first ...*process) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	b := &balancer{
		listener: listener, all: first, ready: slices.Clone(first), stop: make(chan struct{}),
		open: map[net.Conn]bool{}, taken: map[string]int{},
	}
	b.running.Go(b.accept)
	b.running.Go(b.probe)
	t.Cleanup(b.close)
	return b
}

// url returns the base URL for clients.
func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

// add adds a program to the balancer, which forwards connections to it once the program is ready.
func (b *balancer) add(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, p)
}

// withdraw stops new connections to a program, as Kubernetes does when the deletion of a pod
// begins, before SIGTERM.
func (b *balancer) withdraw(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	same := func(other *process) bool { return other == p }
	b.all = slices.DeleteFunc(slices.Clone(b.all), same)
	b.ready = slices.DeleteFunc(slices.Clone(b.ready), same)
}

// has reports whether a program gets connections.
func (b *balancer) has(p *process) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.ready, p)
}

// connections returns how many programs got connections, and the smallest number of connections that one of these
// programs got.
func (b *balancer) connections() (programs, fewest int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.taken {
		if programs == 0 || n < fewest {
			fewest = n
		}
		programs++
	}
	return programs, fewest
}

func (b *balancer) close() {
	close(b.stop)
	_ = b.listener.Close()
	b.mu.Lock()
	for conn := range b.open {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.running.Wait()
}

func (b *balancer) probe() {
	for {
		select {
		case <-b.stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		b.mu.Lock()
		all := slices.Clone(b.all)
		b.mu.Unlock()
		ready := slices.DeleteFunc(all, func(p *process) bool { return !answersReady(p) })
		b.mu.Lock()
		b.ready = slices.DeleteFunc(ready, func(p *process) bool { return !slices.Contains(b.all, p) })
		b.mu.Unlock()
	}
}

// answersReady asks /readyz on a new connection, as a kubelet does.
func answersReady(p *process) bool {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(p.url + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (b *balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return // the balancer's listener is closed
		}
		b.running.Go(func() { b.forward(client) })
	}
}

func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	at := b.next()
	if at == "" {
		return
	}
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), "tcp", at)
	if err != nil {
		return
	}
	defer server.Close()
	if !b.keep(client, server) {
		return
	}
	defer b.forget(client, server)
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(server, client) // the end of one connection also ends the connection to the other side
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	up.Wait()
}

// next returns the address of the next program in turn, "" when no program is ready.
func (b *balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return ""
	}
	b.turn++
	p := b.ready[b.turn%len(b.ready)]
	b.taken[p.url]++
	return strings.TrimPrefix(p.url, "http://")
}

func (b *balancer) keep(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.stop:
		return false
	default:
	}
	for _, c := range conns {
		b.open[c] = true
	}
	return true
}

func (b *balancer) forget(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		delete(b.open, c)
	}
}

// patron is a client that keeps its connections open. All of its requests may be repeated safely.
type patron struct {
	base   string
	client *http.Client
}

func newPatron(b *balancer) *patron {
	return &patron{base: b.url(), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Second}}}
}

// ask sends a request. It returns the error of the request or, if the status is not 200, the answer; it returns ""
// after a 200.
func (p *patron) ask(ctx context.Context, method, path, key string) string {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d %.300s", res.StatusCode, body)
	}
	return ""
}
