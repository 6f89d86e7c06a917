package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
)

var errShort = errors.New("message ends too early")

// wire reads Kafka's primitive types from a slice. After the first error all reads return zero values.
type wire struct {
	b   []byte
	err error
}

// take returns the next n bytes of the slice itself, not a copy.
func (w *wire) take(n int) []byte {
	if w.err != nil {
		return nil
	}
	if n < 0 || n > len(w.b) {
		w.err = errShort
		return nil
	}
	head := w.b[:n:n]
	w.b = w.b[n:]
	return head
}

func (w *wire) int8() int8 {
	if b := w.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (w *wire) int16() int16 {
	if b := w.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (w *wire) int32() int32 {
	if b := w.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (w *wire) int64() int64 {
	if b := w.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (w *wire) varint() int64 {
	v, n := binary.Varint(w.b)
	return checkedVarint(w, v, n)
}

func (w *wire) uvarint() uint64 {
	v, n := binary.Uvarint(w.b)
	return checkedVarint(w, v, n)
}

func checkedVarint[T int64 | uint64](w *wire, v T, n int) T {
	if w.err != nil {
		return 0
	}
	if n <= 0 {
		w.err = errShort
		return 0
	}
	w.b = w.b[n:]
	return v
}

// varbytes reads bytes whose length is a varint; -1 means null.
func (w *wire) varbytes() []byte {
	n := w.varint()
	if n < 0 || w.err != nil {
		return nil
	}
	if n > int64(len(w.b)) {
		w.err = errShort
		return nil
	}
	return w.take(int(n))
}

// count reads the length of a compact array; it returns 0 for null.
func (w *wire) count() int {
	n := w.uvarint()
	if n == 0 {
		return 0
	}
	if n-1 > uint64(len(w.b)) {
		w.err = errShort
		return 0
	}
	return int(n - 1)
}

func (w *wire) compactString() string { return string(w.take(w.count())) }

func (w *wire) skipInt32s() {
	for range w.count() {
		w.int32()
	}
}

// skipTags skips the tagged fields at the end of a flexible structure.
func (w *wire) skipTags() {
	for range min(w.uvarint(), uint64(len(w.b))) {
		w.uvarint()
		w.take(int(min(w.uvarint(), uint64(len(w.b)+1))))
	}
}

// failed returns the first error of reading, preceded by the text doing, which says what was read.
func (w *wire) failed(doing string) error {
	if w.err != nil {
		return fmt.Errorf("%s: %w", doing, w.err)
	}
	return nil
}

func appendCompactString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s)+1)), s...)
}

// stream reads a response from a connection piece by piece, so that a large response is never in memory as one block.
type stream struct {
	r    io.Reader
	left int
	buf  [8]byte
	err  error
}

// openResponse reads the size and the correlation id of a response.
func openResponse(r io.Reader) (*stream, error) {
	s := &stream{r: r, left: 4}
	size := s.int32()
	s.left = int(size)
	if id := s.int32(); s.err == nil && id != correlation {
		s.err = fmt.Errorf("answer to request %d, want %d", id, correlation)
	}
	return s, s.err
}

// requestHead returns the header of a request in a flexible version; roundTrip later writes the request's size into the
// first four bytes.
func requestHead(key kafkaprotocol.ApiKey, version int16) []byte {
	b := make([]byte, 4, 64)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ClientID)))
	b = append(b, ClientID...)
	return append(b, 0) // no tagged fields in the header
}

// roundTrip sends a request that requestHead started, and reads the whole body of its response.
func roundTrip(rw io.ReadWriter, request []byte) (*wire, error) {
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	if _, err := rw.Write(request); err != nil {
		return nil, err
	}
	res, err := openResponse(rw)
	if err != nil {
		return nil, err
	}
	body := res.block(res.left)
	if res.err != nil {
		return nil, res.err
	}
	return &wire{b: body}, nil
}

// exchange is roundTrip for a response whose header has tagged fields. It skips these fields.
func exchange(rw io.ReadWriter, request []byte) (*wire, error) {
	body, err := roundTrip(rw, request)
	if err != nil {
		return nil, err
	}
	body.skipTags()
	return body, nil
}

func (s *stream) fill(b []byte) {
	if s.err != nil {
		return
	}
	if len(b) > s.left {
		s.err = errShort
		return
	}
	n, err := io.ReadFull(s.r, b)
	s.left -= n
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.err = err
}

func (s *stream) fixed(n int) []byte {
	b := s.buf[:n]
	clear(b)
	s.fill(b)
	if s.err != nil {
		clear(b)
	}
	return b
}

func (s *stream) int16() int16 { return int16(binary.BigEndian.Uint16(s.fixed(2))) }
func (s *stream) int32() int32 { return int32(binary.BigEndian.Uint32(s.fixed(4))) }
func (s *stream) int64() int64 { return int64(binary.BigEndian.Uint64(s.fixed(8))) }

// block reads n bytes into memory of their own, nil for a negative n.
func (s *stream) block(n int) []byte {
	if s.err != nil || n < 0 {
		return nil
	}
	if n > s.left {
		s.err = errShort
		return nil
	}
	b := make([]byte, n)
	s.fill(b)
	return b
}

func (s *stream) string() string { return string(s.block(int(s.int16()))) }

// count reads the length of an array, 0 for null. It refuses a length above the number of remaining bytes, because each
// element has at least one byte.
func (s *stream) count() int {
	n := int(s.int32())
	if n > s.left && s.err == nil {
		s.err = errShort
	}
	if s.err != nil || n < 0 {
		return 0
	}
	return n
}

func (s *stream) skip(n int) {
	if s.err != nil {
		return
	}
	done, err := io.CopyN(io.Discard, s.r, int64(n))
	s.left -= int(done)
	s.err = err
}
