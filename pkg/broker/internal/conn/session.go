package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/token"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// renewTimeout is the time limit for opening a connection in the background, and for a request that waits for that.
	renewTimeout = 10 * time.Second
	// renewPause is the least time between two tries to open a connection in the background.
	renewPause = time.Second
)

// errSessionEnded means that a request was not sent, because the session had ended, or was so close to its end that the
// broker could have closed the connection.
var errSessionEnded = errors.New("kafka session has ended")

// signedIn is a connection after the sign-in.
type signedIn struct {
	net.Conn
	ends time.Time // until when requests are sent, shortly before the end of the session at the broker; zero: the session has no end
}

// session is a connection that outlives the broker's session (KIP-368), because kafka-go neither authenticates a
// connection again nor replaces the connection of a consumer group. Before the session ends, a new connection is opened
// in the background. The new connection takes the place of the old one between two requests, when no answer is due.
type session struct {
	dial func(context.Context) (signedIn, error)
	ctx  context.Context
	stop context.CancelFunc

	mu            sync.Mutex
	conn          signedIn
	next          *signedIn // the new connection, which replaces conn before the next request; nil: none is open
	renewing      bool      // a new connection is being opened
	tried         time.Time // when the last try to open the new connection began; zero: there was none
	err           error     // error of the last try to open the new connection; nil: it succeeded
	changes       wait.Broadcast
	closed        bool
	timer         *time.Timer
	readDeadline  time.Time
	writeDeadline time.Time
	requests      frames
	answers       frames
	due           int // number of requests whose answers have not been read to the end
}

// openSession opens a connection with dial. It returns the connection itself when the broker's session has no end.
func openSession(ctx context.Context, dial func(context.Context) (signedIn, error)) (net.Conn, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	if conn.ends.IsZero() {
		return conn.Conn, nil
	}
	s := &session{dial: dial, conn: conn}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(renewAfter(conn), s.renew)
	return s, nil
}

// renewAfter returns how long to wait before a connection is replaced. The new connection is opened early enough that
// further tries are possible before the broker's session ends.
func renewAfter(conn signedIn) time.Duration {
	return token.Part(time.Until(conn.ends), 0.75, 0.85)
}

// renew tries to open the connection that replaces the present one, unless another call of renew is already
// opening it.
func (s *session) renew() {
	s.mu.Lock()
	if s.renewing {
		s.mu.Unlock()
		return
	}
	s.renewing, s.tried = true, time.Now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, renewTimeout)
	defer cancel()
	next, err := s.dial(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = false
	s.changes.Notify()
	if s.closed {
		if err == nil {
			_ = next.Close()
		}
		return
	}
	if s.err = err; err != nil {
		s.timer.Reset(token.Part(renewPause, 1, 1.5))
		return
	}
	if s.next != nil {
		_ = s.next.Close()
	}
	s.next = &next
	if !next.ends.IsZero() {
		s.timer.Reset(max(renewAfter(next), renewPause))
	}
}

// Write implements net.Conn.
func (s *session) Write(b []byte) (int, error) {
	conn, err := s.beforeWrite(b)
	if err != nil {
		return 0, err
	}
	return conn.Write(b)
}

// beforeWrite returns the connection for the next bytes. When the bytes begin a request, it first replaces the current
// connection by the next one, if there is one.
func (s *session) beforeWrite(b []byte) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests.between() {
		if err := s.renewed(); err != nil {
			return nil, err
		}
	}
	began, _ := s.requests.scan(b)
	s.due += began
	return s.conn.Conn, nil
}

// renewed puts the next connection in the place of the current one when that is possible. When the current session has
// ended, it waits until the replacement is possible, and starts to open the next connection if the timer has not. The
// caller holds the lock.
func (s *session) renewed() error {
	limit := time.Now().Add(renewTimeout)
	if !s.writeDeadline.IsZero() && s.writeDeadline.Before(limit) {
		limit = s.writeDeadline
	}
	for {
		if s.next != nil && s.due == 0 {
			s.replace()
		}
		now := time.Now()
		if s.conn.ends.IsZero() || now.Before(s.conn.ends) {
			return nil
		}
		none := s.next == nil && !s.renewing
		if s.closed || !now.Before(limit) || none && s.err != nil {
			return s.ended()
		}
		if none { // the timer is late, because the process was suspended, or the session is very short
			s.timer.Reset(max(0, renewPause-time.Since(s.tried)))
		}
		changed := s.changes.Listen()
		s.mu.Unlock()
		wait.Until(s.ctx, changed, limit.Sub(now))
		s.mu.Lock()
	}
}

func (s *session) ended() error {
	if s.err != nil {
		return fmt.Errorf("%w: %w", errSessionEnded, s.err)
	}
	return errSessionEnded
}

// replace puts the next connection in the place of the current one. The caller holds the lock.
func (s *session) replace() {
	_ = s.conn.Close()
	s.conn, s.next = *s.next, nil
	_ = s.conn.SetReadDeadline(s.readDeadline)
	_ = s.conn.SetWriteDeadline(s.writeDeadline)
}

// Read implements net.Conn. Kafka-go reads only while an answer is due, so no call of Read waits on the old connection
// when it is replaced.
func (s *session) Read(b []byte) (int, error) {
	n, err := s.current().Read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.answers.scan(b[:n])
	if s.due -= ended; s.due == 0 {
		s.changes.Notify()
	}
	return n, err
}

func (s *session) current() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.Conn
}

// Close implements net.Conn.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.stop()
	s.timer.Stop()
	if s.next != nil {
		_ = s.next.Close()
	}
	return s.conn.Close()
}

// LocalAddr implements net.Conn.
func (s *session) LocalAddr() net.Addr { return s.current().LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *session) RemoteAddr() net.Addr { return s.current().RemoteAddr() }

// SetDeadline implements net.Conn.
func (s *session) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readDeadline, s.writeDeadline = t, t
	return s.conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (s *session) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readDeadline = t
	return s.conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (s *session) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeDeadline = t
	return s.conn.SetWriteDeadline(t)
}

// frames counts the requests, or the answers, in the bytes of a connection. A request or an answer is a frame: a size
// in 4 bytes, then as many bytes as the size says.
type frames struct {
	header int    // number of the 4 size bytes that were read so far
	size   uint32 // size of the frame, as far as its bytes were read
	rest   uint32 // number of bytes of the frame that are not read yet
}

// between reports whether every frame that has begun is complete.
func (f *frames) between() bool { return f.header == 0 && f.rest == 0 }

// scan follows the frames through the bytes b. It returns how many frames begin and how many frames end in b.
func (f *frames) scan(b []byte) (began, ended int) {
	for len(b) > 0 {
		if f.rest > 0 {
			n := min(uint64(f.rest), uint64(len(b)))
			b = b[n:]
			if f.rest -= uint32(n); f.rest == 0 {
				ended++
			}
			continue
		}
		if f.header == 0 {
			began++
		}
		f.size = f.size<<8 | uint32(b[0])
		b = b[1:]
		if f.header++; f.header == 4 {
			f.rest, f.header, f.size = f.size, 0, 0
			if f.rest == 0 {
				ended++
			}
		}
	}
	return began, ended
}
