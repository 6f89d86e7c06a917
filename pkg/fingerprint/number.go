package fingerprint

import "strings"

// number consumes a text that begins with a digit: a number with its decimals, exponent and unit; a code; a duration; a
// version; a mixture of digits and letters.
func (t *titler) number() {
	end := run(t.s, t.i, isDigit)
	whole := end - t.i
	for at(t.s, end) == '.' && isDigit(at(t.s, end+1)) {
		end = run(t.s, end+1, isDigit)
	}
	switch {
	case ended(t.s, end):
		if end-t.i == whole && t.isCode(whole) {
			t.out = append(t.out, t.s[t.i:end]...)
			t.i, t.word = end, ""
			return
		}
		t.plain(end)
	case durationEnd(t.s, t.i) > 0:
		t.put("<time>", durationEnd(t.s, t.i))
	default:
		t.mixture(end)
	}
}

// plain consumes a number without a unit. After the version in HTTP/1.1, it keeps HTTP as the last word, so that the
// number after the version is recognised as a status.
func (t *titler) plain(end int) {
	word := t.word
	version := at(t.s, t.i-1) == '/' && strings.EqualFold(word, "http")
	if t.put("<n>", end); version {
		t.word = word
	}
}

// mixture consumes a number that is followed by letters without a space.
func (t *titler) mixture(end int) {
	if e := end + 1; t.s[end]|0x20 == 'e' {
		if b := at(t.s, e); b == '-' || b == '+' {
			e++
		}
		if after := run(t.s, e, isDigit); after > e && ended(t.s, after) {
			t.put("<n>", after)
			return
		}
	}
	after := run(t.s, end, isAlnum)
	switch tail := t.s[end:after]; {
	case isUnit(tail):
		t.put("<n>", after)
	case countDigits(tail) == 0 && after-t.i <= 3: // keeps short texts such as 2nd and 4xx
		t.out = append(t.out, t.s[t.i:after]...)
		t.i, t.word = after, ""
	default:
		t.put("<id>", after)
	}
}

func isUnit(text string) bool {
	switch strings.ToLower(text) {
	case "b", "k", "m", "g", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "bytes", "px", "x", "th", "l", "f":
		return true
	}
	return false
}

// durationEnd returns where a duration that begins at i ends: 500ms, 1h30m, 1.5s; 0 when no duration begins at i.
func durationEnd(s string, i int) int {
	for {
		end := run(s, i, isDigit)
		if end == i {
			return 0
		}
		if at(s, end) == '.' && isDigit(at(s, end+1)) {
			end = run(s, end+1, isDigit)
		}
		unit := timeUnit(s[end:])
		if unit == 0 {
			return 0
		}
		i = end + unit
		if ended(s, i) {
			return i
		}
	}
}

func timeUnit(s string) int {
	for _, u := range [...]string{"ns", "us", "µs", "μs", "ms", "secs", "sec", "mins", "min", "hrs", "hr", "s", "m", "h", "d"} {
		if strings.HasPrefix(s, u) && (len(s) == len(u) || !isLetter(s[len(u)])) {
			return len(u)
		}
	}
	return 0
}

// isDuration reports whether text is an ISO 8601 duration such as PT1H30M or P1D.
func isDuration(text string) bool {
	if text[0] != 'P' || !isDigit(text[len(text)-2]) {
		return false
	}
	for i := 1; i < len(text); i++ {
		if !isDigit(text[i]) && strings.IndexByte("YMWDTHS", text[i]) < 0 {
			return false
		}
	}
	return true
}
