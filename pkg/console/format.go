package console

import (
	"crypto/rand"
	"fmt"
	"html/template"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func (c *Console) functions() template.FuncMap {
	return template.FuncMap{
		"asset":   c.assets.url,
		"key":     rand.Text, // an idempotency key, different in each form
		"to":      to,
		"ago":     func(t time.Time) string { return ago(c.now(), t) },
		"utc":     utc,
		"iso":     iso,
		"number":  number,
		"bytes":   byteSize,
		"percent": percent,
		"short":   short,
		"lower":   strings.ToLower,
		"plural":  plural,
		"clip":    func(n int, text string) string { return visible(clip(n, text)) }, // escape invisible characters, and those that reverse text
		"pair":    pair,
		"visible": visible,

		"utcMinute":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"percentage": func(share float64) float64 { return share * 100 },
		"count":      func(list any) int64 { return int64(reflect.ValueOf(list).Len()) },
	}
}

func ago(now, t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	d := now.Sub(t)
	switch {
	case d <= -time.Second:
		return "in " + rough(-d)
	case d < 5*time.Second:
		return "just now"
	}
	return rough(d) + " ago"
}

func rough(d time.Duration) string {
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

func utc(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func number(n any) string {
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

func byteSize(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	default:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
}

// percent never rounds a share below 1 up to 100 %.
func percent(share float64) string {
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

// short returns the end of an id, which differs also between ids of the same millisecond.
func short(id string) string {
	if len(id) < 8 {
		return id
	}
	return id[len(id)-8:]
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

func clip(n int, text string) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

func pair(first, second any) map[string]any { return map[string]any{"First": first, "Second": second} }
