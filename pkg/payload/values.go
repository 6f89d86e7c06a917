package payload

// Kind is the kind of a JSON scalar.
type Kind string

// The kinds of JSON scalars.
const (
	StringKind  Kind = "string"
	NumberKind  Kind = "number"
	BooleanKind Kind = "boolean"
	NullKind    Kind = "null"
)

// Value is one scalar of a JSON text.
type Value struct {
	Kind Kind
	Text string // for a string, its content without quotes; for any other scalar, its JSON text
}

// Canonical returns the canonical form of the value; see Scalar.
func (v Value) Canonical() string {
	switch v.Kind {
	case StringKind:
		return quote(v.Text)
	case NumberKind:
		return canonicalNumber(v.Text)
	case BooleanKind, NullKind:
	}
	return v.Text
}

// Identity returns the same text for equal values of one kind. It is the canonical form without quotes and escapes.
func (v Value) Identity() string {
	if v.Kind == NumberKind {
		return canonicalNumber(v.Text)
	}
	return v.Text
}

// Values calls yield for each scalar at one of the paths, with the index of the path, in the order of the text. It
// finds exactly the values for which Terms, with the same limit, returns a term. Text that is not JSON has no values.
func Values(value []byte, paths []Path, limit int, yield func(path int, v Value)) {
	c, ok := open(value)
	if !ok {
		return
	}
	f := finder{cursor: c, left: limit, paths: paths, yield: yield}
	for i := range paths {
		f.states = append(f.states, state{rule: i})
	}
	f.value(0, 0)
}

// finder walks through a text. A state says how many steps of a path match the way to the value that is being read.
type finder struct {
	*cursor
	left   int
	paths  []Path
	states []state
	yield  func(path int, v Value)
}

// value skips a value and yields it. The states of the value begin at the index from. It returns false when the limit
// is reached.
func (f *finder) value(from, depth int) bool {
	if f.left--; f.left < 0 {
		return false
	}
	if depth > maxDepth {
		f.skip()
		return true
	}
	base := len(f.states)
	switch f.kind() {
	case '{':
		return f.object(func(name []byte) bool {
			f.states = f.states[:base]
			for _, s := range f.states[from:base] {
				if next, ok := f.next(s); ok && !next.each && says(name, next.name) {
					f.states = append(f.states, state{s.rule, s.at + 1})
				}
			}
			return f.value(base, depth+1)
		})
	case '[':
		return f.array(func() bool {
			f.states = f.states[:base]
			for _, s := range f.states[from:base] {
				if next, ok := f.next(s); ok && next.each {
					f.states = append(f.states, state{s.rule, s.at + 1})
				}
			}
			return f.value(base, depth+1)
		})
	}
	raw := f.scalar()
	for _, s := range f.states[from:base] {
		if _, more := f.next(s); !more {
			f.yield(s.rule, valueOf(raw))
		}
	}
	return true
}

// next returns the step of the path that comes after the steps in the state s; false at the end of the path.
func (f *finder) next(s state) (step, bool) {
	steps := f.paths[s.rule].steps
	if s.at == len(steps) {
		return step{}, false
	}
	return steps[s.at], true
}

func valueOf(raw []byte) Value {
	switch raw[0] {
	case '"':
		return Value{StringKind, unquote(raw)}
	case 't', 'f':
		return Value{BooleanKind, string(raw)}
	case 'n':
		return Value{NullKind, string(raw)}
	}
	return Value{NumberKind, string(raw)}
}
