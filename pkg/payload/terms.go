package payload

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Terms returns the terms by which a field search finds a record: for each JSON value the entity.FieldTerm of its
// path and, for scalars, of its path and value, sorted and without duplicates. Only the first limit values count, and
// none whose path is longer than MaxPath or deeper than 200 steps. A repeated member counts with each value. Text
// that is not JSON has no terms: nil.
func Terms(value []byte, limit int) []int64 {
	c, ok := open(value)
	if !ok {
		return nil
	}
	t := termer{cursor: c, left: limit, path: []byte("$")}
	t.value(0)
	slices.Sort(t.terms)
	return slices.Compact(t.terms)
}

type termer struct {
	*cursor
	left  int
	path  []byte
	terms []int64
}

// value skips a value and reports whether the limit allows more.
func (t *termer) value(depth int) bool {
	if t.left--; t.left < 0 {
		return false
	}
	if depth > maxDepth || len(t.path) > MaxPath {
		t.skip()
		return true
	}
	t.terms = append(t.terms, entity.FieldTerm(string(t.path), ""))
	length := len(t.path)
	defer func() { t.path = t.path[:length] }()
	switch t.kind() {
	case '{':
		return t.object(func(name []byte) bool {
			t.path = appendName(t.path[:length], unquote(name))
			return t.value(depth + 1)
		})
	case '[':
		t.path = append(t.path, "[*]"...)
		return t.array(func() bool { return t.value(depth + 1) })
	}
	t.terms = append(t.terms, entity.FieldTerm(string(t.path), canonical(t.scalar())))
	return true
}
