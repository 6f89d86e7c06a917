package payload

// Scalars calls yield for the scalars of a JSON text, in the order of the text, with the path of each. It leaves out
// hidden values, and values for which Terms with the same limit returns no term. Text that is not JSON has no scalars.
func (r Reading) Scalars(limit int, yield func(path string, v Value)) {
	c, ok := r.reader()
	if !ok {
		return
	}
	s := scalarWalk{reader: c, left: limit, path: []byte("$"), yield: yield}
	s.value(0)
}

type scalarWalk struct {
	reader
	left  int
	path  []byte
	yield func(path string, v Value)
}

// value skips a value and yields the scalars in it. It returns false when the limit is reached.
func (s *scalarWalk) value(depth int) bool {
	if s.left--; s.left < 0 {
		return false
	}
	if s.hidden() != nil || depth > maxDepth || len(s.path) > MaxPath {
		s.skip()
		return true
	}
	length := len(s.path)
	defer func() { s.path = s.path[:length] }()
	switch s.kind() {
	case '{':
		return s.object(func(name []byte) bool {
			s.path = appendName(s.path[:length], unquote(name))
			return s.value(depth + 1)
		})
	case '[':
		s.path = append(s.path, "[*]"...)
		return s.array(func() bool { return s.value(depth + 1) })
	}
	s.yield(string(s.path), valueOf(s.scalar()))
	return true
}
