package format

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible escapes invisible characters and characters that reverse text. It keeps line feeds and tabs.
func Visible(s string) string {
	if strings.IndexFunc(s, unseen) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unseen(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unseen reports whether a character is a control character, reverses text, or has no width.
func unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		return false
	case r == 0x200c || r == 0x200d: // zero-width joiners are shown, because scripts and emoji need them
		return false
	default:
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029
	}
}

// WholeText removes an incomplete last character from raw, and reports whether the rest is text. The parameter cut
// means that raw was cut, so its last character may be incomplete.
func WholeText(raw []byte, cut bool) (string, bool) {
	if cut {
		for i := 0; i < utf8.UTFMax && len(raw) > 0; i++ {
			if r, size := utf8.DecodeLastRune(raw); r != utf8.RuneError || size > 1 {
				break
			}
			raw = raw[:len(raw)-1]
		}
	}
	return string(raw), utf8.Valid(raw)
}

// ClipBytes returns the beginning of a text, at most n bytes, and whether that is the whole text.
func ClipBytes(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, true
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], false
}

// HexDump returns bytes in hex and as ASCII, 16 bytes per line.
func HexDump(raw []byte) string { return strings.TrimSuffix(hex.Dump(raw), "\n") }

// Beginning clips a text like Clip, but reads only the beginning, because the text may be very long.
func Beginning(n int, text string) string {
	text, _ = ClipBytes(text, (n+1)*4) // a character has at most 4 bytes
	return Clip(n, text)
}
