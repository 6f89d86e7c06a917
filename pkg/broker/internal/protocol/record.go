package protocol

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TopicPartition names one log of a cluster.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is topic/partition.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition) }

// ComparePartitions orders partitions by topic and number.
func ComparePartitions(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Record is one record of a log, as its producer wrote it. A nil key, value or header value is Kafka's null, which
// differs from an empty key or value; headers keep their order and their duplicates.
//
// Records from Fetch and Scan share memory: do not change their bytes, and Clone records that you keep.
type Record struct {
	TopicPartition
	Offset int64
	// Time is UTC with milliseconds, zero outside 1970 to 9999. Produce writes the current time for zero.
	Time time.Time
	// RawTime is a log's timestamp that Time cannot hold, else 0. Kafka writes -1 for a record without a timestamp.
	RawTime int64
	Key     []byte
	Value   []byte
	Headers []entity.Header
	// Defect describes the parts that are missing because of a limit, or why the record cannot be read; nil for a
	// whole record.
	Defect *Defect

	// Control means that the record is only the end marker of a transaction, without key and value. Only Scan returns end
	// markers.
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

// Bytes of memory that a Record, a header and a Defect themselves take, without the bytes to which they point. Of the
// memory for small records, these bytes are a large part.
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

// EncodedSize returns the approximate size of the record in a batch.
func (r Record) EncodedSize() int {
	n := len(r.Key) + len(r.Value) + 32
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

func (r *Record) over(limit string) *Defect {
	if r.Defect == nil {
		r.Defect = &Defect{Limit: limit, Last: r.Offset}
	}
	return r.Defect
}
