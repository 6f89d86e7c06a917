package payload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Mask is the JSON string that replaces a masked value.
const Mask = `"***"`

// Masks are the rules that say which values are masked. A *Masks never changes and is safe for concurrent use. A nil
// *Masks masks nothing.
type Masks struct {
	paths   rules
	headers []string // names in lower case; * matches any characters
}

// NewMasks returns the masks of a configuration that Validate accepts.
func NewMasks(cfg MaskConfig) (*Masks, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Masks{}
	for _, text := range cfg.Payload {
		p, err := ParsePath(text)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(m.paths, func(other Path) bool { return slices.Equal(other.steps, p.steps) }) {
			m.paths = append(m.paths, p)
		}
	}
	for _, name := range cfg.Headers {
		m.headers = append(m.headers, strings.ToLower(strings.TrimSpace(name)))
	}
	return m, nil
}

// OrAll returns masks that hide every value, if m masks any path. They are for texts of which the schema's names are not
// known.
func (m *Masks) OrAll() *Masks {
	if len(m.rules()) == 0 {
		return m
	}
	return &Masks{paths: rules{{}}, headers: m.headers}
}

func (m *Masks) rules() rules {
	if m == nil {
		return nil
	}
	return m.paths
}

// Empty reports whether nothing is masked.
func (m *Masks) Empty() bool { return m == nil || len(m.paths)+len(m.headers) == 0 }

// Version returns a hash of the masking rules. The search index stores text without masked values, so it is filled
// again when the hash has changed.
func (m *Masks) Version() uint64 {
	h := sha256.New()
	for _, p := range m.rules() {
		fmt.Fprintf(h, "path %q\n", p.String())
	}
	if m != nil {
		for _, name := range m.headers {
			fmt.Fprintf(h, "header %q\n", name)
		}
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// Header reports whether the values of the header with this name are masked.
func (m *Masks) Header(name string) bool {
	if m == nil {
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(m.headers, func(glob string) bool { return matches(glob, name) })
}

// separators removes the characters that some spellings of a header's name contain and others do not.
var separators = strings.NewReplacer("-", "", "_", "", ".", "")

// HeaderLike reports whether a header may be masked whose name is equal to folded when it is written in lower case and
// without hyphens, underscores and dots.
func (m *Masks) HeaderLike(folded string) bool {
	return m != nil && slices.ContainsFunc(m.headers, func(glob string) bool { return matches(separators.Replace(glob), folded) })
}

// matches reports whether name matches glob, in which * stands for any characters. It needs only linear time, because
// each part between two stars is matched at its first occurrence.
func matches(glob, name string) bool {
	parts := strings.Split(glob, "*")
	last := len(parts) - 1
	if last == 0 {
		return glob == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1:last] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// CoversPath reports whether the value at p is masked, is a part of a masked value, or contains a masked value.
func (m *Masks) CoversPath(p Path) bool {
	states := m.rules().begin()
	for _, s := range p.steps {
		states = m.rules().follow(states, s.name, !s.each, s.each)
	}
	return len(states) > 0
}

// Fits reports for each masked path, in the form of Path.String, whether a schema with these names has a value there.
func (m *Masks) Fits(names entity.Names) map[string]bool {
	all := map[string]bool{}
	for _, p := range m.rules() {
		all[p.String()] = fits(p.steps, names)
	}
	return all
}

func fits(steps []step, names entity.Names) bool {
	switch {
	case len(steps) == 0:
		return true
	case steps[0].each:
		return fits(steps[1:], names) || names != nil && fits(steps[1:], names.Element())
	case names == nil:
		return false
	}
	known := names.Known()
	if known == nil {
		if element := names.Element(); element != nil {
			return fits(steps, element)
		}
		known = []string{steps[0].name} // of a map
	}
	return slices.ContainsFunc(known, func(name string) bool {
		all, value, branch := names.Member(name)
		return slices.Contains(all, steps[0].name) && fits(steps[1:], value) || branch && fits(steps, value)
	})
}
