package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// patience limits every wait, and is far longer than any wait takes.
const patience = time.Minute

// asker is a server that answers each line with "re: " and the line, and counts the lines.
type asker struct {
	t     *testing.T
	addr  string
	lines atomic.Int64
	ended chan error // how each connection ended
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	a := &asker{t: t, addr: listener.Addr().String(), ended: make(chan error, 100)}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go a.serve(conn)
		}
	}()
	return a
}

func (a *asker) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		a.lines.Add(1)
		_, _ = io.WriteString(conn, "re: "+lines.Text()+"\n") // fails, without harm, if the client is gone
	}
	a.ended <- lines.Err()
}

// wantLines waits until the server has read n lines.
func (a *asker) wantLines(n int64) {
	a.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); a.lines.Load() < n; {
		select {
		case <-tick.C:
		case <-end:
			a.t.Fatalf("the upstream read %d lines, want %d", a.lines.Load(), n)
		}
	}
	if got := a.lines.Load(); got != n {
		a.t.Errorf("the upstream read %d lines, want %d", got, n)
	}
}

func newProxy(t *testing.T, to string, matcher func() Matcher) *Proxy {
	t.Helper()
	p, err := Listen(matcher)
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	p.To(to)
	return p
}

type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	check.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	check.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatalf("send %q: %v", text, err)
	}
}

func (c *client) want(answer string) {
	c.t.Helper()
	got, err := c.in.ReadString('\n')
	if err != nil || got != answer+"\n" {
		c.t.Fatalf("answer %q, %v, want %q", got, err, answer)
	}
}

// wantBroken checks that the connection to the proxy ends soon, and that no bytes arrive before the end.
func (c *client) wantBroken() {
	c.t.Helper()
	got, err := c.in.ReadString('\n')
	if err == nil || got != "" || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("answer %q, %v, want a broken connection", got, err)
	}
}

// wantSilence checks that no bytes arrive for a moment, and that the connection stays open.
func (c *client) wantSilence() {
	c.t.Helper()
	check.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	got, err := c.in.ReadByte()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("answer %q, %v, want silence", got, err)
	}
	check.NoError(c.t, c.conn.SetDeadline(time.Now().Add(patience)))
}

// always makes the proxy choose the same action at each match. It returns a counter of the matches.
func always(p *Proxy, a Action) *atomic.Int64 {
	var n atomic.Int64
	p.Decide(func(string) Action {
		n.Add(1)
		return a
	})
	return &n
}

func TestForwardsBothWays(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	c := dial(t, newProxy(t, server.addr, nil))
	large := strings.Repeat("x", 50_000)
	for _, line := range []string{"one", "two", large} {
		c.send(line + "\n")
		c.want("re: " + line)
	}
}

func TestAClientThatLeavesIsSeenToLeave(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	c := dial(t, newProxy(t, server.addr, nil))
	c.send("one\n")
	c.want("re: one")
	c.conn.Close()
	select {
	case err := <-server.ended:
		check.True(t, err == nil, "the upstream's connection ended with %v, want a plain end", err)
	case <-time.After(patience):
		t.Error("the upstream's connection is still open")
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, Bytes([]byte("two\n")))
	n := always(p, Cut())
	c := dial(t, p)
	c.send("one\n")
	c.want("re: one")
	c.send("two\nthree\n")
	c.wantBroken()
	server.wantLines(2) // the server got the bytes before the cut, and not the bytes after it
	if n.Load() != 1 {
		t.Errorf("%d matches, want 1", n.Load())
	}
}

func TestCutAfterSoManyBytes(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, After(len("one\ntwo\n")))
	always(p, Cut())
	c := dial(t, p)
	c.send("one\ntw")
	c.want("re: one")
	c.send("o\nthree\n")
	c.wantBroken()
	server.wantLines(2)
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, Bytes([]byte("two\n")))
	always(p, BlackHole())
	c := dial(t, p)
	c.send("one\n")
	c.want("re: one")
	c.send("two\nthree\n")
	server.wantLines(3)
	c.wantSilence()
	other := dial(t, p)
	other.send("one\n")
	other.want("re: one") // the action applies to one connection only
}

func TestCutAtAnswer(t *testing.T) {
	t.Parallel()
	t.Run("AtItsFirstByte", func(t *testing.T) {
		t.Parallel()
		server := newAsker(t)
		p := newProxy(t, server.addr, Bytes([]byte("two\n")))
		always(p, CutAtAnswer(nil))
		c := dial(t, p)
		c.send("one\n")
		c.want("re: one")
		c.send("two\n")
		c.wantBroken()
		server.wantLines(2)
	})
	t.Run("NotBeforeItIsComplete", func(t *testing.T) {
		t.Parallel()
		server := newAsker(t)
		p := newProxy(t, server.addr, Bytes([]byte("one\n")))
		always(p, CutAtAnswer([]byte("two\n")))
		c := dial(t, p)
		c.send("one\n")
		server.wantLines(1)
		c.wantSilence()
		c.send("two\n")
		c.wantBroken()
		server.wantLines(2)
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, Bytes([]byte("one\n")))
	always(p, Delay(300*time.Millisecond))
	c := dial(t, p)
	c.send("one\n")
	c.wantSilence()
	c.want("re: one")
}

func TestDecideMayStopAndGoOn(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, Bytes([]byte("\n")))
	reached, release := make(chan struct{}), make(chan struct{})
	p.Decide(func(string) Action {
		close(reached)
		<-release
		return Pass()
	})
	c := dial(t, p)
	c.send("one\n")
	<-reached
	c.wantSilence()
	server.wantLines(0)
	p.Decide(nil)
	close(release)
	c.want("re: one")
}

func TestCutAll(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, nil)
	clients := []*client{dial(t, p), dial(t, p)}
	for _, c := range clients {
		c.send("one\n")
		c.want("re: one")
	}
	if n := p.CutAll(); n != 2 {
		t.Errorf("CutAll() = %d, want 2", n)
	}
	for _, c := range clients {
		c.wantBroken()
	}
	again := dial(t, p)
	again.send("two\n")
	again.want("re: two")
}

func TestCloseEndsWhatIsHeldUp(t *testing.T) {
	t.Parallel()
	server := newAsker(t)
	p := newProxy(t, server.addr, Bytes([]byte("\n")))
	always(p, Delay(time.Hour))
	c := dial(t, p)
	c.send("one\n")
	c.wantSilence()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	c.wantBroken()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Close does not return")
	}
	server.wantLines(0)
}

func TestWithoutUpstreamConnectionsBreak(t *testing.T) {
	t.Parallel()
	p := newProxy(t, "", nil)
	for _, to := range []string{"", "127.0.0.1:1"} { // port without a listener
		p.To(to)
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			continue // the proxy broke the connection before the client knew that it was connected
		}
		c := &client{t, conn, bufio.NewReader(conn)}
		check.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		c.wantBroken()
		conn.Close()
	}
}
