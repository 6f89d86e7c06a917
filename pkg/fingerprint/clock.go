package fingerprint

import "strings"

// clock consumes a timestamp, a date or a time of day that begins with a digit.
func (t *titler) clock() bool {
	end := dateEnd(t.s, t.i)
	if end == 0 {
		if end = timeEnd(t.s, t.i); end > 0 {
			t.put("<time>", zoneEnd(t.s, end))
		}
		return end > 0
	}
	if b := at(t.s, end); b|0x20 == 't' || b == ' ' || b == '_' {
		if e := timeEnd(t.s, end+1); e > 0 {
			end = zoneEnd(t.s, e)
		}
	}
	if !ended(t.s, end) {
		return false
	}
	t.put("<time>", end)
	return true
}

// dateEnd returns where 2026-11-21, 2026/11/21, 21.11.2026, 11/21/2026 or 20261121T ends; 0 when no date begins at i.
func dateEnd(s string, i int) int {
	first := digits(s, i, 5) - i
	sep := at(s, i+first)
	if first == 5 && digits(s, i, 9) == i+8 && at(s, i+8) == 'T' && isDigit(at(s, i+9)) {
		return i + 8
	}
	if sep != '-' && sep != '/' && sep != '.' || first != 4 && first > 2 {
		return 0
	}
	second := digits(s, i+first+1, 3)
	if n := second - (i + first + 1); n < 1 || n > 2 || at(s, second) != sep {
		return 0
	}
	end := digits(s, second+1, 5)
	third := end - (second + 1)
	if first == 4 && third >= 1 && third <= 2 || first <= 2 && third == 4 {
		if sep != '.' || first != 4 { // 2026.1.2 is a version
			return end
		}
	}
	return 0
}

// timeEnd returns where 10:00, 10:00:00, 10:00:00.123, 10:00:00,123, T100000 or T100000.123 ends; 0 when no time of day
// begins at i.
func timeEnd(s string, i int) int {
	end := digits(s, i, 7)
	if end == i+6 && i > 0 && s[i-1] == 'T' {
		return fractionEnd(s, end)
	}
	if end-i < 1 || end-i > 2 || at(s, end) != ':' {
		return 0
	}
	minutes := digits(s, end+1, 3)
	if minutes != end+3 || s[end+1] > '5' {
		return 0
	}
	if at(s, minutes) != ':' {
		if !ended(s, minutes) && s[minutes] != 'Z' || end-i != 2 {
			return 0
		}
		return minutes
	}
	seconds := digits(s, minutes+1, 3)
	if seconds != minutes+3 || s[minutes+1] > '6' || at(s, seconds) == ':' {
		return 0
	}
	return fractionEnd(s, seconds)
}

func fractionEnd(s string, i int) int {
	if b := at(s, i); (b == '.' || b == ',') && isDigit(at(s, i+1)) {
		return digits(s, i+1, 9)
	}
	return i
}

// zoneEnd returns where the time zone after a time ends, such as Z, +01:00, " +0100" or " UTC", or where AM or PM ends;
// i when neither follows.
func zoneEnd(s string, i int) int {
	if at(s, i) == 'Z' && ended(s, i+1) {
		return i + 1
	}
	from := i
	if at(s, from) == ' ' {
		from++
	}
	if b := at(s, from); (b == '+' || b == '-') && digits(s, from+1, 2) == from+3 {
		end := from + 3
		if at(s, end) == ':' {
			end++
		}
		if e := digits(s, end, 3); e == end+2 && ended(s, e) {
			return e
		}
		return i
	}
	for _, zone := range [...]string{"UTC", "GMT", "CET", "CEST", "EST", "EDT", "PST", "PDT", "AM", "PM"} {
		if strings.HasPrefix(s[from:], zone) && ended(s, from+len(zone)) {
			return from + len(zone)
		}
	}
	return i
}

// writtenDate consumes a date that contains the name of a month, in forms such as "Sat Nov 21 10:00:00 UTC 2026", "Sat,
// 21 Nov 2026 10:00:00 GMT", "21-Nov-2026" and "Nov 21 10:00:00".
func (t *titler) writtenDate() bool {
	s, i := t.s, t.i
	if isName(s, i, weekdays) {
		i += 3
		if at(s, i) == ',' {
			i++
		}
		if at(s, i) != ' ' {
			return false
		}
		i++
	}
	end := monthDay(s, i)
	if end == 0 {
		return false
	}
	end = yearEnd(s, end)
	if e := timeEnd(s, end+1); e > 0 && at(s, end) == ' ' {
		end = yearEnd(s, zoneEnd(s, e))
	}
	if !ended(s, end) {
		return false
	}
	t.put("<time>", end)
	return true
}

const (
	weekdays = "MonTueWedThuFriSatSun"
	months   = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

func isName(s string, i int, names string) bool {
	if i+3 > len(s) || !ended(s, i+3) {
		return false
	}
	n := strings.Index(names, s[i:i+3])
	return n >= 0 && n%3 == 0
}

// monthDay returns where "Nov 21", "21 Nov", "21-Nov" or "21/Nov" ends; 0 when none of them begins at i.
func monthDay(s string, i int) int {
	if isName(s, i, months) && at(s, i+3) == ' ' {
		from := i + 4
		if at(s, from) == ' ' { // a day of one digit has two spaces before it
			from++
		}
		if end := digits(s, from, 3); end > from && end <= from+2 && ended(s, end) {
			return end
		}
		return 0
	}
	end := digits(s, i, 3)
	if b := at(s, end); end > i && end <= i+2 && (b == ' ' || b == '-' || b == '/') && isName(s, end+1, months) {
		return end + 4
	}
	return 0
}

// yearEnd returns the end of a year that follows a separator at i; i when no year follows.
func yearEnd(s string, i int) int {
	from := i
	if at(s, from) == ',' {
		from++
	}
	if b := at(s, from); b == ' ' || b == '-' || b == '/' {
		if end := digits(s, from+1, 5); end == from+5 && ended(s, end) {
			return end
		}
	}
	return i
}
