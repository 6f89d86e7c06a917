package codec

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// PackHeaders encodes headers as one value: the number of headers, then the key and the value of each, with their
// lengths as varints. The length of a value is stored plus one, so that 0 stands for null.
func PackHeaders(headers []entity.Header) []byte {
	return appendHeaders(make([]byte, 0, PackedSize(headers)), headers)
}

// PackedSize returns an upper limit for the number of bytes that PackHeaders returns, for headers that are shorter than
// two megabytes each.
func PackedSize(headers []entity.Header) int {
	size := 4
	for i := range headers {
		size += len(headers[i].Key) + len(headers[i].Value) + 6
	}
	return size
}

func appendHeaders(out []byte, headers []entity.Header) []byte {
	out = binary.AppendUvarint(out, uint64(len(headers)))
	for i := range headers {
		h := &headers[i]
		out = binary.AppendUvarint(out, uint64(len(h.Key)))
		out = append(out, h.Key...)
		if h.Value == nil {
			out = binary.AppendUvarint(out, 0)
			continue
		}
		out = binary.AppendUvarint(out, uint64(len(h.Value))+1)
		out = append(out, h.Value...)
	}
	return out
}

var errHeaders = errors.New("stored headers are damaged")

// UnpackHeaders decodes headers that PackHeaders encoded. The result does not share memory with packed.
func UnpackHeaders(packed []byte) ([]entity.Header, error) {
	return viewHeaders(bytes.Clone(packed))
}

// viewHeaders decodes headers that PackHeaders encoded, without copying: the values are parts of packed, and all keys
// are parts of one string.
func viewHeaders(packed []byte) ([]entity.Header, error) {
	headers, _, err := viewSome(packed, len(packed), false)
	return headers, err
}

// packedLimit is the number of bytes of a message's packed headers that are read when the message is shown:
// repository.HeaderBytesLimit, and the bytes for the lengths of repository.HeaderLimit headers.
const packedLimit = repository.HeaderBytesLimit + 8*repository.HeaderLimit

// viewFirst decodes the first headers that PackHeaders encoded, at most repository.HeaderLimit. packed may be
// incomplete: only its first packedLimit bytes are needed. The result more reports that the record has more headers
// than were returned.
func viewFirst(packed []byte) (headers []entity.Header, more bool, err error) {
	return viewSome(packed, repository.HeaderLimit, len(packed) >= packedLimit)
}

// viewSome decodes the first headers, at most as many as the parameter most says. cut says that packed may be
// incomplete and may end within a header.
func viewSome(packed []byte, most int, cut bool) (headers []entity.Header, more bool, err error) {
	if len(packed) == 0 {
		return nil, false, nil
	}
	n, rest, ok := uvarint(packed)
	if !ok || n > uint64(len(rest)) && !cut {
		return nil, false, errHeaders
	}
	if n == 0 {
		return nil, false, nil
	}
	var room [512]byte
	keys := room[:0]
	headers = make([]entity.Header, 0, min(n, uint64(most))) //nolint:gosec // not negative
	for at := rest; len(headers) < cap(headers); {
		var key, value []byte
		if key, value, at, ok = nextHeader(at); !ok && cut {
			break
		}
		if !ok {
			return nil, false, errHeaders
		}
		keys = append(keys, key...)
		headers = append(headers, entity.Header{Value: value})
	}
	text := string(keys)
	for i := range headers {
		var key []byte
		key, _, rest, _ = nextHeader(rest)
		headers[i].Key, text = text[:len(key)], text[len(key):]
	}
	return headers, uint64(len(headers)) < n, nil
}

// nextHeader decodes the first of the packed headers. rest contains the other headers.
func nextHeader(b []byte) (key, value, rest []byte, ok bool) {
	length, rest, ok := uvarint(b)
	if !ok || length > uint64(len(rest)) {
		return nil, nil, nil, false
	}
	key, rest = rest[:length], rest[length:]
	if length, rest, ok = uvarint(rest); !ok || length > uint64(len(rest))+1 {
		return nil, nil, nil, false
	}
	if length > 0 {
		length--
		value, rest = rest[:length:length], rest[length:]
	}
	return key, value, rest, true
}

func uvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}
