package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// farewell is how long an upstream whose client was cut off may go on with what
// it had been asked.
const farewell = 10 * time.Second

// link is one client's connection and its way on.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	matcher        Matcher
	up, down       pacer
	gone           chan struct{} // closed when the client is gone

	mu      sync.Mutex // guards what follows
	answers answers
	until   []byte
	answer  []byte // what was lost of the present answer
	over    bool   // the client is gone
}

// run returns when both directions are over.
func (l *link) run() {
	var down sync.WaitGroup
	down.Go(l.download)
	l.upload()
	down.Wait()
}

// abort breaks both sides at once.
func (l *link) abort() {
	l.end()
	reset(l.client)
	reset(l.server)
}

// end notes that the client is gone. Whoever waits goes on.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.gone)
	}
}

// cut resets the client. The upstream keeps what it got, for it may not have
// read all of that yet, and sees an end behind it.
func (l *link) cut() {
	l.end()
	reset(l.client)
	_ = l.server.SetReadDeadline(time.Now().Add(farewell))
	_ = l.server.CloseWrite()
}

// upload carries the client's bytes, up to each match by itself.
func (l *link) upload() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		for b := buffer[:n]; len(b) > 0; {
			end, what := l.matcher.Next(b)
			if end < 0 {
				end = len(b)
			}
			action := Pass()
			if what != "" {
				action = l.proxy.action(what)
			}
			if !l.pass(b[:end], action) {
				return
			}
			b = b[end:]
		}
		if err != nil {
			l.cut()
			return
		}
	}
}

// pass sends bytes at whose end an action is due. False means that the
// connection is over.
func (l *link) pass(b []byte, a Action) bool {
	if a.hold > 0 && !l.wait(a.hold) {
		return false
	}
	if a.answers != forwarded {
		l.mu.Lock()
		l.answers, l.until = a.answers, a.until
		l.mu.Unlock()
	}
	if !l.up.send(l.server, b, l.proxy.slow, l.wait) {
		l.abort()
		return false
	}
	if a.cut {
		l.cut()
	}
	return !a.cut
}

// wait is false when the client is gone, or goes meanwhile.
func (l *link) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.gone:
		return false
	}
}

// late is a piece of an answer and when it is to arrive.
type late struct {
	bytes []byte
	due   time.Time
}

// underWay is how many pieces of answers the network holds.
const underWay = 256

// download carries the upstream's bytes as far as they may go.
func (l *link) download() {
	pieces := make(chan late, underWay)
	go l.receive(pieces)
	for p := range pieces {
		if early := time.Until(p.due); early > 0 {
			l.wait(early)
		}
		if !l.deliver(p.bytes) {
			l.cut()
		}
	}
	if l.dropping() {
		_ = l.server.Close() // the client is to hear nothing, not even an end
		return
	}
	l.abort()
}

// receive reads what the upstream sends until its end, and closes pieces then.
func (l *link) receive(pieces chan<- late) {
	defer close(pieces)
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 {
			pieces <- late{bytes.Clone(buffer[:n]), time.Now().Add(l.proxy.slow().Latency)}
		}
		if err != nil {
			return
		}
	}
}

// deliver is false when the connection has to break now.
func (l *link) deliver(b []byte) bool {
	l.mu.Lock()
	over, how := l.over, l.answers
	whole := false
	if how == lost {
		l.answer = append(l.answer, b...)
		whole = len(l.until) == 0 || bytes.Contains(l.answer, l.until)
		// A mark that lies across two pieces needs no more than this.
		l.answer = l.answer[max(0, len(l.answer)-len(l.until)):]
	}
	l.mu.Unlock()
	if over || how == dropped {
		return true
	}
	if how == lost {
		return !whole
	}
	return l.down.send(l.client, b, l.proxy.slow, l.wait)
}

func (l *link) dropping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers == dropped && !l.over
}
