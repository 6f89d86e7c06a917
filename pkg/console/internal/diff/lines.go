package diff

import "github.com/dlq-manager/dlq-manager/pkg/console/internal/format"

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

// difference finds the longest common subsequence of lines. It needs two bytes per pair of lines, and neither side
// may have more than 65,535 lines.
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

// commonLines returns, for each pair of lines, how many lines from there on are common, by rows of before.
func commonLines(before, after []string) []uint16 {
	ids := map[string]int{} // compare numbers, as lines may be long
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

// shortened omits unchanged lines, except near changes. before and after are further unchanged lines on either side.
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
