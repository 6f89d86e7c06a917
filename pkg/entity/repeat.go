package entity

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

// RepeatWindow is the time after a message was stored in which further dead letters of its record count as repeats.
const RepeatWindow = 24 * time.Hour

// MaxRepeatPositions is the maximum number of positions in Repeats.
const MaxRepeatPositions = 100

// ReasonRepeat is the reason for which automatic and bulk retry leave out a message with a Repeats.Of.
const ReasonRepeat = "REPEAT"

// Repeats says what is known of further dead letters of a message's record.
type Repeats struct {
	// Of is the first message of the same record, which was already final when this message arrived; uuid.Nil for none.
	Of uuid.UUID
	// Count is the number of dead letters that were counted and not stored as messages of their own. For a message with a
	// Share, ShareRecord.Duplicates is this number.
	Count int
	// Positions are the positions of the latest counted dead letters in the message's dead-letter topic, the latest first.
	Positions []RepeatPosition
}

// With returns r with one more counted dead letter.
func (r Repeats) With(p RepeatPosition) Repeats {
	r.Count++
	r.Positions = append([]RepeatPosition{p}, r.Positions[:min(len(r.Positions), MaxRepeatPositions-1)]...)
	return r
}

// RepeatPosition is the position of a repeat in its dead-letter topic.
type RepeatPosition struct {
	Partition int32
	Offset    int64
}

// NamesPosition reports whether a header of the record names the topic, the partition and the offset at which the
// record failed.
func (m *Message) NamesPosition() bool {
	return m.Origin.Confidence == FromHeader && m.Origin.Partition != nil && *m.Origin.Partition >= 0 &&
		m.Origin.Offset != nil && *m.Origin.Offset >= 0
}

// SetDigest sets the Digest. It is equal for two dead letters exactly if they have the same dead-letter topic, between
// its creation and its deletion, consumer group, original topic, partition, offset and timestamp, the same key and value,
// and the same headers kept, which are those that a replay would send. It begins with the position in the original topic,
// so that the index entries of one partition's records are next to each other.
func (m *Message) SetDigest(kept []Header) {
	p := digested.Get().(*[]byte) //nolint:forcetypeassert // the pool has only pointers to bytes
	defer digested.Put(p)
	sum := recordSum(m.Record.Key, m.Record.Value, p)
	b := append((*p)[:0], sum[:]...)
	number := func(n uint64) { b = binary.BigEndian.AppendUint64(b, n) }
	text := func(s string) {
		number(uint64(len(s)))
		b = append(b, s...)
	}
	number(lengthOf(m.Record.Key))
	number(lengthOf(m.Record.Value))
	text(m.Failure.ConsumerGroup)
	text(m.OriginalTopic)
	number(uint64(m.Source.Incarnation))
	number(uint64(*m.Origin.Partition))
	number(uint64(*m.Origin.Offset))
	number(uint64(m.Origin.Timestamp.UnixMicro()))
	for _, h := range kept {
		text(h.Key)
		number(lengthOf(h.Value))
		b = append(b, h.Value...)
	}
	*p = b
	all := sha256.Sum256(b)
	m.Digest = uuid.UUID{byte(m.Source.Incarnation), byte(*m.Origin.Partition)}
	binary.BigEndian.PutUint32(m.Digest[2:], uint32(*m.Origin.Offset))
	copy(m.Digest[6:], all[:])
	m.RecordHash = hashOf(m.Record.Key, m.Record.Value, sum)
}

// digested are buffers for SetDigest, which ingest calls for each record.
var digested = sync.Pool{New: func() any { return new([]byte) }}
