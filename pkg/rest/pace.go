package rest

import (
	"net/http"
	"time"
)

const (
	// writeGrace is how late a client may be at the rate.
	writeGrace = 10 * time.Second

	// writeStep is how much is written at a time: each step has a deadline of its own.
	writeStep = 32 << 10
)

// pace disconnects clients that take an answer too slowly, by deadlines that move as bytes are sent. Only the
// wait for the client counts. It belongs to one connection and is not safe for concurrent use.
type pace struct {
	control *http.ResponseController // tests answer without a connection and have no deadlines
	rate    int64                    // bytes a second
	whole   time.Duration            // what the client has for an answer, unless endAt says more
	until   time.Time                // when that is over; zero: the answer has not begun
	behind  time.Duration            // how far the client is
}

func (s *Server) newPace(w http.ResponseWriter) *pace {
	p := &pace{control: http.NewResponseController(w), rate: s.cfg.MinWriteRate, whole: s.cfg.WriteTimeout}
	_ = p.control.SetWriteDeadline(time.Time{}) // the connection's last answer left its own
	return p
}

// begin starts the time that the client has for the answer.
func (p *pace) begin() {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.whole)
	}
	p.allow(writeStep)
}

// endAt sets the deadline of the whole answer; the zero time clears it.
func (p *pace) endAt(at time.Time) { p.until = at }

// allow extends the deadline by n bytes, and returns their time at the rate.
func (p *pace) allow(n int) time.Duration {
	cost := time.Duration(n) * time.Second / time.Duration(p.rate)
	at := time.Now().Add(writeGrace - p.behind + cost)
	if !p.until.IsZero() && p.until.Before(at) {
		at = p.until
	}
	_ = p.control.SetWriteDeadline(at)
	return cost
}

func (p *pace) write(w http.ResponseWriter, b []byte) (written int, err error) {
	for {
		part := b[written:min(written+writeStep, len(b))]
		cost, began := p.allow(len(part)), time.Now()
		n, err := w.Write(part)
		p.behind = max(0, p.behind+time.Since(began)-cost)
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}
