package fingerprint

import "strings"

const (
	maxClass = 512
	maxStack = 256 << 10
)

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// isLetter treats every byte that is not ASCII as a letter.
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80 }

func isAlnum(b byte) bool { return isDigit(b) || isLetter(b) }

func isHex(b byte) bool { return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }

func isSpace(b byte) bool { return b <= ' ' || b == 0x7f }

// run returns the index after the longest sequence of bytes that begins at i and that the function is accepts.
func run(s string, i int, is func(byte) bool) int {
	for i < len(s) && is(s[i]) {
		i++
	}
	return i
}

// digits returns the index after the digits that begin at i. It reads at most limit digits.
func digits(s string, i, limit int) int {
	end := min(len(s), i+limit)
	for i < end && isDigit(s[i]) {
		i++
	}
	return i
}

// at returns the byte at i, or 0 when i is outside of s.
func at(s string, i int) byte {
	if i < len(s) && i >= 0 {
		return s[i]
	}
	return 0
}

func ended(s string, i int) bool { return i >= len(s) || !isAlnum(s[i]) }

// trim removes ASCII spaces and control characters at both ends.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

func countDigits(text string) int {
	n := 0
	for i := range len(text) {
		if isDigit(text[i]) {
			n++
		}
	}
	return n
}

// clean returns text as one line of valid UTF-8 without ASCII control characters, of at most limit bytes.
func clean(text string, limit int) string {
	if run(text, 0, func(b byte) bool { return b > ' ' && b < 0x7f }) == len(text) {
		return cut(text, limit) // the usual case
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	return cut(text, limit)
}

// cut shortens valid UTF-8 to at most limit bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xc0 == 0x80 {
		limit--
	}
	return strings.TrimRight(text[:limit], " ")
}
