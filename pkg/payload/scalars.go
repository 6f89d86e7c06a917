package payload

// Scalars calls yield for the scalars of a JSON text, in the order of the text, with the path of each. It leaves out
// masked values, and values for which Terms with the same limit returns no term. Text that is not JSON has no scalars.
func Scalars(value []byte, masks *Masks, limit int, yield func(path string, v Value)) {
	c, ok := open(value)
	if !ok {
		return
	}
	s := scalarWalk{walk: walk{cursor: c, rules: masks.rules(), states: masks.rules().begin()}, left: limit, path: []byte("$"), yield: yield}
	s.value(0, 0)
}

type scalarWalk struct {
	walk
	left  int
	path  []byte
	yield func(path string, v Value)
}

// value skips a value and yields the scalars in it. The masking rules' states for this value are those in s.states from
// the index from on. It returns false when the limit is reached.
func (s *scalarWalk) value(from, depth int) bool {
	if s.left--; s.left < 0 {
		return false
	}
	if s.enter(from) || depth > maxDepth || len(s.path) > MaxPath {
		s.skip()
		return true
	}
	base, length := len(s.states), len(s.path)
	defer func() { s.path = s.path[:length] }()
	switch s.kind() {
	case '{':
		return s.object(func(name []byte) bool {
			s.toMember(from, base, name)
			s.path = appendName(s.path[:length], unquote(name))
			return s.value(base, depth+1)
		})
	case '[':
		s.path = append(s.path, "[*]"...)
		return s.array(func() bool {
			s.toElement(from, base)
			return s.value(base, depth+1)
		})
	}
	s.yield(string(s.path), valueOf(s.scalar()))
	return true
}
