package fingerprint

import "bytes"

const maxTitle = 512 // maximum bytes of a title; a longer one is cut

// titler processes a text once. Its methods consume the text at i: they append the text, or a placeholder for it, to
// out, and move i past it. Methods that return a bool return false, and consume nothing, when they do not find their
// kind of text at i. A method either looks only a limited number of bytes ahead or consumes what it has read, so that
// the time is linear in the length of the text.
type titler struct {
	s    string
	i    int    // index in s of the first byte that is not processed yet
	out  []byte // the title so far
	word string // the last word of s, if only characters such as : and = follow it; otherwise ""
}

func (t *titler) copy(n int) {
	switch t.s[t.i] {
	case ':', '=', '"', '\'', '(', '[', '-', '_', '#', '/':
	default:
		t.word = ""
	}
	t.out = append(t.out, t.s[t.i:t.i+n]...)
	t.i += n
}

// put replaces the text from i to end by a placeholder. In a list of equal placeholders that are separated by commas,
// only the first one stays.
func (t *titler) put(placeholder string, end int) {
	t.i, t.word = end, ""
	t.append(placeholder)
}

func (t *titler) append(placeholder string) {
	before := t.out
	if n := len(before); n > 0 && before[n-1] == ' ' {
		before = before[:n-1]
	}
	if n := len(before); n > 0 && before[n-1] == ',' {
		before = before[:n-1]
		if n -= 1 + len(placeholder); n >= 0 && string(before[n:]) == placeholder {
			t.out = before
			return
		}
	}
	t.out = append(t.out, placeholder...)
}

// done returns the title. It cuts a title of more than maxTitle bytes before its last word or, if that word is long,
// within the word.
func (t *titler) done() string {
	out := t.out
	if len(out) > maxTitle {
		end := maxTitle
		for end > maxTitle-64 && out[end] != ' ' {
			end--
		}
		if out[end] != ' ' {
			for end = maxTitle; out[end]&0xc0 == 0x80; {
				end--
			}
		}
		out = out[:end]
	}
	out = bytes.TrimRight(out, " ")
	if string(out) == t.s {
		return t.s
	}
	return string(out)
}
