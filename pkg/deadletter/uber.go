package deadletter

import (
	"slices"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// uberDLQ is the dialect of uber-go/kafka-client. It writes no headers. It gives the dead letter another key, a
// protobuf message that contains the position and the key of the record that failed. Keys are read only in the topics
// that the configuration names. The fields of the key are treated like headers with the names below, which no real
// header has.
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

// withUberKey returns the headers of the record, followed by the fields of its key as headers.
func withUberKey(rec entity.Record) headers {
	k, ok := headervalue.ParseUberKey(rec.Key)
	if !ok {
		return rec.Headers
	}
	decimal := func(name string, n int64) entity.Header {
		return entity.Header{Key: uberPrefix + name, Value: strconv.AppendInt(nil, n, 10)}
	}
	return append(slices.Clip(rec.Headers),
		entity.Header{Key: uberPrefix + "topic", Value: k.Topic},
		decimal("partition", k.Partition),
		decimal("offset", k.Offset),
		decimal("timestamp", k.Timestamp),
		decimal("attempts", k.Retries),
	)
}
