package fingerprint

import (
	"strings"
	"unicode/utf8"
)

// Title returns an error message in which placeholders replace everything that differs from case to case:
//
//	<n>      numbers, with their units of size, and versions
//	<id>     UUIDs, mixtures of letters and digits, short codes in quotes, queries of URLs,
//	         values of keys as databases report them: (id)=(5)
//	<hex>    hexadecimal numbers and hashes, identities of objects (Order@1b2c3d)
//	<time>   timestamps, dates, times of day, durations
//	<addr>   IPv4 and IPv6 addresses, with or without ports, and hosts with ports
//	<email>  e-mail addresses
//
// Words stay. Codes stay too, because they distinguish causes: ORA-00942, a short code after "code", "error" or
// "SQLSTATE", and statuses of HTTP after "status", "HTTP" or "got" and before their names. Equal placeholders in a list
// become one, several spaces become one, and of several lines only the most informative one is used. Title returns its
// own results unchanged. The title is UTF-8, on one line, and at most 512 bytes long.
func Title(message string) string {
	s := telling(message)
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	for range maxPasses {
		title := pass(s)
		if title == s {
			break
		}
		s = title
	}
	return s
}

// maxPasses limits the passes over a title. A title is processed until it no longer changes, because the text next to a
// new placeholder may be recognised only in the next pass. Few titles change after the first pass.
const maxPasses = 6

func pass(s string) string {
	var space [256]byte
	t := titler{s: s, out: space[:0]}
	for t.i < len(t.s) && len(t.out) <= maxTitle {
		t.next()
	}
	return t.done()
}

func (t *titler) next() {
	switch b := t.s[t.i]; {
	case isSpace(b):
		t.i++
		if n := len(t.out); n > 0 && t.out[n-1] != ' ' {
			t.out = append(t.out, ' ')
		}
	case isAlnum(b):
		t.token()
	case b == '<' && t.placeholder():
	case b == '\'' || b == '"' || b == '`':
		t.quoted()
	case (b == '-' || b == '+') && isDigit(at(t.s, t.i+1)) && t.signed():
		t.i++ // drops the sign: the placeholder of the number stands for it too
	case b == ':' && t.ip6():
	case b == '[' && t.bracketed():
	case b == '(' && t.keyValue():
	case b == '@' && t.identity():
	default:
		t.copy(1)
	}
}

// placeholder copies a placeholder that an earlier pass wrote.
func (t *titler) placeholder() bool {
	n := placeholderAt(t.s, t.i)
	switch p := t.s[t.i : t.i+n]; p {
	case "":
		return false
	case "<n>":
		t.plain(t.i + n)
	default:
		t.put(p, t.i+n)
	}
	return true
}

// placeholderAt returns the length of the placeholder at i, or 0 when there is none.
func placeholderAt(s string, i int) int {
	if at(s, i) != '<' {
		return 0
	}
	for _, p := range [...]string{"<n>", "<id>", "<hex>", "<time>", "<addr>", "<email>"} {
		if strings.HasPrefix(s[i:], p) {
			return len(p)
		}
	}
	return 0
}

// signed reports whether the character at i is the sign of a number, not a hyphen.
func (t *titler) signed() bool {
	return t.i == 0 || strings.IndexByte(" \t=(:,[{", t.s[t.i-1]) >= 0
}
