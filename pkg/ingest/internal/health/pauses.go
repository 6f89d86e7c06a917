package health

import "time"

// A Pauses with maxPauses answers over at least patience has no end in sight.
const (
	maxPauses = 10
	patience  = time.Minute
)

// Pauses counts answers of a broker that contained only the request for a pause. The zero value has none.
type Pauses struct {
	n     int
	since time.Time // time of the first of them
}

// Add counts one more answer. It reports whether there were so many, for so long, that the next answer will probably be
// the same.
func (p *Pauses) Add() (endless bool) {
	if p.n++; p.n == 1 {
		p.since = time.Now()
	}
	return p.n >= maxPauses && time.Since(p.since) >= patience
}

// Any reports whether an answer was counted since the last Reset.
func (p *Pauses) Any() bool { return p.n > 0 }

// Reset forgets the answers.
func (p *Pauses) Reset() { p.n = 0 }
