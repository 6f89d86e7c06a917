package broker

import (
	"bytes"
	"strings"
	"time"
	"unsafe"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Record is one record of a log, as its producer wrote it. A nil key, value or
// header value is Kafka's null and differs from an empty one; headers keep
// their order and their duplicates.
//
// Records from Fetch and Scan share memory with their neighbours: do not
// change their bytes, and Clone one that is kept when the others are not.
type Record struct {
	TopicPartition
	Offset int64
	// Time is UTC with milliseconds, zero when the record's timestamp lies outside
	// the years 1970 to 9999. Produce writes the current time for zero.
	Time time.Time
	// RawTime is the timestamp in milliseconds as the log has it where Time cannot
	// hold it, else 0. Kafka writes -1 for a record without a timestamp.
	RawTime int64
	Key     []byte
	Value   []byte
	Headers []entity.Header
	// Defect says what the record does not hold because it is over a limit, or that
	// it cannot be read; nil for a whole record.
	Defect *Defect

	// Control marks the end of a transaction, which is not a record of a
	// producer's and has neither key nor value. Only Scan shows these.
	Control bool
}

// Clone returns the same record in memory of its own.
func (r Record) Clone() Record {
	r.Key = bytes.Clone(r.Key)
	r.Value = bytes.Clone(r.Value)
	headers := make([]entity.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = entity.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)}
	}
	r.Headers = headers
	return r
}

// What a Record, a header and a Defect take in memory without the bytes they point to:
// much for a log of tiny records.
const (
	recordMemory = int(unsafe.Sizeof(Record{}))
	HeaderMemory = int(unsafe.Sizeof(entity.Header{}))
	defectMemory = int(unsafe.Sizeof(Defect{}))
)

// Memory returns how many bytes the record takes in memory.
func (r *Record) Memory() int64 {
	n := recordMemory + len(r.Key) + len(r.Value)
	if r.Defect != nil {
		n += defectMemory
	}
	for _, h := range r.Headers {
		n += HeaderMemory + len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// size is about what the record takes in a batch.
func (r Record) size() int {
	n := len(r.Key) + len(r.Value) + 32
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}
