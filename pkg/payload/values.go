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

// Identity returns a text that is the same for two values of one kind exactly if they are equal. It is the canonical
// form without quotes and escapes.
func (v Value) Identity() string {
	if v.Kind == NumberKind {
		return canonicalNumber(v.Text)
	}
	return v.Text
}

// Values calls yield for each scalar at one of the paths, with the index of the path, in the order of the text. It
// finds exactly the values for which Terms, with the same limit, returns a term, but no hidden ones. Text that is not JSON
// has no values.
func (r Reading) Values(paths []Path, limit int, yield func(path int, v Value)) {
	c, ok := r.reader()
	if !ok {
		return
	}
	f := finder{reader: c, left: limit, paths: paths, yield: yield}
	for i := range paths {
		f.states = append(f.states, state{rule: i})
	}
	f.value(0, 0)
}

// finder walks through a text and finds the values at the paths. A state belongs to one path: it is the number of the
// path's steps that match the path from the root of the text to the value at the cursor.
type finder struct {
	reader
	left   int
	paths  []Path
	states []state
	yield  func(path int, v Value)
}

// value skips a value, and yields the scalars in it that are at one of the paths. The states for the value are those in
// f.states from the index from on. It returns false when the limit is reached.
func (f *finder) value(from, depth int) bool {
	if f.left--; f.left < 0 {
		return false
	}
	if depth > maxDepth || f.hidden() != nil {
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

// next returns the first step that does not belong to the state s of its path; false if s has matched all steps.
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
