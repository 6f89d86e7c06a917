// Package headervalue reads the values of dead-letter headers: numbers, times and texts whose encoding is not known. A
// value that cannot be read or is out of range counts as absent.
package headervalue

import (
	"encoding/binary"
	"strconv"
	"time"
)

const (
	maxPartition = 1_000_000
	maxAttempts  = 1_000_000
)

// Number reads a number without knowing which producer wrote it: decimal text, otherwise a big-endian number of 8, 4, 2
// or 1 bytes. The two forms cannot be confused: the digits of a text, read as binary, would be far outside the range of
// a partition, offset or count. Printable text of more than two bytes that is not decimal is no number, because as a
// binary number it would be far outside the range too.
func Number(b []byte) (int64, bool) {
	if Decimal(b) {
		n, err := strconv.ParseInt(string(b), 10, 64)
		return n, err == nil
	}
	if len(b) > 2 && Printable(b) {
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

// Decimal reports whether b is a decimal number as text, with or without a minus sign.
func Decimal(b []byte) bool {
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

// Printable reports whether b consists of printable ASCII characters.
func Printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// BigInteger reads the form of Java's BigInteger.toByteArray: signed, big-endian, as short as possible.
func BigInteger(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 8 {
		return 0, false
	}
	n := int64(int8(b[0]))
	for _, c := range b[1:] {
		n = n<<8 | int64(c)
	}
	return n, true
}

// Partition returns the number of a partition; nil when b contains none.
func Partition(b []byte) *int32 {
	n, ok := Number(b)
	if !ok || n < 0 || n > maxPartition {
		return nil
	}
	p := int32(n)
	return &p
}

// Offset returns an offset; nil when b contains none. Producers write -1 when there is no offset.
func Offset(b []byte) *int64 {
	n, ok := Number(b)
	if !ok || n < 0 {
		return nil
	}
	return &n
}

// Attempts returns a number of attempts; nil when b contains none.
func Attempts(b []byte) *int {
	n, ok := Number(b)
	return Count(n, ok, maxAttempts)
}

// Count returns n if ok is true and n is from 0 to limit; otherwise it returns nil.
func Count(n int64, ok bool, limit int64) *int {
	if !ok || n < 0 || n > limit {
		return nil
	}
	count := int(n)
	return &count
}

// earliest and latest are the range of plausible timestamps. The range is fixed, so that a record always decodes to the
// same result. The range also shows in which unit a timestamp is written, because no number is plausible in two units.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Timestamp reads a time that is written as milliseconds, seconds, microseconds or nanoseconds since 1970, in ISO 8601
// with an offset, or in the form of NServiceBus. It returns the zero time for any other value.
func Timestamp(b []byte) time.Time {
	if n, ok := Number(b); ok {
		return Epoch(n)
	}
	if len(b) < len("2006-01-02T15:04:05Z") || len(b) > 40 {
		return time.Time{}
	}
	if t, ok := nserviceBusTime(b); ok {
		return Plausible(t)
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return time.Time{}
	}
	return Plausible(t)
}

// Epoch returns the time that is n seconds, milliseconds, microseconds or nanoseconds after 1970. The size of n shows
// which unit it has.
func Epoch(n int64) time.Time {
	switch {
	case n < earliest.UnixMilli():
		return Plausible(time.Unix(n, 0))
	case n < earliest.UnixMicro():
		return Plausible(time.UnixMilli(n))
	case n < earliest.UnixNano():
		return Plausible(time.UnixMicro(n))
	}
	return Plausible(time.Unix(0, n))
}

// Plausible returns t with the precision of the stores, or the zero time when t is not in the range of plausible
// timestamps.
func Plausible(t time.Time) time.Time {
	if t.Before(earliest) || !t.Before(latest) {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// nserviceBusTime reads "2006-01-02 15:04:05:999999 Z", whose last colon cannot be expressed in a layout of package
// time.
func nserviceBusTime(b []byte) (time.Time, bool) {
	const form = "2006-01-02 15:04:05:000000 Z"
	if len(b) != len(form) || b[19] != ':' {
		return time.Time{}, false
	}
	text := []byte(string(b))
	text[19] = '.'
	t, err := time.Parse("2006-01-02 15:04:05.000000 Z", string(text))
	return t, err == nil
}
