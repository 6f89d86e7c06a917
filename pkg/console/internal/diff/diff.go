// Package diff compares texts by lines, with limits on memory and on what is shown.
package diff

import (
	"bytes"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

const (
	maxCompared  = 1 << 20 // limit for the product of both numbers of lines; beyond it, all lines are shown as replaced
	maxDiff      = 2000    // limit for the lines of a text, with the same effect; also for the lines of a shown difference
	maxDiffLine  = 500     // characters of a line that are shown; the rest of the line is cut off
	maxFormatted = 4 << 20 // maximum size of formatted JSON in bytes; if either text is larger, both are compared unformatted
)

// Texts compares two texts line by line. If both are JSON and not too long, it first formats them with one line per
// value, since most producers write JSON on one line. spaceOnly reports that only the space between the tokens differs.
func Texts(was, now string) (lines []Line, spaceOnly bool) {
	a, okA := prettyJSON(was)
	b, okB := "", false
	if okA {
		b, okB = prettyJSON(now)
	}
	if okA && okB {
		if a == b {
			return nil, was != now
		}
		was, now = a, b
	}
	return Lines(was, now), false
}

func prettyJSON(text string) (string, bool) {
	raw := []byte(text)
	pretty, used, ok := format.JSON(raw, maxFormatted)
	return pretty, ok && len(bytes.TrimSpace(raw[used:])) == 0
}

// Lines returns the differences between two texts. It compares only the part between their common beginning and their
// common end, so that most of a large text is read once and not copied.
func Lines(a, b string) []Line {
	begin := earlier(a, sameBegin(a, b))
	end := later(a, sameEnd(a[begin:], b[begin:]))
	before, after := strings.Count(a[:begin], "\n"), strings.Count(a[len(a)-end:], "\n")
	lines := lineDifference(a[begin:len(a)-end], b[begin:len(b)-end])
	return limited(shortened(lines, before, after))
}

func sameBegin(a, b string) int {
	n, most := 0, min(len(a), len(b))
	for n < most && a[n] == b[n] {
		n++
	}
	return strings.LastIndexByte(a[:n], '\n') + 1
}

// sameEnd compares the ends of both texts, in whole lines. It returns the number of equal bytes, including the line
// feed before the first equal line.
func sameEnd(a, b string) int {
	n, most := 0, min(len(a), len(b))
	for n < most && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	first := strings.IndexByte(a[len(a)-n:], '\n')
	if first < 0 {
		return 0
	}
	return n - first
}

func earlier(text string, begin int) int {
	for range contextLines {
		if begin > 0 {
			begin = strings.LastIndexByte(text[:begin-1], '\n') + 1
		}
	}
	return begin
}

func later(text string, end int) int {
	for range contextLines {
		if end == 0 {
			break
		}
		next := strings.IndexByte(text[len(text)-end+1:], '\n')
		if next < 0 {
			return 0
		}
		end -= next + 1
	}
	return end
}

// lineDifference compares each line of a with each line of b. If a text has more than maxDiff lines, or there are more
// than maxCompared pairs of lines, it shows all lines as replaced.
func lineDifference(a, b string) []Line {
	n, m := strings.Count(a, "\n")+1, strings.Count(b, "\n")+1
	if n <= maxDiff && m <= maxDiff && n*m <= maxCompared {
		return difference(strings.Split(a, "\n"), strings.Split(b, "\n"))
	}
	return append(replaced("-", a, n), replaced("+", b, m)...)
}

func replaced(mark, text string, n int) []Line {
	const most = maxDiff/2 - 1
	lines := make([]Line, 0, min(n, most)+1)
	for left := true; left && len(lines) < most; {
		var line string
		line, text, left = strings.Cut(text, "\n")
		lines = append(lines, Line{mark, line})
	}
	if n > most {
		lines = append(lines, Line{"…", format.Plural(int64(n-most), "more line", "more lines") + " " + map[string]string{"-": "gone", "+": "new"}[mark]})
	}
	return lines
}

func limited(lines []Line) []Line {
	if left := len(lines) - maxDiff; left > 0 {
		lines = append(lines[:maxDiff:maxDiff], Line{"…", format.Plural(int64(left), "more line", "more lines")})
	}
	for i := range lines {
		lines[i].Text = format.Visible(format.Beginning(maxDiffLine, lines[i].Text))
	}
	return lines
}

// Line is a line of a difference: "-" removed, "+" added, "" unchanged, "…" for omitted lines.
type Line struct {
	Mark string
	Text string
}

// Kind returns the CSS class of the line.
func (l Line) Kind() string {
	return map[string]string{"-": "gone", "+": "new", "…": "skipped"}[l.Mark]
}

// contextLines is the number of unchanged lines shown around each change.
const contextLines = 2

// difference finds the longest common subsequence of lines. It needs two bytes per pair of lines, and neither text may
// have more than 65,535 lines, because lengths are stored in 16 bits.
func difference(before, after []string) []Line {
	common := commonLines(before, after)
	wide := len(after) + 1
	lines := make([]Line, 0, len(before)+len(after))
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, Line{"", before[i]})
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || common[(i+1)*wide+j] >= common[i*wide+j+1]):
			lines = append(lines, Line{"-", before[i]})
			i++
		default:
			lines = append(lines, Line{"+", after[j]})
			j++
		}
	}
	return lines
}

// commonLines returns, for each pair of a line of before and a line of after, the length of the longest common
// subsequence of the two texts that begin with these lines. The result has one row per line of before.
func commonLines(before, after []string) []uint16 {
	ids := map[string]int{} // each line gets a number; comparing numbers is faster than comparing long lines
	a, b := numbered(ids, before), numbered(ids, after)
	wide := len(after) + 1
	common := make([]uint16, (len(before)+1)*wide)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*wide+j] = common[(i+1)*wide+j+1] + 1
			} else {
				common[i*wide+j] = max(common[(i+1)*wide+j], common[i*wide+j+1])
			}
		}
	}
	return common
}

func numbered(ids map[string]int, lines []string) []int {
	list := make([]int, len(lines))
	for i, line := range lines {
		id, known := ids[line]
		if !known {
			id = len(ids)
			ids[line] = id
		}
		list[i] = id
	}
	return list
}

// shortened leaves out unchanged lines that are not near a change. The parameters before and after are the numbers of
// unchanged lines at the beginning and at the end of the text that the parameter lines does not contain.
func shortened(lines []Line, before, after int) []Line {
	near := make([]bool, len(lines))
	for i, line := range lines {
		if line.Mark == "" {
			continue
		}
		for k := max(0, i-contextLines); k <= min(len(lines)-1, i+contextLines); k++ {
			near[k] = true
		}
	}
	var list []Line
	left := before
	skip := func() {
		if left > 0 {
			list = append(list, Line{"…", format.Plural(int64(left), "unchanged line", "unchanged lines")})
		}
		left = 0
	}
	for i, line := range lines {
		if !near[i] {
			left++
			continue
		}
		skip()
		list = append(list, line)
	}
	left += after
	skip()
	return list
}
