package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// TimeLayout is RFC 3339 in UTC with milliseconds. It writes +00:00 instead of Z, because clients of the first version
// of the API parse times in this form.
const TimeLayout = "2006-01-02T15:04:05.000+00:00"

// shownTime reports whether an answer can show t. A time can be shown if it is known and its year is valid in RFC 3339.
func shownTime(t time.Time) bool {
	return !t.IsZero() && t.UTC().Year() >= 0 && t.UTC().Year() <= 9999
}

// Stamp returns the text of a time, or nil for a time that cannot be shown.
func Stamp(t time.Time) *string {
	if !shownTime(t) {
		return nil
	}
	text := t.UTC().Format(TimeLayout)
	return &text
}

// OrNull returns a pointer to v. The zero value means "not known"; for it OrNull returns nil, which becomes null in
// JSON.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Encode returns v as JSON without a final newline. Bytes that are not UTF-8 become U+FFFD. It panics on an error,
// which cannot occur because v always has a type that JSON can express.
func Encode(v any) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Errorf("encode answer: %w", err))
	}
	return escapeMarks(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// Each converts the items of a list. The result is never nil, because clients iterate over it.
func Each[T, J any](list []T, show func(T) J) []J {
	shown := make([]J, 0, len(list))
	for _, item := range list {
		shown = append(shown, show(item))
	}
	return shown
}

// ListOf returns the list, or an empty list for nil, because clients iterate over it.
func ListOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// The functions below write JSON without reflection, because an export of a million messages spends most of its time
// with this. They write the same JSON as Encode returns.

const hexDigits = "0123456789abcdef"

// appendText writes a text as a JSON string. It also escapes characters that change how the text after them is
// displayed, because people read answers in terminals and logs.
func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if plainBytes[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, text[start:i]...)
			dst = appendEscaped(dst, rune(c))
			i++
			start = i
			continue
		}
		r, size := decodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || escapedRune(r) {
			dst = append(dst, text[start:i]...)
			dst = appendEscaped(dst, r)
			start = i + size
		}
		i += size
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

// plainBytes are the ASCII characters that need no escape in JSON text.
var plainBytes = func() (plain [256]bool) {
	for c := range utf8.RuneSelf {
		plain[c] = c >= ' ' && c != '"' && c != '\\' && c != 0x7f
	}
	return plain
}()

func decodeRune[T ~string | ~[]byte](text T) (rune, int) {
	return utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
}

// escapedRune reports whether a character beyond ASCII may change the order or the lines in which text is displayed.
func escapedRune(r rune) bool {
	switch {
	case r < 0x80, r > 0xfeff:
		return false
	case r < 0xa0, r == 0x061c, r == 0xfeff:
		return true
	case r < 0x200b || r > 0x2069:
		return false
	default:
		return r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060
	}
}

func appendEscaped(dst []byte, r rune) []byte {
	const short, letters = "\"\\\n\r\t\b\f", `"\nrtbf`
	if i := strings.IndexRune(short, r); i >= 0 {
		return append(dst, '\\', letters[i])
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// escapeMarks escapes, in the output of encoding/json, the characters that only appendText escapes. In JSON these
// characters can occur only within strings.
func escapeMarks(text []byte) []byte {
	if !bytes.ContainsFunc(text, escapedMark) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range string(text) {
		if escapedMark(r) {
			out = appendEscaped(out, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func escapedMark(r rune) bool { return r == 0x7f || escapedRune(r) }

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendBlob writes bytes as text if they are valid UTF-8, and otherwise as base64. It writes nil as null.
func appendBlob(dst, b []byte) []byte {
	switch {
	case b == nil:
		return append(dst, "null"...)
	case utf8.Valid(b):
		dst = append(dst, `{"encoding":"utf8","data":`...)
		dst = appendText(dst, b)
	default:
		dst = append(dst, `{"encoding":"base64","data":`...)
		dst = appendBase64(dst, b)
	}
	return append(dst, '}')
}

// appendStamp writes a time as Stamp shows it.
func appendStamp(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if t.IsZero() || year < 0 || year > 9999 {
		return append(dst, "null"...)
	}
	hour, minute, second := t.Clock()
	milli := t.Nanosecond() / 1e6
	dst = append(dst, `"0000-00-00T00:00:00.000+00:00"`...)
	at := dst[len(dst)-len(`0000-00-00T00:00:00.000+00:00"`):]
	twoDigits(at, year/100)
	twoDigits(at[2:], year%100)
	twoDigits(at[5:], int(month))
	twoDigits(at[8:], day)
	twoDigits(at[11:], hour)
	twoDigits(at[14:], minute)
	twoDigits(at[17:], second)
	at[20] = byte('0' + milli/100)
	twoDigits(at[21:], milli%100)
	return dst
}

func twoDigits(at []byte, n int) { at[0], at[1] = byte('0'+n/10), byte('0'+n%10) }

func appendID(dst []byte, id uuid.UUID) []byte {
	dst = append(dst, '"')
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return append(dst, '"')
}
