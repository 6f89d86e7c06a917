package deadletter

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// uberDLQ is uber-go/kafka-client: no header, but a protobuf message as the record's key, which holds the position
// and the key that the record had. It is read only in topics that the configuration names. Its fields are treated as
// headers of these names, which no record has.
var uberDLQ = dialect{
	name:      "uber-dlq",
	anchors:   [][]string{{uberPrefix + "topic"}},
	topic:     uberPrefix + "topic",
	partition: uberPrefix + "partition",
	offset:    uberPrefix + "offset",
	timestamp: uberPrefix + "timestamp",
	attempts:  []string{uberPrefix + "attempts"},
}

const uberPrefix = "\x00uber-key:"

func compileUber(list []string) (Patterns, error) {
	if len(list) == 0 {
		return Patterns{}, nil
	}
	return parsePatterns("kafka.uber_dlq_topics", list)
}

// withUberKey returns the record's headers, then those from its key.
func withUberKey(rec entity.Record) headers {
	k, ok := parseUberKey(rec.Key)
	if !ok {
		return rec.Headers
	}
	number := func(name string, n int64) entity.Header {
		return entity.Header{Key: uberPrefix + name, Value: strconv.AppendInt(nil, n, 10)}
	}
	return append(slices.Clip(rec.Headers),
		entity.Header{Key: uberPrefix + "topic", Value: k.topic},
		number("partition", k.partition),
		number("offset", k.offset),
		number("timestamp", k.timestamp),
		number("attempts", k.retries),
	)
}

// uberKey is the protobuf message. Its numbers are 0 when they are absent.
type uberKey struct {
	retries, partition, offset, timestamp int64
	topic, key                            []byte // key is nil when absent
}

// parseUberKey accepts only that library's keys: each field at most once and of its type, with valid values.
func parseUberKey(b []byte) (uberKey, bool) {
	var k uberKey
	var seen [7]bool
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		field := tag >> 3
		if n <= 0 || field < 1 || field > 6 || seen[field] {
			return uberKey{}, false
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
			return uberKey{}, false
		}
	}
	return k, k.sane()
}

func (k *uberKey) text(field uint64, b []byte) (rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, false
	}
	value, rest := b[n:n+int(size):n+int(size)], b[n+int(size):]
	if field == 2 {
		k.topic = value
	} else {
		k.key = value
	}
	return rest, true
}

func (k *uberKey) number(field uint64, b []byte) (rest []byte, ok bool) {
	value, n := binary.Uvarint(b)
	if n <= 0 || value > math.MaxInt64 {
		return nil, false
	}
	switch field {
	case 1:
		k.retries = int64(value)
	case 3:
		k.partition = int64(value)
	case 4:
		k.offset = int64(value)
	case 5:
		k.timestamp = int64(value)
	}
	return b[n:], true
}

func (k *uberKey) sane() bool {
	return ValidTopic(string(k.topic)) && k.partition <= maxPartition && k.retries <= maxAttempts &&
		(k.timestamp == 0 || !plausible(time.Unix(0, k.timestamp)).IsZero())
}
