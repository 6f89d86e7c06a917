package protocol

import (
	"crypto/sha256"
	"errors"
	"math"
)

// Limits limit the memory of one record and the work of one batch.
type Limits struct {
	// RecordBytes limits the bytes of the key and the value together. Of a larger record, the key or the value, or both,
	// are left out.
	RecordBytes int64
	// Headers limits the number of headers; further headers are left out.
	Headers int
	// HeaderBytes limits the bytes of the names and values of all headers together; the header that exceeds it and all
	// headers after it are left out.
	HeaderBytes int64
	// BatchBytes limits the decompressed size of a batch in bytes; the records after this size are unreadable. It limits
	// the time that reading the batch takes, not the memory.
	BatchBytes int64
}

// DefaultLimits returns the limits that Fetch uses where a request has none.
func DefaultLimits() Limits {
	return Limits{RecordBytes: 64 << 20, Headers: 10_000, HeaderBytes: 1 << 20, BatchBytes: 4 << 30}
}

// The limits that a Defect may name, as the configuration names them.
const (
	LimitRecordBytes = "max_record_bytes"
	LimitHeaders     = "max_headers"
	LimitHeaderBytes = "max_header_bytes"
)

// Defect describes the missing parts of a Record: the parts over a limit, or everything except the position if it is
// unreadable.
type Defect struct {
	// Limit is the limit that the record exceeds. If the record exceeds several limits, Limit is a limit of headers. Limit
	// is "" when the record cannot be read.
	Limit string
	// Size and SHA256 are the length and the hash of the whole value; for a null value, 0 and the hash of no bytes.
	Size   int64
	SHA256 [sha256.Size]byte
	// The parts that are missing because of Limit: the key, the value, the last headers.
	KeyOmitted, ValueOmitted, HeadersOmitted bool

	// Reason is why the record cannot be read, "" when Limit is set.
	Reason string
	// Last is the last unreadable offset. The first unreadable offset is the record's own offset.
	Last int64
}

var (
	// errNoMemory stops decoding because no memory can be reserved at the moment.
	errNoMemory = errors.New("no memory is free for the records")
	// errHeavy stops decoding in Fetch because a batch needs more memory than Fetch allows for one batch.
	errHeavy = errors.New("the batch is too large to be decoded with others")
	// errBatchLimit is the error of a batch whose decompressed size exceeds Limits.BatchBytes.
	errBatchLimit = errors.New("the batch inflates to more than max_batch_bytes")
)

// MemoryReservation is memory that is reserved for decoding. A decoder takes a part of the reservation before it
// allocates that much memory.
type MemoryReservation struct {
	// Free is the memory reserved and not taken yet.
	Free int64
	// More reserves further bytes and reports whether it could; it may wait until they are free. When More is nil, no
	// further bytes can be reserved.
	More func(bytes int64) bool
	// Done ends decoding early when it is closed; nil: never.
	Done <-chan struct{}

	taken int64
	bound int64 // largest allowed value of taken; 0: no limit
}

func (r *MemoryReservation) take(n int) error {
	bytes := int64(n)
	if r.bound > 0 && r.taken+bytes > r.bound {
		return errHeavy
	}
	if missing := bytes - r.Free; missing > 0 {
		if r.More == nil || !r.More(missing) {
			return errNoMemory
		}
		r.Free += missing
	}
	r.Free -= bytes
	r.taken += bytes
	return nil
}

// ended reports whether Done is closed.
func (r *MemoryReservation) ended() bool {
	select {
	case <-r.Done:
		return true
	default:
		return false
	}
}

// back gives back the memory that was taken since the field taken had the value mark.
func (r *MemoryReservation) back(mark int64) {
	r.Free += r.taken - mark
	r.taken = mark
}

// unlimitedMemory returns a reservation without a limit, for decoding bytes that are already in memory.
func unlimitedMemory() *MemoryReservation { return &MemoryReservation{Free: math.MaxInt64} }
