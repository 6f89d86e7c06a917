package payload

import (
	"slices"
	"strings"
)

// Patch returns a JSON Patch (RFC 6902) in which Mask replaces the values, or parts of values, that an operation sets
// or tests at a masked path. If the configuration masks any path, a patch that is not a JSON array is masked as a
// whole.
func (m *Masks) Patch(patch []byte) []byte {
	if len(m.rules()) == 0 || len(patch) == 0 {
		return patch
	}
	c, ok := open(patch)
	if !ok || c.kind() != '[' {
		return []byte(Mask)
	}
	w := newMasker(c, m.rules(), nil)
	c.array(func() bool {
		w.operation()
		return true
	})
	return w.result()
}

// operation masks the values of one operation of the patch. It first looks for the operation's path, because in the
// text the path may come after the value.
func (m *masker) operation() {
	if m.kind() != '{' {
		m.skip()
		return
	}
	m.states = m.states[:0]
	ahead := cursor{data: m.data, pos: m.pos}
	ahead.object(func(name []byte) bool {
		if says(name, "path") && ahead.kind() == '"' {
			m.states = append(m.states, m.rules.at(unquote(ahead.text()))...)
		} else {
			ahead.skip()
		}
		return true
	})
	base := len(m.states)
	m.object(func(name []byte) bool {
		if m.states = m.states[:base]; says(name, "value") {
			m.states = append(m.states, m.states...)
			m.value(base)
		} else {
			m.skip()
		}
		return true
	})
}

// at returns the states of the masking rules for the value to which a JSON Pointer leads. The rules are applied in both
// ways if a part of the pointer is a number, which may be an index of an array or the name of a member.
func (r rules) at(pointer string) []state {
	states := r.begin()
	for _, name := range tokens(pointer) {
		states = r.follow(states, name, true, isIndex(name))
	}
	return states
}

// tokens returns the parts of a JSON Pointer (RFC 6901), unescaped.
func tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	all := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, t := range all {
		all[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return all
}

func isIndex(token string) bool {
	return token == "-" || token != "" && strings.Trim(token, "0123456789") == ""
}

// CoversPatch reports whether a patch reads or changes a masked value, a part of a masked value, or a value that
// contains a masked value.
func (m *Masks) CoversPatch(p *Patch) bool {
	return slices.ContainsFunc(p.pointers, func(pointer string) bool { return len(m.rules().at(pointer)) > 0 })
}
