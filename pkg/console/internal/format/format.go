// Package format writes numbers, times, sizes and JSON as the pages show them, and bounds texts that may be long.
package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ago returns the time between t and the parameter now in words, and a dash for the zero time.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	d := now.Sub(t)
	switch {
	case d <= -time.Second:
		return "in " + Rough(-d)
	case d < 5*time.Second:
		return "just now"
	}
	return Rough(d) + " ago"
}

// Rough returns a length of time in seconds, minutes, hours (up to 47) or days, rounded down.
func Rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + " d"
	}
}

// UTC returns a time to the millisecond, and "" for the zero time.
func UTC(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// ReadTime converts a time as people write it, in UTC, to RFC 3339. Other texts are unchanged.
func ReadTime(text string) string {
	for _, layout := range []string{"2006-01-02", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return text
}

// Input returns a time that ReadTime accepts in the form that an input of type datetime-local takes, in UTC. For a text
// that is not a time it returns "".
func Input(text string) string {
	at, err := time.Parse(time.RFC3339, ReadTime(text))
	if err != nil {
		return ""
	}
	if at = at.UTC(); at.Second() == 0 {
		return at.Format("2006-01-02T15:04")
	}
	return at.Format("2006-01-02T15:04:05")
}

// ISO returns a time in RFC 3339, for programs that read the page, and "" for the zero time.
func ISO(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Number returns an integer, or the integer that an *int64 points to, with commas between thousands.
func Number(n any) string {
	if p, ok := n.(*int64); ok && p != nil {
		n = *p
	}
	text := fmt.Sprint(n)
	digits, sign := strings.TrimPrefix(text, "-"), ""
	if len(digits) < len(text) {
		sign = "-"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Bytes returns a number of bytes as text, in the largest of B, KiB and MiB of which it has at least one.
func Bytes(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	default:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
}

// Percent returns a share as a percentage. A share just above 0 is "< 1 %", and a share just below 1 is "> 99 %".
func Percent(share float64) string {
	p := math.Round(share * 100)
	switch {
	case share > 0 && p < 1:
		return "< 1 %"
	case share < 1 && p >= 100:
		return "> 99 %"
	default:
		return strconv.Itoa(int(p)) + " %"
	}
}

// Shares formats the parts of a whole as percentages that add up to 100, or are all 0 when the whole is 0. It rounds
// down, and then adds 1 % to the parts that have lost most by rounding. A part that remains at 0 is "< 1 %" unless the
// part is 0.
func Shares(parts []int64) []string {
	var all int64
	for _, n := range parts {
		all += n
	}
	whole, left, order := make([]int64, len(parts)), int64(100), make([]int, len(parts))
	for i, n := range parts {
		whole[i] = n * 100 / max(1, all)
		left -= whole[i]
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(parts[b]*100%max(1, all), parts[a]*100%max(1, all))
	})
	shown := make([]string, len(parts))
	for at, i := range order {
		if int64(at) < left && all > 0 {
			whole[i]++
		}
		shown[i] = Percent(float64(whole[i]) / 100)
		if whole[i] == 0 && parts[i] > 0 {
			shown[i] = "< 1 %"
		}
	}
	return shown
}

// Short returns the last eight characters of an id, which differ even between ids that were created in the same
// millisecond.
func Short(id string) string {
	if len(id) < 8 {
		return id
	}
	return id[len(id)-8:]
}

// Plural returns n and the noun, in singular or plural.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Messages returns n and the noun "message" or "messages", with state before it; state may be empty.
func Messages(n int64, state string) string {
	if state != "" {
		state += " "
	}
	return Plural(n, state+"message", state+"messages")
}

// Clip returns at most n characters of a text; the last one is an ellipsis when the text is longer.
func Clip(n int, text string) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

// Sentence adds a full stop and a capital letter at the beginning; a text that begins with a field's name keeps its
// first letter.
func Sentence(s string) string {
	if s == "" {
		return s
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	if word, _, _ := strings.Cut(s, " "); strings.HasSuffix(word, ":") || strings.Contains(word, "_") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Digest returns a short hash of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
