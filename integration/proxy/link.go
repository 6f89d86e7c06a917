package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// farewell is how long the upstream may still work on the requests of a client whose connection was cut. Then the proxy
// breaks the connection to the upstream.
const farewell = 10 * time.Second

// link is a client's connection together with its connection to the upstream.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	matcher        Matcher
	up, down       pacer
	gone           chan struct{} // closed when the client's connection is over

	mu      sync.Mutex // guards the fields below
	answers answers
	until   []byte
	answer  []byte // the end of the bytes dropped so far; deliver searches it for the bytes in until
	over    bool   // whether the client's connection is over
}

// run forwards bytes from the client to the server and from the server to the client, and returns when neither
// direction is open any more.
func (l *link) run() {
	var down sync.WaitGroup
	down.Go(l.download)
	l.upload()
	down.Wait()
}

// abort breaks the connection to the client and the connection to the server at once.
func (l *link) abort() {
	l.end()
	reset(l.client)
	reset(l.server)
}

// end remembers that the client's connection is over, and ends every call of wait.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.gone)
	}
}

// cut resets the client's connection. The upstream may not have read all bytes yet, so the connection to it is not
// reset: it ends after these bytes.
func (l *link) cut() {
	l.end()
	reset(l.client)
	_ = l.server.SetReadDeadline(time.Now().Add(farewell))
	_ = l.server.CloseWrite()
}

// upload forwards the client's bytes, and performs the action that the proxy chooses for each match.
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

// pass forwards bytes to the upstream. As the action says, it first waits or begins to drop answers, and at the end
// cuts the connection. It returns false when the connection has ended.
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

// wait waits for d. It returns false if the client's connection is over before the end of this time.
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

// late is a piece of an answer, and the time at which the slow network delivers it to the client.
type late struct {
	bytes []byte
	due   time.Time
}

// underWay is the maximum number of pieces of answers that wait in one connection until they are due. When so many
// wait, the proxy reads no more from the upstream.
const underWay = 256

// download forwards the bytes from the upstream to the client, unless an action says that they are dropped.
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
		_ = l.server.Close() // only this side is closed, so that the client does not even receive an end
		return
	}
	l.abort()
}

// receive reads pieces of answers from the upstream until the connection ends, and then closes the channel pieces.
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

// deliver forwards, drops or loses a piece of an answer, as the current action says. It returns false when the
// connection to the client must be broken now.
func (l *link) deliver(b []byte) bool {
	l.mu.Lock()
	over, how := l.over, l.answers
	whole := false
	if how == lost {
		l.answer = append(l.answer, b...)
		whole = len(l.until) == 0 || bytes.Contains(l.answer, l.until)
		// The bytes in l.until may be split over two pieces of the answer. Therefore l.answer keeps the last bytes of
		// this piece.
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
