package payload

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Reading is a key or a value as JSON, with what the masks hide in it. All that shows, searches, counts or patches a
// part of a record reads it through a Reading: the masks are matched only when it is made. A Reading never changes and
// is safe for concurrent use.
type Reading struct {
	text  []byte
	json  bool // text is JSON
	spans []span
	masks *Masks
}

// span is a part of the text that is hidden: a value at a masked path; or a JSON string that contains, as text, JSON with
// such a value.
type span struct {
	from, to int
	rules    []int  // the masking rules that hide something in it
	shown    []byte // what is shown in its place
	inside   bool   // only parts of the string's text are hidden
}

// opaque are the rules of a span that cannot be looked into: any rule may concern it.
const opaque = -1

// Read returns a text as masks let it be seen. names are those of the schema with which it was decoded; nil without a
// schema. Kafka's null and an empty text have nothing to hide. If the configuration masks any path, a text that is not
// JSON is hidden as a whole.
func (m *Masks) Read(text []byte, names entity.Names) Reading {
	r := Reading{text: text, masks: m}
	if len(text) == 0 {
		return r
	}
	c, ok := open(text)
	if r.json = ok; len(m.rules()) == 0 {
		return r
	}
	if !ok {
		r.spans = m.wholly(text)
		return r
	}
	w := masker{walk: walk{cursor: c, rules: m.rules(), states: m.rules().begin()}}
	w.value(0, names)
	r.spans = w.spans
	return r
}

// ReadPart returns the key or the value of a message as masks let it be seen; d is what its decoder returned. A part
// with a schema that could not be decoded is hidden if the configuration masks any path. The text of such a value is
// empty; that of a key has the key's bytes.
func (m *Masks) ReadPart(r *entity.Record, part entity.RecordPart, d entity.Decoded) Reading {
	switch {
	case d.Format != entity.NoFormat && d.JSON == nil && part == entity.KeyPart:
		return Reading{text: r.Key, masks: m, spans: m.wholly(r.Key)}
	case d.Format != entity.NoFormat && d.JSON == nil:
		return Reading{masks: m, spans: m.wholly(nil)}
	case d.Format != entity.NoFormat:
		return m.Read(d.JSON, d.Names)
	case part == entity.ValuePart:
		return m.Read(r.Value, nil)
	}
	return m.readKey(r.Key)
}

// readKey reads a key without a schema. Most of them are a plain text, which is no place of a masked path but $. Bytes
// that are no such text are hidden if the configuration masks any path: they may be a record that was written with a
// schema that no configured registry has.
func (m *Masks) readKey(key []byte) Reading {
	if isPlain(key) && !slices.ContainsFunc(m.rules(), func(p Path) bool { return !slices.ContainsFunc(p.steps, func(s step) bool { return !s.each }) }) {
		return Reading{text: key, masks: m, json: Valid(key)}
	}
	return m.Read(key, nil)
}

// isPlain reports whether a text is written in characters, and contains nothing that looks like JSON with other values.
func isPlain(text []byte) bool {
	return utf8.Valid(text) && !structured(string(text)) && !strings.ContainsFunc(string(text), func(r rune) bool {
		return r == '{' || r == '"' || unicode.IsControl(r)
	})
}

func (m *Masks) wholly(text []byte) []span {
	if len(m.rules()) == 0 {
		return nil
	}
	return []span{{to: len(text), rules: []int{opaque}, shown: []byte("***")}}
}

// Hides reports whether anything in the text is hidden.
func (r Reading) Hides() bool { return len(r.spans) > 0 }

// Shown returns the text with Mask in place of each hidden value. names lists the masked paths at which values were
// replaced, in the form of Path.String; "$" for a text that could not be looked into. All other bytes stay unchanged,
// including duplicate members and white space. When nothing is hidden, the result is the text itself.
func (r Reading) Shown() (text []byte, names []string) {
	if len(r.spans) == 0 {
		return r.text, nil
	}
	copied := 0
	for _, s := range r.spans {
		text = append(append(text, r.text[copied:s.from]...), s.shown...)
		copied = s.to
	}
	return append(text, r.text[copied:]...), r.names()
}

func (r Reading) names() []string {
	hit := map[int]bool{}
	for _, s := range r.spans {
		for _, rule := range s.rules {
			hit[rule] = true
		}
	}
	var all []string
	if hit[opaque] {
		all = append(all, Path{}.String())
	}
	for i, p := range r.masks.rules() {
		if name := p.String(); hit[i] && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// reader is a cursor that knows which values are hidden.
type reader struct {
	*cursor
	spans []span // those that end after the cursor
}

// reader returns a cursor at the value; ok is false when the text is not JSON.
func (r Reading) reader() (c reader, ok bool) {
	c = reader{&cursor{data: r.text}, r.spans}
	if r.json {
		c.space()
	}
	return c, r.json
}

// hidden returns the span that the value at the cursor is; nil when nothing of the value itself is hidden.
func (r *reader) hidden() *span {
	for len(r.spans) > 0 && r.spans[0].to <= r.pos {
		r.spans = r.spans[1:]
	}
	if len(r.spans) > 0 && r.spans[0].from == r.pos {
		return &r.spans[0]
	}
	return nil
}

// masker finds the hidden values of a text.
type masker struct {
	walk
	spans   []span
	strings int // how many strings contain the text
}

// maxStrings is how many strings within each other are looked into for JSON.
const maxStrings = 4

// value skips a value and hides what must be hidden in it. The masking rules' states for this value are those in
// m.states from the index from on.
func (m *masker) value(from int, names entity.Names) {
	base := len(m.states)
	switch masked := m.enter(from); {
	case masked:
		m.hide(from)
	case from == base:
		m.skip()
	case m.kind() == '{':
		m.object(func(name []byte) bool {
			m.value(base, m.toNamed(from, base, name, names))
			return true
		})
	case m.kind() == '[':
		if names != nil {
			names = names.Element()
		}
		m.array(func() bool {
			m.toElement(from, base)
			m.value(base, names)
			return true
		})
	case m.kind() == '"':
		m.string(from)
	default:
		m.scalar()
	}
}

func (m *masker) hide(from int) {
	s := span{from: m.pos, shown: []byte(Mask)}
	for _, state := range m.states[from:] {
		if m.rules.finished(state) && !slices.Contains(s.rules, state.rule) {
			s.rules = append(s.rules, state.rule)
		}
	}
	m.skip()
	s.to = m.pos
	m.spans = append(m.spans, s)
}

// string skips a string that a rule may concern, and looks for JSON in its text. Such JSON has the path of the string. A
// string that begins like JSON and cannot be looked into is hidden.
func (m *masker) string(from int) {
	begin := m.pos
	raw := m.text()
	if c := raw[1]; c > ' ' && c < utf8.RuneSelf && c != '{' && c != '[' && c != '"' && c != '\\' {
		return
	}
	text := unquote(raw)
	if !structured(text) {
		return
	}
	s := span{from: begin, to: m.pos, shown: []byte(Mask), rules: []int{opaque}}
	if c, ok := open([]byte(trim(text))); ok && m.strings < maxStrings {
		inner := masker{walk: walk{cursor: c, rules: m.rules, states: slices.Clone(m.states[from:])}, strings: m.strings + 1}
		if inner.value(0, nil); len(inner.spans) == 0 {
			return
		}
		r := Reading{text: c.data, spans: inner.spans}
		s.rules, s.inside = nil, true
		for _, hidden := range inner.spans {
			s.rules = append(s.rules, hidden.rules...)
		}
		shown, _ := r.Shown()
		s.shown = []byte(quote(string(shown)))
	}
	m.spans = append(m.spans, s)
}

// structured reports whether a text begins like JSON that may contain other values.
func structured(text string) bool {
	text = trim(text)
	return text != "" && strings.IndexByte(`{["`, text[0]) >= 0
}

// trim removes what some producers write around JSON: spaces, a byte order mark and other characters that nobody sees.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) })
}
