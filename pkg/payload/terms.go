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
//
// A hidden value has the terms of a path that Masks.CoversPath covers, which only those may search who may see it: its own
// path, or else that of the rule which hides it.
func (r Reading) Terms(limit int) []int64 {
	c, ok := r.reader()
	if !ok {
		return nil
	}
	t := termer{reader: c, masks: r.masks, left: limit, path: []byte("$")}
	t.value(0, false)
	slices.Sort(t.terms)
	return slices.Compact(t.terms)
}

type termer struct {
	reader
	masks *Masks
	left  int
	path  []byte
	terms []int64
}

// value skips a value and adds its terms. covered says that the path is one of masked values. It returns false when the
// limit is reached.
func (t *termer) value(depth int, covered bool) bool {
	if t.left--; t.left < 0 {
		return false
	}
	if depth > maxDepth || len(t.path) > MaxPath {
		t.skip()
		return true
	}
	if s := t.hidden(); s != nil && !covered && !t.covers() {
		return t.elsewhere(s, depth)
	}
	t.terms = append(t.terms, entity.FieldTerm(string(t.path), ""))
	length := len(t.path)
	defer func() { t.path = t.path[:length] }()
	switch t.kind() {
	case '{':
		return t.object(func(name []byte) bool {
			t.path = appendName(t.path[:length], unquote(name))
			return t.value(depth+1, covered)
		})
	case '[':
		t.path = append(t.path, "[*]"...)
		return t.array(func() bool { return t.value(depth+1, covered) })
	}
	t.terms = append(t.terms, entity.FieldTerm(string(t.path), canonical(t.scalar())))
	return true
}

func (t *termer) covers() bool {
	p, err := ParsePath(string(t.path))
	return err != nil || t.masks.CoversPath(p)
}

// elsewhere skips a hidden value, and adds its terms with the paths of the rules that hide it.
func (t *termer) elsewhere(s *span, depth int) bool {
	begin, own := t.pos, t.path
	t.skip()
	end := t.pos
	if !s.inside {
		for _, rule := range s.rules {
			if rule == opaque {
				continue
			}
			t.pos, t.path = begin, []byte(t.masks.paths[rule].String())
			if !t.value(depth, true) {
				return false
			}
		}
	}
	t.pos, t.path = end, own
	return true
}
