package integration_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// poison is a record with hostile content. Records like it from real dead-letter topics have broken JSON parsers,
// PostgreSQL and careless readers of headers.
type poison struct {
	name    string
	key     []byte
	value   []byte
	headers []kgo.RecordHeader
	at      time.Time // zero: now
}

// anyTimestamp makes a topic accept every timestamp, as brokers before 4.0 do.
var anyTimestamp = kafka.ConfigEntry{ConfigName: "message.timestamp.after.max.ms", ConfigValue: strconv.FormatInt(math.MaxInt64, 10)}

// poisons returns the hostile records. They are made once and together have 11 MB: callers must not change them.
var poisons = sync.OnceValue(func() []poison {
	many := make([]kgo.RecordHeader, 500)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: "x-many", Value: []byte{byte(i), byte(i >> 8)}}
	}
	k := []byte("k")
	return []poison{
		{name: "not json", key: k, value: []byte("order 17 is broken")},
		{name: "truncated json", key: k, value: []byte(`{"order": 17, "items": [`)},
		{name: "nul escape", key: k, value: []byte(`{"a":"x\u0000y"}`)},
		{name: "raw nul", key: k, value: []byte("{\"a\":\"x\x00y\"}")},
		{name: "lone surrogate", key: k, value: []byte(`{"a":"\ud800"}`)},
		{name: "not utf-8", key: k, value: []byte("{\"a\":\"\xff\xfe\"}")},
		{name: "numeric overflow", key: k, value: []byte(`{"n":1e200000}`)},
		{name: "number bomb", key: k, value: []byte("[" + strings.Repeat("1e131071,", 7999) + "1e131071]")},
		{name: "deep", key: k, value: []byte(strings.Repeat("[", 20000) + strings.Repeat("]", 20000))},
		{name: "duplicate keys", key: k, value: []byte(`{"b":1,"a":2,"b":3, "c": 1E3}`)},
		{name: "spaces", key: k, value: []byte(" \n{ \"a\" :\t1.00 }\r\n")},
		{name: "empty value", key: k, value: []byte{}},
		{name: "tombstone", key: k, value: nil},
		{name: "null key", key: nil, value: []byte(`{"a":1}`)},
		{name: "empty key", key: []byte{}, value: []byte(`{"a":1}`)},
		{name: "null key and value", key: nil, value: nil},
		{name: "binary key", key: []byte{0, 255, 0}, value: []byte{0, 1, 2, 255}},
		{name: "json null", key: k, value: []byte("null")},
		{name: "500 headers", key: k, value: []byte(`{"a":1}`), headers: many},
		{name: "odd headers", key: k, value: []byte(`{"a":1}`), headers: []kgo.RecordHeader{
			{Key: "", Value: []byte("empty name")},
			{Key: "same", Value: []byte("1")},
			{Key: "same", Value: nil},
			{Key: "same", Value: []byte{}},
			{Key: "same", Value: []byte("1")},
			{Key: "not\xffutf8", Value: []byte("\xff\x00\xfe")},
		}},
		{name: "1 MB header", key: k, value: []byte(`{"a":1}`), headers: []kgo.RecordHeader{
			{Key: "x-large", Value: bytes.Repeat([]byte{7}, 1_000_000)}, // within ingest.max_header_bytes
		}},
		{name: "bad error header", key: k, value: []byte(`{"a":1}`), headers: []kgo.RecordHeader{
			{Key: "error", Value: []byte("broken \xff\xfe \x00 text")},
		}},
		{name: "year 296678", key: k, value: []byte(`{"a":1}`), at: time.UnixMilli(9_300_000_000_000_000)},
		{name: "nano- for milliseconds", key: k, value: []byte(`{"a":1}`), at: time.UnixMilli(1_781_000_000_000_000_000)},
		{name: "latest timestamp", key: k, value: []byte(`{"a":1}`), at: time.UnixMilli(math.MaxInt64)},
		{name: "before 1970", key: k, value: []byte(`{"a":1}`), at: time.UnixMilli(-86_400_000)},
		{name: "10 MB", key: k, value: bytes.Repeat([]byte("0123456789"), 1<<20)},
	}
})
