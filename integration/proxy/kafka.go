package proxy

import "encoding/binary"

// The names of the requests that KafkaRequests reports. ProduceBegins is reported when the proxy has read the first
// bytes of a produce request and has not forwarded the rest yet.
const (
	Produce        = "produce"
	ProduceBegins  = "produce begins"
	ListOffsets    = "list offsets"
	Metadata       = "metadata"
	InitProducerID = "init producer id"
	Fetch          = "fetch"
	OffsetCommit   = "offset commit"
)

var kafkaNames = map[uint16]string{
	0: Produce, 1: Fetch, 2: ListOffsets, 3: Metadata, 8: OffsetCommit, 22: InitProducerID,
}

// KafkaRequests makes a matcher of the requests named above. A match ends with the request's last
// byte, except for ProduceBegins.
func KafkaRequests() Matcher { return &kafkaMatcher{} }

type kafkaMatcher struct {
	head []byte // the part of size and key read so far
	left int    // bytes of the request that still follow the size and the key
}

// A Kafka request begins with its size and its API key. The size does not count itself, but it counts the key.
const (
	sizeBytes = 4
	keyBytes  = 2
)

func (m *kafkaMatcher) Next(b []byte) (int, string) {
	for at := 0; at < len(b); {
		if missing := sizeBytes + keyBytes - len(m.head); missing > 0 {
			n := min(missing, len(b)-at)
			m.head = append(m.head, b[at:at+n]...)
			at += n
			if n < missing {
				break
			}
			m.left = int(binary.BigEndian.Uint32(m.head)) - keyBytes
			if m.left > 0 && kafkaNames[m.key()] == Produce {
				return at, ProduceBegins
			}
		}
		n := min(m.left, len(b)-at)
		m.left -= n
		at += n
		if m.left > 0 {
			break
		}
		name := kafkaNames[m.key()]
		m.head = m.head[:0]
		if name != "" {
			return at, name
		}
	}
	return -1, ""
}

// key returns the API key of the current request.
func (m *kafkaMatcher) key() uint16 { return binary.BigEndian.Uint16(m.head[sizeBytes:]) }
