package proxy

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// matches feeds a stream in pieces of one size and returns the position and name of each match.
func matches(make func() Matcher, stream []byte, size int) []string {
	var found []string
	m := make()
	for at := 0; at < len(stream); {
		piece := stream[at:min(at+size, len(stream))]
		for len(piece) > 0 {
			end, what := m.Next(piece)
			if end < 0 {
				at += len(piece)
				break
			}
			at += end
			piece = piece[end:]
			found = append(found, fmt.Sprintf("%s@%d", what, at))
		}
	}
	return found
}

// TestMatchers: matches do not depend on how the stream is cut into pieces.
func TestMatchers(t *testing.T) {
	t.Parallel()
	request := func(key int, body string) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(2+len(body)))
		return string(binary.BigEndian.AppendUint16(b, uint16(key))) + body
	}
	message := func(kind, body string) string {
		return kind + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))) + body
	}
	encryption := message("", "\x04\xd2\x16\x2f")
	hello := message("", "\x00\x03\x00\x00user\x00me\x00\x00")
	changes := Statements(func(text string) string {
		if strings.HasPrefix(text, "UPDATE") {
			return "change"
		}
		return ""
	})
	prepare := func(name, text string) string { return message("P", name+"\x00"+text+"\x00\x00\x00") }
	bind := func(name string) string { return message("B", "\x00"+name+"\x00\x00\x00") }
	sync, execute := message("S", ""), message("E", "\x00\x00\x00\x00\x00")

	for _, c := range []struct {
		name    string
		matcher func() Matcher
		parts   []string // a part with "!" ends in a match of the name that follows
		want    []string // names of the matches, in order; the test derives their positions from parts
	}{
		{"Bytes", Bytes([]byte("abab")), []string{"!xxabab", "!aabab", "aba"}, nil},
		{"After", After(3), []string{"!abc", "defdef"}, nil},
		{"Nothing", Nothing, []string{"abc"}, nil},
		{
			"Kafka", KafkaRequests,
			[]string{
				request(18, "versions"), "!" + request(0, "records")[:6], "!records", "!" + request(22, ""),
				request(12, "heartbeat"), "!" + request(1, "fetch"), "!" + request(3, "topics"), "!" + request(8, "offsets"),
			},
			[]string{ProduceBegins, Produce, InitProducerID, Fetch, Metadata, OffsetCommit},
		},
		{
			"Postgres", changes,
			[]string{
				encryption, hello, message("p", "password\x00"),
				prepare("1", "SELECT 1"), sync, prepare("2", "UPDATE t SET n = 1"), sync,
				bind("1"), execute, sync,
				"!" + bind("2") + execute + sync,
				bind("2") + execute + message("X", ""), // no sync, no commit
			},
			[]string{"change"},
		},
		{
			"PostgresPlainQueries", changes,
			[]string{hello, message("Q", "SELECT 1\x00"), "!" + message("Q", "UPDATE t SET n = 1\x00"), message("Q", "BEGIN\x00")},
			[]string{"change"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var stream []byte
			var want []string
			for _, part := range c.parts {
				text, matches := strings.CutPrefix(part, "!")
				stream = append(stream, text...)
				if !matches {
					continue
				}
				what := strings.ToLower(c.name)
				if c.want != nil {
					what = c.want[len(want)]
				}
				want = append(want, fmt.Sprintf("%s@%d", what, len(stream)))
			}
			for size := 1; size <= len(stream); size++ {
				if got := matches(c.matcher, stream, size); !slices.Equal(got, want) {
					t.Fatalf("in pieces of %d: %v, want %v", size, got, want)
				}
			}
		})
	}
}
