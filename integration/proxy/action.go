package proxy

import "time"

// Action says what the proxy does when the matcher has found a match in the client's bytes: whether it delays the
// matched bytes, breaks the connection, or drops the server's answer.
type Action struct {
	answers answers
	until   []byte
	cut     bool
	hold    time.Duration
}

// answers says what the proxy does with bytes from the upstream, which is the server behind the proxy.
type answers int

const (
	forwarded answers = iota
	dropped           // the bytes are dropped until the connection ends
	lost              // the bytes are dropped until the answer is complete; then the connection breaks
)

// Pass returns an action that forwards everything without a fault.
func Pass() Action { return Action{} }

// Cut breaks the connection right after the matched bytes. The upstream gets these bytes and then the end of the
// connection; the client's connection is reset.
func Cut() Action { return Action{cut: true, answers: dropped} }

// BlackHole forwards the request and drops all later answers on this connection. When the upstream closes the
// connection, the client does not notice this until the client sends more bytes.
func BlackHole() Action { return Action{answers: dropped} }

// CutAtAnswer forwards the request and drops the upstream's answer. When the answer contains the bytes in until, the
// connection breaks: the upstream has executed the request, and the client does not know. An empty until means the
// first byte of the answer.
func CutAtAnswer(until []byte) Action { return Action{answers: lost, until: until} }

// Delay holds the matched bytes, and all later bytes of the client on this connection, for d.
func Delay(d time.Duration) Action { return Action{hold: d} }
