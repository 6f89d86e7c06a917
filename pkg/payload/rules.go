package payload

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// rules are the masked paths. While a document is read, a state belongs to one rule: it is the number of the rule's
// steps that match the path from the root of the document to the value at the cursor. When all steps of a rule have
// matched, the value and everything in it is masked.
//
// Producers may write the same value with or without an array. In such cases the rules mask more rather than less: a
// step with a name also matches inside the elements of an array, and [*] also matches a value that is not in an array.
type rules []Path

type state struct{ rule, at int }

func (r rules) begin() []state {
	var all []state
	for i := range r {
		all = append(all, state{rule: i})
	}
	return all
}

func (r rules) finished(s state) bool { return s.at == len(r[s.rule].steps) }

func (r rules) next(s state) step { return r[s.rule].steps[s.at] }

// single returns the state for a value that is not an array: the [*] steps that come next in the rule match such a
// value too.
func (r rules) single(s state) state {
	for !r.finished(s) && r.next(s).each {
		s.at++
	}
	return s
}

// element returns the state for an element of an array, from the state s of the array.
func (r rules) element(s state) state {
	if !r.finished(s) && r.next(s).each {
		s.at++
	}
	return s
}

// member returns the state for a member of the object that has the state s. The parameter is compares a name with the
// name of the member. ok is false when the rule does not match the member.
func (r rules) member(s state, is func(name string) bool) (next state, ok bool) {
	if s = r.single(s); r.finished(s) {
		return s, true
	}
	if !is(r.next(s).name) {
		return s, false
	}
	s.at++
	return s, true
}

// follow returns the states one level deeper: for the member with that name, for an element of an array, or for both.
// Both are needed for a part of a JSON Pointer that is a number, which may be a name or an index.
func (r rules) follow(states []state, name string, member, element bool) []state {
	var all []state
	add := func(s state) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, s := range states {
		if next, ok := r.member(s, func(n string) bool { return n == name }); member && ok {
			add(next)
		}
		if element {
			add(r.element(s))
		}
	}
	return all
}

// walk is a cursor with the states of the value at the cursor and of all values that contain it. In the list of states,
// those of the value itself come last.
type walk struct {
	*cursor
	rules  rules
	states []state
}

// enter updates the states from the index from on, which belong to the value at the cursor, if the value is not an
// array. It reports whether the value is masked.
func (w *walk) enter(from int) bool {
	if w.kind() != '[' {
		for i, s := range w.states[from:] {
			w.states[from+i] = w.rules.single(s)
		}
	}
	return w.masked(from)
}

func (w *walk) masked(from int) bool {
	return slices.ContainsFunc(w.states[from:], w.rules.finished)
}

// toMember replaces the states after the index base by the states for a member of an object. The states of the object
// itself are those from the index from up to, but not including, base.
func (w *walk) toMember(from, base int, name []byte) {
	w.states = w.states[:base]
	for _, s := range w.states[from:base] {
		if next, ok := w.rules.member(s, func(n string) bool { return says(name, n) }); ok {
			w.states = append(w.states, next)
		}
	}
}

// toNamed is toMember for a member that names may know by further names, and returns the names in the member's value. The
// name in the text always matches, also that of a union's branch.
func (w *walk) toNamed(from, base int, name []byte, names entity.Names) entity.Names {
	if names == nil {
		w.toMember(from, base, name)
		return nil
	}
	shown := unquote(name)
	all, inner, branch := names.Member(shown)
	w.states = w.states[:base]
	for _, s := range w.states[from:base] {
		if branch {
			w.states = append(w.states, s)
		}
		if next, ok := w.rules.member(s, func(n string) bool { return n == shown || all == nil && !branch || slices.Contains(all, n) }); ok {
			w.states = append(w.states, next)
		}
	}
	return inner
}

func (w *walk) toElement(from, base int) {
	w.states = w.states[:base]
	for _, s := range w.states[from:base] {
		w.states = append(w.states, w.rules.element(s))
	}
}
