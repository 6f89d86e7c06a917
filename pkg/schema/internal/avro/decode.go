package avro

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// MaxData is the maximum size in bytes of an encoded value that is decoded.
const MaxData = 256 << 10

// Decode returns the JSON, of at most limit bytes, of one encoded value of at most MaxData bytes. The error is a
// *codec.Error when the bytes do not fit the schema, or a *codec.LimitError. Time and memory depend only on the size of
// the data, on the limit, and on the longest name in the schema.
func (s *Schema) Decode(data []byte, limit int) ([]byte, error) {
	if len(data) > MaxData {
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	d := decoder{in: data, limit: limit}
	if err := d.value(s.root, 0); err != nil {
		return nil, err
	}
	if len(d.in) > 0 {
		return nil, d.path.Errorf("%d bytes are left after the value", len(d.in))
	}
	if len(d.out) > limit {
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	return d.out, nil
}

type decoder struct {
	in, out []byte
	limit   int
	path    codec.Path
}

func (d *decoder) value(n *node, depth int) error {
	if depth > codec.MaxDepth {
		return &codec.LimitError{Kind: codec.TooDeep}
	}
	if len(d.out) > d.limit {
		return &codec.LimitError{Kind: codec.TooLarge}
	}
	switch n.kind {
	case null:
		d.out = append(d.out, "null"...)
		return nil
	case boolean:
		return d.boolean()
	case integer, long:
		return d.integer(n)
	case float, double:
		return d.float(n)
	case bytesKind, text, fixed:
		return d.bytes(n)
	case enum:
		return d.enum(n)
	case array, mapKind:
		return d.blocks(n, depth)
	case union:
		return d.union(n, depth)
	default:
		return d.record(n, depth)
	}
}

func (d *decoder) record(n *node, depth int) error {
	d.out = append(d.out, '{')
	for i := range n.fields {
		f := &n.fields[i]
		if i > 0 {
			d.out = append(d.out, ',')
		}
		d.out = append(d.out, f.quoted...)
		d.path.Member(f.name)
		if err := d.value(f.node, depth+1); err != nil {
			return err
		}
		d.path.Pop()
	}
	d.out = append(d.out, '}')
	return nil
}

func (d *decoder) ends() error { return d.path.Errorf("the data ends within the value") }

func (d *decoder) varint() (int64, error) {
	v, n := binary.Varint(d.in) // Avro writes integers in the zigzag encoding that Varint reads
	if n <= 0 {
		if n == 0 {
			return 0, d.ends()
		}
		return 0, d.path.Errorf("a number is longer than 64 bits")
	}
	d.in = d.in[n:]
	return v, nil
}

func (d *decoder) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(d.in)) {
		return nil, d.ends()
	}
	taken := d.in[:n]
	d.in = d.in[n:]
	return taken, nil
}

func (d *decoder) boolean() error {
	b, err := d.take(1)
	switch {
	case err != nil:
		return err
	case b[0] > 1:
		return d.path.Errorf("a boolean is neither 0 nor 1")
	}
	d.out = strconv.AppendBool(d.out, b[0] == 1)
	return nil
}

func (d *decoder) integer(n *node) error {
	v, err := d.varint()
	if err != nil {
		return err
	}
	if n.kind == integer && (v < math.MinInt32 || v > math.MaxInt32) {
		return d.path.Errorf("an int is larger than 32 bits")
	}
	if out, ok := appendTime(d.out, n.logical, v); ok {
		d.out = out
		return nil
	}
	d.out = strconv.AppendInt(d.out, v, 10)
	return nil
}

func (d *decoder) float(n *node) error {
	if n.kind == float {
		b, err := d.take(4)
		if err != nil {
			return err
		}
		d.out = appendFloat(d.out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
		return nil
	}
	b, err := d.take(8)
	if err != nil {
		return err
	}
	d.out = appendFloat(d.out, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
	return nil
}

func (d *decoder) bytes(n *node) error {
	size := int64(n.size)
	if n.kind != fixed {
		var err error
		if size, err = d.varint(); err != nil {
			return err
		}
	}
	b, err := d.take(size)
	if err != nil {
		return err
	}
	if len(d.out)+len(b) > d.limit {
		return &codec.LimitError{Kind: codec.TooLarge}
	}
	switch {
	case n.kind == text:
		d.out = codec.AppendString(d.out, string(b))
	case n.logical == decimal:
		d.out, err = appendDecimal(d.out, b, n.scale)
	case n.logical == uuidLogical:
		d.out = appendUUID(d.out, b)
	default:
		d.out = appendBytes(d.out, b)
	}
	if err != nil {
		return d.path.Errorf("%s", err.Error())
	}
	return nil
}

func (d *decoder) enum(n *node) error {
	i, err := d.varint()
	if err != nil {
		return err
	}
	if i < 0 || i >= int64(len(n.symbols)) {
		return d.path.Errorf("the enum does not have the symbol")
	}
	d.out = codec.AppendString(d.out, n.symbols[i])
	return nil
}

func (d *decoder) blocks(n *node, depth int) error {
	open, end := byte('['), byte(']')
	if n.kind == mapKind {
		open, end = '{', '}'
	}
	d.out = append(d.out, open)
	for at := 0; ; {
		count, err := d.varint()
		if err != nil {
			return err
		}
		if count == 0 {
			d.out = append(d.out, end)
			return nil
		}
		if count < 0 { // Avro writes a negative count if the size of the block in bytes follows
			if _, err := d.varint(); err != nil {
				return err
			}
			if count = -count; count < 0 {
				return d.ends()
			}
		}
		for ; count > 0; count, at = count-1, at+1 {
			if at > 0 {
				d.out = append(d.out, ',')
			}
			if err := d.item(n, at, depth); err != nil {
				return err
			}
		}
	}
}

func (d *decoder) item(n *node, at, depth int) error {
	if n.kind == array {
		d.path.Element(at)
	} else {
		size, err := d.varint()
		if err != nil {
			return err
		}
		name, err := d.take(size)
		if err != nil {
			return err
		}
		d.path.Entry()
		d.out = append(codec.AppendString(d.out, string(name)), ':')
	}
	if err := d.value(n.items, depth+1); err != nil {
		return err
	}
	d.path.Pop()
	return nil
}

func (d *decoder) union(n *node, depth int) error {
	i, err := d.varint()
	if err != nil {
		return err
	}
	if i < 0 || i >= int64(len(n.branches)) {
		return d.path.Errorf("the union does not have the branch")
	}
	b := n.branches[i]
	begin := len(d.out)
	wrapped := n.wrapped && b.kind != null
	if wrapped {
		d.out = append(codec.AppendString(append(d.out, '{'), b.name), ':')
		depth++
	}
	if err := d.value(b, depth+1); err != nil {
		return err
	}
	switch {
	case wrapped:
		d.out = append(d.out, '}')
	case b.exceptional(d.out[begin:]):
		value := string(d.out[begin:])
		d.out = append(codec.AppendString(append(d.out[:begin], '{'), b.name), ':')
		d.out = append(append(d.out, value...), '}')
	}
	return nil
}

// exceptional reports whether a value is written in JSON in another form than other values of its type: NaN and
// infinite numbers are written as text, and times that are out of range are written as numbers.
func (n *node) exceptional(value []byte) bool {
	isString := value[0] == '"'
	switch n.kind {
	case float, double:
		return isString
	case integer, long:
		return n.logical != plain && !isString
	default:
		return false
	}
}

// appendBytes appends bytes in the form of Avro's JSON encoding, in which each byte is the character with the same
// number.
func appendBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ' && c < 0x7f:
			dst = append(dst, c)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
	}
	return append(dst, '"')
}

// appendFloat appends a number. Numbers that JSON cannot express, such as NaN, are written as text.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}
