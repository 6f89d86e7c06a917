package proxy

import (
	"strings"
	"testing"
	"time"
)

// long is a line that takes some time in a slow network.
var long = strings.Repeat("0123456789", 200)

// TestSlow: a slow network delays data and changes none.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		slow  Slowness
		least time.Duration // shortest allowed time until the answers to two lines have arrived
	}{
		{"Latency", Slowness{Latency: 200 * time.Millisecond}, 200 * time.Millisecond},
		{"Bandwidth", Slowness{BytesPerSecond: 20_000}, 300 * time.Millisecond}, // two lines are 4 kB in each direction
		{"Pieces", Slowness{Piece: 3}, 0},
		{"All", Slowness{Latency: 50 * time.Millisecond, BytesPerSecond: 40_000, Piece: 100}, 150 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newAsker(t)
			p := newProxy(t, server.addr, nil)
			client := dial(t, p)
			client.send("before\n") // the connection exists before the network becomes slow
			client.want("re: before")
			p.Slow(c.slow)
			began := time.Now()
			client.send("1" + long + "\n2" + long + "\n")
			client.want("re: 1" + long)
			client.want("re: 2" + long)
			if took := time.Since(began); took < c.least {
				t.Errorf("two lines took %s, want at least %s", took, c.least)
			}
			p.Slow(Slowness{})
			client.send("after\n")
			client.want("re: after")
			server.wantLines(4)
		})
	}
}

// TestSlowPieces: no write has more bytes than Piece.
func TestSlowPieces(t *testing.T) {
	t.Parallel()
	var to pieces
	var c pacer
	ok := c.send(&to, []byte(long), func() Slowness { return Slowness{Piece: 7} }, nil)
	if !ok || strings.Join(to, "") != long {
		t.Fatalf("send = %t and %q, want true and the sent bytes", ok, to)
	}
	for i, piece := range to[:len(to)-1] {
		if len(piece) != 7 {
			t.Fatalf("piece %d has %d bytes, want 7 in each but the last", i, len(piece))
		}
	}
}

// pieces records the bytes of each write.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

// TestSlowConnectionsEnd: CutAll breaks a connection at once, even if delayed bytes still wait in the proxy.
func TestSlowConnectionsEnd(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]Slowness{
		"Latency": {Latency: time.Hour}, "Bandwidth": {BytesPerSecond: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAsker(t)
			p := newProxy(t, server.addr, nil)
			client := dial(t, p)
			client.send("one\n")
			client.want("re: one")
			p.Slow(slow)
			client.send(long + "\n")
			client.wantSilence()
			if n := p.CutAll(); n != 1 {
				t.Errorf("CutAll() = %d, want 1", n)
			}
			client.wantBroken()
		})
	}
}
