package fingerprint

import "strings"

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// isLetter treats every byte beyond ASCII as a letter.
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80 }

func isAlnum(b byte) bool { return isDigit(b) || isLetter(b) }

func isHex(b byte) bool { return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }

func isSpace(b byte) bool { return b <= ' ' || b == 0x7f }

// run returns the end of the longest sequence from i whose bytes all satisfy is.
func run(s string, i int, is func(byte) bool) int {
	for i < len(s) && is(s[i]) {
		i++
	}
	return i
}

// digits is run for at most limit digits.
func digits(s string, i, limit int) int {
	end := min(len(s), i+limit)
	for i < end && isDigit(s[i]) {
		i++
	}
	return i
}

// at returns the byte at i, or 0 after the end.
func at(s string, i int) byte {
	if i < len(s) && i >= 0 {
		return s[i]
	}
	return 0
}

func ended(s string, i int) bool { return i >= len(s) || !isAlnum(s[i]) }

// trim cuts ASCII space and control characters off both ends.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
