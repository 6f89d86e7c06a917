package payload

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Terms returns the terms by which a search for fields finds a record, sorted and without duplicates. A value at any
// depth has the entity.FieldTerm of its path. A scalar also has the entity.FieldTerm of its path together with its
// value. Only the first limit values have terms. Values whose path is longer than MaxPath or deeper than 200 steps have
// no terms. When a member is repeated, each of its values has terms. Text that is not JSON has no terms: the result is
// nil.
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

// value skips a value and adds its terms. It returns false when the limit is reached.
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
