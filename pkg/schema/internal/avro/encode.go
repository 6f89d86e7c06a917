package avro

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Encode returns the binary encoding, of at most limit bytes, of a JSON value in the form that Decode writes. A missing
// member gets the default of its field; a member that the schema does not contain is an error. The error is a
// *codec.Error, which names the field, or a *codec.LimitError.
func (s *Schema) Encode(text []byte, limit int) ([]byte, error) {
	v, err := codec.Value(text)
	if err != nil {
		return nil, err
	}
	e := encoder{limit: limit, steps: max(limit, minSteps)}
	if err := e.value(s.root, v, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

type encoder struct {
	out   []byte
	limit int
	// number of values that may still be encoded; a short text may need many, because defaults are not in the text and
	// may encode to no bytes
	steps    int
	path     codec.Path
	defaults bool // the value that is being encoded is a field's default, which has Avro's own JSON form
	refused  int  // how often a branch of a union did not accept a default
}

// minSteps is the smallest limit on the number of values that are encoded. A short text gets this limit, because it may
// have many defaults.
const minSteps = 1 << 20

// maxRefused limits the tries with branches of unions that do not accept a default. In unions within unions, there
// could be very many combinations of branches to try.
const maxRefused = 1000

func (e *encoder) value(n *node, v any, depth int) error {
	switch {
	case depth > codec.MaxDepth:
		return &codec.LimitError{Kind: codec.TooDeep}
	case len(e.out) > e.limit || e.steps <= 0:
		return &codec.LimitError{Kind: codec.TooLarge}
	}
	e.steps--
	switch n.kind {
	case null:
		if v != nil {
			return e.path.Errorf("must be null")
		}
		return nil
	case boolean:
		b, ok := v.(bool)
		if !ok {
			return e.path.Errorf("must be true or false")
		}
		e.out = append(e.out, map[bool]byte{true: 1}[b])
		return nil
	case integer, long:
		return e.integer(n, v)
	case float, double:
		return e.float(n, v)
	case bytesKind, text, fixed:
		return e.text(n, v)
	case enum:
		symbol, _ := v.(string)
		i := n.find(symbol)
		if i < 0 {
			return e.path.Errorf("must be one of the enum's symbols: %s", codec.Listed(n.symbols))
		}
		e.varint(int64(i))
		return nil
	case array:
		return e.array(n, v, depth)
	case mapKind:
		return e.object(n, v, depth)
	case union:
		if e.defaults {
			return e.defaultUnion(n, v, depth)
		}
		return e.union(n, v, depth)
	default:
		return e.record(n, v, depth)
	}
}

func (e *encoder) varint(v int64) { e.out = binary.AppendVarint(e.out, v) }

func (e *encoder) integer(n *node, v any) error {
	if s, ok := v.(string); ok && n.logical != plain {
		i, err := parseTime(n.logical, s)
		if err != nil {
			return e.path.Errorf("%s", err.Error())
		}
		if n.kind == integer && (i < math.MinInt32 || i > math.MaxInt32) {
			return e.path.Errorf("is out of the range of 32 bits")
		}
		e.varint(i)
		return nil
	}
	bits := 64
	if n.kind == integer {
		bits = 32
	}
	number, ok := v.(json.Number)
	i, err := strconv.ParseInt(string(number), 10, bits)
	if !ok || err != nil {
		return e.path.Errorf("must be a whole number of %d bits", bits)
	}
	e.varint(i)
	return nil
}

func (e *encoder) float(n *node, v any) error {
	bits := 64
	if n.kind == float {
		bits = 32
	}
	var f float64
	var err error
	switch v := v.(type) {
	case json.Number:
		f, err = strconv.ParseFloat(string(v), bits)
	case string:
		values := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
		var known bool
		if f, known = values[v]; !known {
			return e.path.Errorf("must be a number")
		}
	default:
		return e.path.Errorf("must be a number")
	}
	if err != nil {
		return e.path.Errorf("is out of the range of %d bits", bits)
	}
	if n.kind == float {
		e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(float32(f)))
	} else {
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(f))
	}
	return nil
}

func (e *encoder) text(n *node, v any) error {
	if number, ok := v.(json.Number); ok && n.logical == decimal {
		v = string(number)
	}
	s, ok := v.(string)
	if !ok {
		return e.path.Errorf("must be a string")
	}
	var b []byte
	var err error
	switch l := e.logical(n); {
	case n.kind == text:
		b = []byte(s)
	case l == decimal:
		if b, err = parseDecimal(s, n); err != nil {
			return e.path.Errorf("%s", err.Error())
		}
	case l == uuidLogical:
		id, err := uuid.Parse(s)
		if err != nil || len(s) != len(id.String()) {
			return e.path.Errorf("must be a UUID")
		}
		b = id[:]
	default:
		for _, r := range s {
			if r > 0xff {
				return e.path.Errorf("must be bytes: characters from \\u0000 to \\u00ff only")
			}
			b = append(b, byte(r))
		}
	}
	if n.kind == fixed {
		if len(b) != n.size {
			return e.path.Errorf("must be %d bytes, not %d", n.size, len(b))
		}
	} else {
		e.varint(int64(len(b)))
	}
	if len(e.out)+len(b) > e.limit {
		return &codec.LimitError{Kind: codec.TooLarge}
	}
	e.out = append(e.out, b...)
	return nil
}

// logical returns the logical type that decides how values of the node are written in JSON. For defaults it is plain,
// because they have Avro's own JSON form.
func (e *encoder) logical(n *node) logical {
	if e.defaults {
		return plain
	}
	return n.logical
}

func (e *encoder) array(n *node, v any, depth int) error {
	items, ok := v.([]any)
	if !ok {
		return e.path.Errorf("must be a list")
	}
	if len(items) > 0 {
		e.varint(int64(len(items)))
	}
	for i, item := range items {
		e.path.Element(i)
		if err := e.value(n.items, item, depth+1); err != nil {
			return err
		}
		e.path.Pop()
	}
	e.varint(0)
	return nil
}

func (e *encoder) object(n *node, v any, depth int) error {
	members, ok := v.(map[string]any)
	if !ok {
		return e.path.Errorf("must be an object")
	}
	if len(members) > 0 {
		e.varint(int64(len(members)))
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		e.varint(int64(len(name)))
		e.out = append(e.out, name...)
		e.path.Entry()
		if err := e.value(n.items, members[name], depth+1); err != nil {
			return err
		}
		e.path.Pop()
	}
	e.varint(0)
	return nil
}

func (e *encoder) record(n *node, v any, depth int) error {
	members, ok := v.(map[string]any)
	if !ok {
		return e.path.Errorf("must be an object")
	}
	known := 0
	for i := range n.fields {
		f := &n.fields[i]
		e.path.Member(f.name)
		item, given := members[f.name]
		switch {
		case given:
			known++
		case f.filled:
			if err := e.defaultValue(f.node, f.fallback, depth+1); err != nil {
				return err
			}
			e.path.Pop()
			continue
		default:
			return e.path.Errorf("is missing, and the schema has no default for it")
		}
		if err := e.value(f.node, item, depth+1); err != nil {
			return err
		}
		e.path.Pop()
	}
	if known == len(members) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if n.find(name) < 0 {
			e.path.Member(name)
			return e.path.Errorf("is not in the schema")
		}
	}
	return nil
}

func (e *encoder) defaultValue(n *node, v any, depth int) error {
	outer := e.defaults
	e.defaults = true
	err := e.value(n, v, depth)
	e.defaults = outer
	return err
}

// defaultUnion encodes the default of a field that is a union. It uses the first branch that accepts the default.
func (e *encoder) defaultUnion(n *node, v any, depth int) error {
	begin, steps := len(e.out), e.path
	for i, b := range n.branches {
		e.varint(int64(i))
		var over *codec.LimitError
		if err := e.value(b, v, depth+1); err == nil || errors.As(err, &over) {
			return err //nolint:wrapcheck // the error is from this package
		}
		e.out, e.path = e.out[:begin], steps
		if e.refused++; e.refused > maxRefused {
			break
		}
	}
	return e.path.Errorf("has a default that does not fit its union")
}

func (e *encoder) union(n *node, v any, depth int) error {
	if wrapper, ok := v.(map[string]any); ok && len(wrapper) == 1 && !n.plainMap() {
		for name, inner := range wrapper {
			if i := n.find(name); i >= 0 {
				e.varint(int64(i))
				e.path.Member(name)
				defer e.path.Pop()
				return e.value(n.branches[i], inner, depth+1)
			}
		}
	}
	i, err := e.choose(n, v)
	if err != nil {
		return err
	}
	e.varint(int64(i))
	return e.value(n.branches[i], v, depth+1)
}

// choose returns the branch of a union to which a JSON value belongs that does not name its branch.
func (e *encoder) choose(n *node, v any) (branch int, err error) {
	if e.steps -= len(n.branches) / 8; e.steps <= 0 {
		return 0, &codec.LimitError{Kind: codec.TooLarge}
	}
	var found []int
	for i, b := range n.branches {
		if b.accepts(v) {
			found = append(found, i)
		}
	}
	if _, number := v.(json.Number); number && len(found) == 0 {
		found = n.numeric()
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var names []string
	for _, b := range n.branches {
		names = append(names, b.name)
	}
	if len(found) == 0 {
		return 0, e.path.Errorf("must be one of %s", codec.Listed(names))
	}
	return 0, e.path.Errorf("must name its branch, as in {%q: …}: one of %s", names[found[0]], codec.Listed(names))
}

// numeric returns the branches of a union that are times or decimals. Decode writes their values as text, but Encode
// also accepts numbers.
func (n *node) numeric() []int {
	var found []int
	for i, b := range n.branches {
		if b.logical != plain && b.logical != uuidLogical {
			found = append(found, i)
		}
	}
	return found
}

// accepts reports whether a JSON value has the JSON type, such as string or number, in which Decode writes values of
// the node.
func (n *node) accepts(v any) bool {
	switch v.(type) {
	case nil:
		return n.kind == null
	case bool:
		return n.class() == classBool
	case json.Number:
		return n.class() == classNumber
	case string:
		return n.class() == classString
	case []any:
		return n.class() == classArray
	}
	return n.class() == classObject
}
