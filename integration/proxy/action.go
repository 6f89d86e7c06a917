package proxy

import "time"

// Action says how the proxy must treat the bytes and the answer at a match.
type Action struct {
	answers answers
	until   []byte
	cut     bool
	hold    time.Duration
}

// answers says how the proxy treats the upstream's bytes.
type answers int

const (
	forwarded answers = iota
	dropped           // the bytes are dropped until the connection ends
	lost              // the bytes are dropped until the answer is complete; then the connection breaks
)

// Pass forwards without any fault.
func Pass() Action { return Action{} }

// Cut breaks the connection right after the match. The upstream gets the matched bytes and then an
// end, the client a reset.
func Cut() Action { return Action{cut: true, answers: dropped} }

// BlackHole forwards the request and drops all later answers on this connection. The connection
// stays open until one side closes it.
func BlackHole() Action { return Action{answers: dropped} }

// CutAtAnswer forwards the request and drops the upstream's answer. When the answer contains the bytes in until, the
// connection breaks: the upstream has executed the request, and the client does not know. An empty until means the
// first byte of the answer.
func CutAtAnswer(until []byte) Action { return Action{answers: lost, until: until} }

// Delay holds the matched bytes, and all later bytes of this connection, for d.
func Delay(d time.Duration) Action { return Action{hold: d} }
