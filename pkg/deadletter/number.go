package deadletter

import (
	"encoding/binary"
	"strconv"
	"time"
)

const (
	maxPartition = 1_000_000
	maxAttempts  = 1_000_000
)

// number reads a header value without knowledge of its producer: decimal text, else big-endian of 8, 4, 2 or 1 bytes.
// The two cannot be confused: digits read as binary are far outside the range of a partition, offset or count. Longer
// printable text is not a number, for the same reason.
func number(b []byte) (int64, bool) {
	if decimal(b) {
		n, err := strconv.ParseInt(string(b), 10, 64)
		return n, err == nil
	}
	if len(b) > 2 && printable(b) {
		return 0, false
	}
	switch len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b)), true
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), true
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))), true
	case 1:
		return int64(b[0]), b[0] != '-'
	}
	return 0, false
}

func decimal(b []byte) bool {
	if len(b) > 1 && b[0] == '-' {
		b = b[1:]
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// bigInteger reads Java's BigInteger.toByteArray: signed, big-endian, as short as possible.
func bigInteger(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 8 {
		return 0, false
	}
	n := int64(int8(b[0]))
	for _, c := range b[1:] {
		n = n<<8 | int64(c)
	}
	return n, true
}

func partition(b []byte) *int32 {
	n, ok := number(b)
	if !ok || n < 0 || n > maxPartition {
		return nil
	}
	p := int32(n)
	return &p
}

// offset reads an offset; producers write -1 for none.
func offset(b []byte) *int64 {
	n, ok := number(b)
	if !ok || n < 0 {
		return nil
	}
	return &n
}

func attempts(b []byte) *int {
	n, ok := number(b)
	return countOf(n, ok, maxAttempts)
}

func countOf(n int64, ok bool, limit int64) *int {
	if !ok || n < 0 || n > limit {
		return nil
	}
	count := int(n)
	return &count
}

// The years that a timestamp may have. They are fixed, so that a record always decodes to the same result, and they
// distinguish the units: no number is a plausible time in two of them.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// timestamp reads epoch milliseconds, also seconds, micro- and nanoseconds by their magnitude, ISO 8601 with an
// offset, or the form of NServiceBus. The zero time means not known.
func timestamp(b []byte) time.Time {
	if n, ok := number(b); ok {
		return epoch(n)
	}
	if len(b) < len("2006-01-02T15:04:05Z") || len(b) > 40 {
		return time.Time{}
	}
	if t, ok := wireTime(b); ok {
		return plausible(t)
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return time.Time{}
	}
	return plausible(t)
}

func epoch(n int64) time.Time {
	switch {
	case n < earliest.UnixMilli():
		return plausible(time.Unix(n, 0))
	case n < earliest.UnixMicro():
		return plausible(time.UnixMilli(n))
	case n < earliest.UnixNano():
		return plausible(time.UnixMicro(n))
	}
	return plausible(time.Unix(0, n))
}

// plausible returns t with the precision of the stores, or the zero time outside these years.
func plausible(t time.Time) time.Time {
	if t.Before(earliest) || !t.Before(latest) {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
