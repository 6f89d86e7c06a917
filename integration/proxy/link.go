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

	mu      sync.Mutex // guards what follows
	answers answers
	until   []byte
	answer  []byte        // what was lost of the present answer
	over    bool          // the client is gone
	aborted chan struct{} // closed by abort; nil before somebody waits
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
	l.mu.Lock()
	l.over = true
	if l.aborted != nil {
		close(l.aborted)
		l.aborted = nil
	}
	l.mu.Unlock()
	reset(l.client)
	reset(l.server)
}

// cut resets the client. The upstream keeps what it got, for it may not have
// read all of that yet, and sees an end behind it.
func (l *link) cut() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
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
	if _, err := l.server.Write(b); err != nil {
		l.abort()
		return false
	}
	if a.cut {
		l.cut()
	}
	return !a.cut
}

// wait is false when the link was aborted meanwhile.
func (l *link) wait(d time.Duration) bool {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return false
	}
	aborted := make(chan struct{})
	l.aborted = aborted
	l.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-aborted:
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = nil
	return !l.over
}

// download carries the upstream's bytes as far as they may go.
func (l *link) download() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 && !l.deliver(buffer[:n]) {
			l.cut()
		}
		if err != nil {
			break
		}
	}
	if l.dropping() {
		_ = l.server.Close() // the client is to hear nothing, not even an end
		return
	}
	l.abort()
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
	_, err := l.client.Write(b)
	return err == nil
}

func (l *link) dropping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers == dropped && !l.over
}
