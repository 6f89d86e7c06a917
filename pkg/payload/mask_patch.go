package payload

import (
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Patch returns a JSON Patch (RFC 6902) in which Mask replaces the values, or parts of values, that an operation sets
// or tests at a masked path. names are those of the schema of the value to which the patch belongs; nil without a
// schema. If the configuration masks any path, a patch that is not a JSON array is masked as a whole.
func (m *Masks) Patch(patch []byte, names entity.Names) []byte {
	if len(m.rules()) == 0 || len(patch) == 0 {
		return patch
	}
	c, ok := open(patch)
	if !ok || c.kind() != '[' {
		return []byte(Mask)
	}
	w := masker{walk: walk{cursor: c, rules: m.rules()}}
	c.array(func() bool {
		w.operation(names)
		return true
	})
	shown, _ := Reading{text: patch, spans: w.spans, masks: m}.Shown()
	return shown
}

// operation masks the values of one operation of the patch. It first looks for the operation's path, because in the
// text the path may come after the value.
func (m *masker) operation(names entity.Names) {
	if m.kind() != '{' {
		m.skip()
		return
	}
	m.states = m.states[:0]
	var at []entity.Names
	ahead := cursor{data: m.data, pos: m.pos}
	ahead.object(func(name []byte) bool {
		if says(name, "path") && ahead.kind() == '"' {
			states, inner := m.rules.at(unquote(ahead.text()), names)
			m.states, at = append(m.states, states...), append(at, inner)
		} else {
			ahead.skip()
		}
		return true
	})
	base := len(m.states)
	m.object(func(name []byte) bool {
		if m.states = m.states[:base]; !says(name, "value") {
			m.skip()
			return true
		}
		m.states = append(m.states, m.states...)
		if len(at) == 1 {
			m.value(base, at[0])
			return true
		}
		for rule, p := range m.rules { // it is not known which of several paths counts
			m.states = append(m.states, state{rule, len(p.steps)})
		}
		m.value(base, nil)
		return true
	})
}

// at returns the states of the masking rules for the value to which a JSON Pointer leads, and the names in that value.
// The rules are applied in both ways if a part of the pointer is a number, which may be an index of an array or the name
// of a member.
func (r rules) at(pointer string, names entity.Names) ([]state, entity.Names) {
	states := r.begin()
	for _, name := range tokens(pointer) {
		index := isIndex(name)
		if names == nil {
			states = r.follow(states, name, true, index)
			continue
		}
		all, inner, branch := names.Member(name)
		var next []state
		if all == nil && !branch { // any mask may call it
			for rule, p := range r {
				next = append(next, state{rule, len(p.steps)})
			}
		}
		if branch {
			next = states
		}
		if !slices.Contains(all, name) {
			all = append(all[:len(all):len(all)], name)
		}
		for _, known := range all {
			next = append(next[:len(next):len(next)], r.follow(states, known, true, false)...)
		}
		if index {
			next = append(next[:len(next):len(next)], r.follow(states, name, false, true)...)
			if element := names.Element(); element != nil {
				inner = element
			}
		}
		states, names = next, inner
	}
	return states, names
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

// CoversPatch reports whether a patch names a masked path, a part of a masked value, or a value that contains a masked
// value. A schema may give a masked value further names: see Reading.Touches.
func (m *Masks) CoversPatch(p *Patch) bool {
	return slices.ContainsFunc(p.pointers, func(pointer string) bool {
		states, _ := m.rules().at(pointer, nil)
		return len(states) > 0
	})
}

// Touches reports whether a patch reads or changes anything in the text that is hidden. A number in one of its pointers
// stands for every element of an array, because earlier operations may move elements.
func (r Reading) Touches(p *Patch) bool {
	if len(r.spans) == 0 {
		return false
	}
	return slices.ContainsFunc(p.pointers, func(pointer string) bool {
		c, ok := r.reader()
		return !ok || c.touches(tokens(pointer))
	})
}

// touches skips the value at the cursor. It reports whether anything is hidden on the way to the parts of the value that
// the pointer names, or in one of them.
func (r *reader) touches(pointer []string) (found bool) {
	if r.hidden() != nil {
		r.skip()
		return true
	}
	switch {
	case len(pointer) == 0:
		r.skip()
		return len(r.spans) > 0 && r.spans[0].from < r.pos
	case r.kind() == '{':
		r.object(func(name []byte) bool {
			if says(name, pointer[0]) {
				found = r.touches(pointer[1:]) || found
			} else {
				r.skip()
			}
			return true
		})
	case r.kind() == '[' && isIndex(pointer[0]):
		r.array(func() bool {
			found = r.touches(pointer[1:]) || found
			return true
		})
	default:
		r.skip()
	}
	return found
}
