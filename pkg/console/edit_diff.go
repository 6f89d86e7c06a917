package console

import (
	"bytes"
	"encoding/json"
	"strings"
)

const (
	maxCompared = 4 << 20 // pairs of lines; of more, all are shown as replaced
	maxDiff     = 2000    // lines of a difference that are shown
	maxDiffLine = 500     // characters of one
)

// differenceOf compares two texts line by line. Two that are JSON are compared as they
// would be written with a line for each value, since most producers write one line:
// spaceOnly says that only what is between the tokens differs.
func differenceOf(was, now string) (lines []diffLine, spaceOnly bool) {
	a, okA := prettyJSON(was)
	b, okB := prettyJSON(now)
	if okA && okB {
		if a == b {
			return nil, was != now
		}
		was, now = a, b
	}
	return textDifference(strings.Split(was, "\n"), strings.Split(now, "\n")), false
}

func prettyJSON(text string) (string, bool) {
	var b bytes.Buffer
	if text == "" || json.Indent(&b, []byte(text), "", "  ") != nil {
		return "", false
	}
	return strings.TrimRight(b.String(), " \t\r\n"), true
}

// textDifference takes what both have at their ends away, and compares the rest when
// that is not too dear.
func textDifference(a, b []string) []diffLine {
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	lines := marked(nil, "", a[:begin])
	if gone, come := a[begin:len(a)-end], b[begin:len(b)-end]; len(gone)*len(come) > maxCompared {
		lines = marked(marked(lines, "-", gone), "+", come)
	} else {
		lines = append(lines, difference(gone, come)...)
	}
	return diffToRead(shortened(marked(lines, "", a[len(a)-end:])))
}

func marked(lines []diffLine, mark string, texts []string) []diffLine {
	for _, text := range texts {
		lines = append(lines, diffLine{mark, text})
	}
	return lines
}

func diffToRead(lines []diffLine) []diffLine {
	if left := len(lines) - maxDiff; left > 0 {
		lines = append(lines[:maxDiff:maxDiff], diffLine{"…", plural(int64(left), "more line", "more lines")})
	}
	for i := range lines {
		lines[i].Text = visible(clip(maxDiffLine, lines[i].Text))
	}
	return lines
}
