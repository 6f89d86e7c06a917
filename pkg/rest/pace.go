package rest

import (
	"net/http"
	"time"
)

const (
	// writeGrace is how far a client may fall short of the rate.
	writeGrace = 10 * time.Second

	// writeStep is how much is written at a time: each step has a deadline of its own.
	writeStep = 32 << 10
)

// pace disconnects clients that take an answer too slowly, by deadlines that move as bytes are sent. Only time spent
// waiting for the client counts. It belongs to one connection and is not safe for concurrent use.
type pace struct {
	control *http.ResponseController // without effect in tests, which have no connection
	rate    int64                    // bytes a second
	whole   time.Duration            // the client's time for an answer, unless endAt sets more
	until   time.Time                // the end of that time; zero: the answer has not started
	late    time.Duration            // by how much the client is late
}

func newPace(w http.ResponseWriter, rate int64, whole time.Duration) *pace {
	p := &pace{control: http.NewResponseController(w), rate: rate, whole: whole}
	_ = p.control.SetWriteDeadline(time.Time{}) // the connection's last answer left a deadline
	return p
}

// begin starts the client's time for the answer.
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
	at := time.Now().Add(writeGrace - p.late + cost)
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
		p.late = max(0, p.late+time.Since(began)-cost)
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}
