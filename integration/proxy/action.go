package proxy

import "time"

// Action is what is done at a match.
type Action struct {
	answers answers
	until   []byte
	cut     bool
	hold    time.Duration
}

// answers says what becomes of the upstream's bytes.
type answers int

const (
	forwarded answers = iota
	dropped           // for as long as the connection lives
	lost              // until the answer is complete; then the connection breaks
)

// Pass does nothing.
func Pass() Action { return Action{} }

// Cut breaks the connection right behind the match. The upstream gets the
// matched bytes and then an end, the client a reset.
func Cut() Action { return Action{cut: true, answers: dropped} }

// BlackHole lets the request through and, on this connection, no answer any
// more. The connection stays open until somebody closes it.
func BlackHole() Action { return Action{answers: dropped} }

// CutAtAnswer lets the request through and throws away what the upstream
// answers. When that holds until, the connection breaks: the upstream has done
// what it was asked, and the client does not know. An empty until means the
// answer's first byte.
func CutAtAnswer(until []byte) Action { return Action{answers: lost, until: until} }

// Delay holds the matched bytes, and what follows on this connection, for d.
func Delay(d time.Duration) Action { return Action{hold: d} }
