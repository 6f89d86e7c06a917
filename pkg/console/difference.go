package console

// diffLine is a line of a difference: "-" is gone, "+" is new, "" is in both, and "…"
// stands for lines that are left out.
type diffLine struct {
	Mark string
	Text string
}

// Kind is the line's mark as a word.
func (l diffLine) Kind() string {
	return map[string]string{"-": "gone", "+": "new", "…": "skipped"}[l.Mark]
}

// diffContext is how many lines that stay are shown around those that do not.
const diffContext = 2

// difference compares line by line, by the longest lines that both have in common.
func difference(before, after []string) []diffLine {
	common := make([][]int, len(before)+1) // of the lines from i and from j on
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []diffLine
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, diffLine{"", before[i]})
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, diffLine{"-", before[i]})
			i++
		default:
			lines = append(lines, diffLine{"+", after[j]})
			j++
		}
	}
	return lines
}

// shortened leaves out what stays, but for the lines around what does not.
func shortened(lines []diffLine) []diffLine {
	near := make([]bool, len(lines))
	for i, line := range lines {
		if line.Mark == "" {
			continue
		}
		for k := max(0, i-diffContext); k <= min(len(lines)-1, i+diffContext); k++ {
			near[k] = true
		}
	}
	var list []diffLine
	var left int64
	for i := range lines {
		if !near[i] {
			left++
		}
		if left > 0 && (near[i] || i == len(lines)-1) {
			list = append(list, diffLine{"…", plural(left, "line that stays", "lines that stay")})
			left = 0
		}
		if near[i] {
			list = append(list, lines[i])
		}
	}
	return list
}
