package headervalue

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// UberKey is the content of the protobuf message that uber-go/kafka-client writes as a record's key. A number is 0 when
// the key does not contain it.
type UberKey struct {
	Retries, Partition, Offset, Timestamp int64
	Topic, Key                            []byte // Key is nil when absent
}

// ParseUberKey accepts only keys that uber-go/kafka-client can have written, in which each field occurs at most once,
// has the right type and a valid value.
func ParseUberKey(b []byte) (UberKey, bool) {
	var k UberKey
	var seen [7]bool
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		field := tag >> 3
		if n <= 0 || field < 1 || field > 6 || seen[field] {
			return UberKey{}, false
		}
		seen[field], b = true, b[n:]
		ok := false
		switch text, number := field == 2 || field == 6, tag&7; {
		case text && number == 2:
			b, ok = k.text(field, b)
		case !text && number == 0:
			b, ok = k.number(field, b)
		}
		if !ok {
			return UberKey{}, false
		}
	}
	return k, k.sane()
}

func (k *UberKey) text(field uint64, b []byte) (rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, false
	}
	value, rest := b[n:n+int(size):n+int(size)], b[n+int(size):]
	if field == 2 {
		k.Topic = value
	} else {
		k.Key = value
	}
	return rest, true
}

func (k *UberKey) number(field uint64, b []byte) (rest []byte, ok bool) {
	value, n := binary.Uvarint(b)
	if n <= 0 || value > math.MaxInt64 {
		return nil, false
	}
	switch field {
	case 1:
		k.Retries = int64(value)
	case 3:
		k.Partition = int64(value)
	case 4:
		k.Offset = int64(value)
	case 5:
		k.Timestamp = int64(value)
	}
	return b[n:], true
}

func (k *UberKey) sane() bool {
	return entity.ValidTopic(string(k.Topic)) && k.Partition <= maxPartition && k.Retries <= maxAttempts &&
		(k.Timestamp == 0 || !Plausible(time.Unix(0, k.Timestamp)).IsZero())
}
