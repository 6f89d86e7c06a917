package rest

import (
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a client that needs a given time to read each written piece of an answer. A write fails when the deadline
// that the server has set passes before.
type reader struct {
	header   http.Header
	deadline time.Time
	written  int
	takes    func(n int) time.Duration
}

func (c *reader) Header() http.Header { return c.header }
func (c *reader) WriteHeader(int)     {}

func (c *reader) SetWriteDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *reader) Write(b []byte) (int, error) {
	takes, left := c.takes(len(b)), time.Until(c.deadline)
	if !c.deadline.IsZero() && left < takes {
		<-time.After(left) // this pause is in the fake time of synctest
		return 0, os.ErrDeadlineExceeded
	}
	<-time.After(takes)
	c.written += len(b)
	return len(b), nil
}

func atRate(bytes int) func(int) time.Duration {
	return func(n int) time.Duration { return time.Duration(n) * time.Second / time.Duration(bytes) }
}

// A client may fall behind the minimum rate by up to ten seconds, by one long pause or by many short ones. Once it has
// caught up, it gets all ten seconds again.
func TestPace(t *testing.T) {
	t.Parallel()
	const all = 1 << 20
	stopsAfter := func(n int) func(int) time.Duration {
		left := n
		return func(n int) time.Duration {
			if left -= n; left < 0 {
				return time.Hour
			}
			return 0
		}
	}
	pauses := func(every int, pause time.Duration) func(int) time.Duration {
		n := 0
		return func(int) time.Duration {
			if n++; n%every == 0 {
				return pause
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		takes   func(int) time.Duration
		written int           // least number of bytes that the client must get
		took    time.Duration // longest time that the answer may take
		cut     bool
	}{
		"fast":                   {atRate(100 << 20), all, time.Second, false},
		"as slow as may be":      {atRate(4 << 10), all, 256 * time.Second, false},
		"reads nothing":          {stopsAfter(0), 0, 18 * time.Second, true},
		"reads nothing more":     {stopsAfter(all / 2), all / 2, 18 * time.Second, true},
		"half as fast":           {atRate(2 << 10), 32 << 10, 48 * time.Second, true},
		"a pause and fast again": {pauses(4, 15*time.Second), all, 8 * 15 * time.Second, false},
		"pauses that add up":     {pauses(1, 12*time.Second), 64 << 10, 60 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture()
			f.cfg.WriteTimeout = time.Hour
			client, began := &reader{header: http.Header{}, takes: c.takes}, time.Now()
			p := newPace(client, f.cfg.MinWriteRate, f.cfg.WriteTimeout)
			p.begin()
			n, err := p.write(client, make([]byte, all))
			took := time.Since(began)
			if (err != nil) != c.cut || n != client.written {
				t.Errorf("%s: wrote %d of %d, %v, want it cut: %v", name, n, client.written, err, c.cut)
			}
			if n < c.written || took > c.took {
				t.Errorf("%s: %d bytes in %s, want at least %d in at most %s", name, n, took, c.written, c.took)
			}
		})
	}
}

// The time that the server needs to make the answer is not counted against the client.
func TestPace_OnlyWaitingForTheClientCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		client := &reader{header: http.Header{}, takes: atRate(4 << 10)}
		p := newPace(client, f.cfg.MinWriteRate, f.cfg.WriteTimeout)
		p.endAt(time.Now().Add(time.Hour))
		p.begin()
		for range 10 {
			<-time.After(time.Minute)
			if _, err := p.write(client, make([]byte, writeStep)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
