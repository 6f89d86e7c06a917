package payload

// Payload returns value with Mask in place of each value at a masked path. names lists the masked paths at which values
// were replaced, in the form of Path.String. All other bytes stay unchanged, including duplicate members and white
// space. If the configuration masks any path, a value that is not JSON is masked as a whole, with the name "$". Kafka's
// null and a value without bytes stay unchanged. When nothing was masked, the result is value itself.
func (m *Masks) Payload(value []byte) (masked []byte, names []string) {
	if len(m.rules()) == 0 || len(value) == 0 {
		return value, nil
	}
	c, ok := open(value)
	if !ok {
		return []byte("***"), []string{"$"}
	}
	w := newMasker(c, m.rules(), m.rules().begin())
	w.value(0)
	return w.result(), w.names()
}

type masker struct {
	walk
	out    []byte
	copied int // number of bytes of the input that out contains, unchanged or masked
	hit    []bool
}

func newMasker(c *cursor, r rules, states []state) *masker {
	return &masker{walk: walk{cursor: c, rules: r, states: states}, hit: make([]bool, len(r))}
}

// value skips a value and masks what must be masked in it. The masking rules' states for this value are those in
// m.states from the index from on.
func (m *masker) value(from int) {
	base := len(m.states)
	switch masked := m.enter(from); {
	case masked:
		m.hide(from)
	case from == base:
		m.skip()
	case m.kind() == '{':
		m.object(func(name []byte) bool {
			m.toMember(from, base, name)
			m.value(base)
			return true
		})
	case m.kind() == '[':
		m.array(func() bool {
			m.toElement(from, base)
			m.value(base)
			return true
		})
	default:
		m.scalar()
	}
}

func (m *masker) hide(from int) {
	for _, s := range m.states[from:] {
		if m.rules.finished(s) {
			m.hit[s.rule] = true
		}
	}
	m.out = append(append(m.out, m.data[m.copied:m.pos]...), Mask...)
	m.skip()
	m.copied = m.pos
}

func (m *masker) result() []byte {
	if m.copied == 0 {
		return m.data
	}
	return append(m.out, m.data[m.copied:]...)
}

func (m *masker) names() []string {
	var all []string
	for i, hit := range m.hit {
		if hit {
			all = append(all, m.rules[i].String())
		}
	}
	return all
}
