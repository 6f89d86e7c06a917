package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// sessions opens connections whose sessions last a minute, and keeps the broker's end of each connection.
type sessions struct {
	mu      sync.Mutex
	brokers []net.Conn
	err     error         // error of every sign-in; nil: sign-ins succeed
	takes   time.Duration // how long every sign-in takes
}

func (s *sessions) dial(ctx context.Context) (signedIn, error) {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return signedIn{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return signedIn{}, s.err
	}
	ours, theirs := net.Pipe()
	s.brokers = append(s.brokers, theirs)
	return signedIn{Conn: ours, ends: time.Now().Add(time.Minute)}, nil
}

func (s *sessions) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *sessions) slow(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

// broker returns the broker's end of the n-th connection that was opened, from 0.
func (s *sessions) broker(n int) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.brokers[n]
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.brokers)
}

func open(t *testing.T) (*sessions, net.Conn) {
	t.Helper()
	s := &sessions{}
	conn, err := openSession(t.Context(), s.dial)
	check.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn
}

func frame(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// exchange writes b at one end of a connection and checks that the other end receives b.
func (s *sessions) exchange(t *testing.T, from, to io.ReadWriter, b []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(b)
		sent <- err
	}()
	got := make([]byte, len(b))
	_, err := io.ReadFull(to, got)
	check.NoError(t, err)
	check.NoError(t, <-sent)
	check.Equal(t, string(got), string(b), "bytes")
}

// The connection is replaced before the broker's session ends, between two requests.
func TestSession_IsReplacedBetweenRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, conn := open(t)
		first, second := frame("first"), frame("second")
		s.exchange(t, conn, s.broker(0), first[:2])
		<-time.After(55 * time.Second)
		check.Equal(t, s.count(), 2, "connections")
		s.exchange(t, conn, s.broker(0), first[2:]) // the rest of a request goes over the first connection
		s.exchange(t, conn, s.broker(0), second)    // an answer is due, so this request goes over the first connection too
		s.exchange(t, s.broker(0), conn, frame("one"))
		s.exchange(t, s.broker(0), conn, frame("two"))

		<-time.After(10 * time.Second) // waits until the first session has ended
		check.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		s.exchange(t, conn, s.broker(1), frame("third"))
		_, err := s.broker(0).Read(make([]byte, 1))
		check.Is(t, err, io.EOF, "the first connection")
		var late net.Error
		_, err = conn.Read(make([]byte, 1))
		check.True(t, errors.As(err, &late) && late.Timeout(), "read = %v, want the deadline that was set before", err)
	})
}

// When no new connection can be opened, the old connection sends requests until its session ends, and none afterwards.
func TestSession_EndsWhenSignInFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, conn := open(t)
		away := errors.New("the token endpoint is away")
		s.fail(away)
		<-time.After(59 * time.Second)
		s.exchange(t, conn, s.broker(0), frame("request"))
		s.exchange(t, s.broker(0), conn, frame("answer"))
		<-time.After(2 * time.Second)
		n, err := conn.Write(frame("too late"))
		check.Is(t, err, errSessionEnded, "write")
		check.True(t, n == 0 && strings.Contains(err.Error(), away.Error()), "wrote %d, %v, want the reason", n, err)

		s.fail(nil)
		<-time.After(2 * time.Second)
		s.exchange(t, conn, s.broker(1), frame("request"))
	})
}

func TestUnusedPart(t *testing.T) {
	t.Parallel()
	for lifetime, want := range map[time.Duration]time.Duration{3 * time.Second: 300 * time.Millisecond, 20 * time.Second: 2 * time.Second, time.Hour: 2 * time.Second} {
		check.Equal(t, unusedPart(lifetime), want, "unused part of "+lifetime.String())
	}
}

// When the process was suspended until the session had ended, the timer for the new connection is late. A request
// then waits for the new connection.
func TestSession_TimerIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, conn := open(t)
		conn.(*session).timer.Stop()
		<-time.After(61 * time.Second)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, err := conn.Write(frame("request"))
			check.NoError(t, err)
		}()
		synctest.Wait()
		check.Require(t, s.count() == 2, "connections = %d, want 2", s.count())
		_, err := io.ReadFull(s.broker(1), make([]byte, len(frame("request"))))
		check.NoError(t, err)
		<-sent
	})
}

// A request after the end of the session waits until a new connection is open and all answers that are due on the old
// connection have arrived. It does not wait longer than its own time limit.
func TestSession_RequestWaitsForTheNextConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, conn := open(t)
		s.slow(9 * time.Second)
		<-time.After(50 * time.Second) // the sign-in has begun
		s.exchange(t, conn, s.broker(0), frame("first"))
		<-time.After(10*time.Second + time.Millisecond)
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write(frame("second"))
			sent <- err
		}()
		synctest.Wait()
		check.Equal(t, len(sent), 0, "requests that wait no more")
		s.exchange(t, s.broker(0), conn, frame("answer"))
		synctest.Wait()
		got := make([]byte, len(frame("second")))
		check.Must(io.ReadFull(s.broker(1), got))(t)
		check.NoError(t, <-sent)
		s.exchange(t, s.broker(1), conn, frame("answer"))

		s.slow(time.Hour)
		<-time.After(time.Minute)
		check.NoError(t, conn.SetWriteDeadline(time.Now().Add(2*time.Second)))
		began := time.Now()
		check.Is(t, check.Err(conn.Write(frame("third"))), errSessionEnded, "write")
		check.True(t, time.Since(began) <= 2*time.Second, "waited for %s", time.Since(began))
	})
}

// A request after the end of the session waits for the new connection's sign-in that began before the end.
func TestSession_RequestWaitsForTheSignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, conn := open(t)
		s.fail(errors.New("away"))
		<-time.After(58 * time.Second)
		s.slow(5 * time.Second)
		s.fail(nil)
		<-time.After(2*time.Second + time.Millisecond)
		check.Equal(t, s.count(), 1, "connections")
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write(frame("request"))
			sent <- err
		}()
		<-time.After(5 * time.Second)
		check.Equal(t, s.count(), 2, "connections")
		check.Must(io.ReadFull(s.broker(1), make([]byte, len(frame("request")))))(t)
		check.NoError(t, <-sent)
	})
}

func TestSession_ClosesAllItsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, conn := open(t)
		<-time.After(55 * time.Second)
		check.NoError(t, conn.Close())
		<-time.After(time.Hour)
		check.Equal(t, s.count(), 2, "connections")
		for n := range 2 {
			_, err := s.broker(n).Read(make([]byte, 1))
			check.Is(t, err, io.EOF, "read")
		}
	})
}

func TestSession_WithoutEndIsTheConnectionItself(t *testing.T) {
	t.Parallel()
	ours, _ := net.Pipe()
	conn, err := openSession(t.Context(), func(context.Context) (signedIn, error) { return signedIn{Conn: ours}, nil })
	check.NoError(t, err)
	check.True(t, conn == ours, "got %T", conn)
}

// However two frames are cut into three pieces, the counts of the frames are the same.
func TestFrames(t *testing.T) {
	t.Parallel()
	all := append(frame("hello"), frame("")...)
	for i := range len(all) + 1 {
		for j := i; j <= len(all); j++ {
			var f frames
			var began, ended int
			for _, part := range [][]byte{all[:i], all[i:j], all[j:]} {
				b, e := f.scan(part)
				began, ended = began+b, ended+e
			}
			check.True(t, began == 2 && ended == 2 && f.between(), "cut at %d and %d: %d began, %d ended", i, j, began, ended)
		}
	}
}
