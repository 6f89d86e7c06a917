package schema

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/proto"
)

// frame says how a part names its schema, and contains the rest of the part. Confluent's documentation of the wire
// format describes two ways: a prefix with a zero byte and an id of four bytes, or a header with a GUID. A part that
// names no schema has neither an id nor a GUID.
type frame struct {
	id     int
	guid   string
	header string // name of the header with the GUID; "" when a prefix names the schema
	// the part does not name its schema; a Protobuf part then has the first message type of the schema's file
	unframed bool
	rest     []byte // the bytes after the id or the GUID; for Protobuf they begin with the message indexes
	data     []byte // the encoded part, without the prefix that names its schema
}

const (
	keyHeader   = "__key_schema_id"
	valueHeader = "__value_schema_id"

	idMagic   = 0
	guidMagic = 1
	idSize    = 5
	guidSize  = 17
)

func headerOf(part entity.RecordPart) string {
	if part == entity.KeyPart {
		return keyHeader
	}
	return valueHeader
}

func bytesOf(r *entity.Record, part entity.RecordPart) []byte {
	if part == entity.KeyPart {
		return r.Key
	}
	return r.Value
}

// frameOf reads in which way a part names its schema. ok is false when the part does not name a schema.
func frameOf(r *entity.Record, part entity.RecordPart) (f frame, ok bool) {
	data := bytesOf(r, part)
	name := headerOf(part)
	for i := len(r.Headers) - 1; i >= 0; i-- { // the last header with this name counts
		h := &r.Headers[i]
		if h.Key == name && len(h.Value) >= guidSize && h.Value[0] == guidMagic {
			id, err := uuid.FromBytes(h.Value[1:guidSize])
			if err != nil {
				return f, false
			}
			return frame{guid: id.String(), header: name, rest: h.Value[guidSize:], data: data}, true
		}
	}
	if len(data) < idSize || data[0] != idMagic {
		return f, false
	}
	id := int(binary.BigEndian.Uint32(data[1:idSize]))
	return frame{id: id, rest: data[idSize:], data: data[idSize:]}, true
}

// indexes returns the message indexes of a Protobuf part, and the encoded message after them.
func (f frame) indexes() (indexes []int, data []byte, err error) {
	if f.header != "" && len(f.rest) == 0 || f.unframed {
		return []int{0}, f.data, nil
	}
	indexes, size, err := proto.Indexes(f.rest)
	if err != nil {
		return nil, nil, err
	}
	if f.header != "" {
		return indexes, f.data, nil
	}
	return indexes, f.data[size:], nil
}

// prefix returns the prefix that names a schema. indexes is nil unless the format is Protobuf.
func prefix(id int, indexes []int) []byte {
	p := binary.BigEndian.AppendUint32([]byte{idMagic}, uint32(id)) //nolint:gosec // registries have 32-bit ids
	if indexes != nil {
		p = proto.AppendIndexes(p, indexes)
	}
	return p
}

// headerValue returns the value of the header that names a schema. indexes is nil unless the format is Protobuf.
func headerValue(guid uuid.UUID, indexes []int) []byte {
	v := append([]byte{guidMagic}, guid[:]...)
	if indexes != nil {
		v = proto.AppendIndexes(v, indexes)
	}
	return v
}
