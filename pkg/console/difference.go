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

// difference compares line by line, by the longest lines that both have in common. It
// takes two bytes for each pair of lines: neither may have more than 65,535.
func difference(before, after []string) []diffLine {
	common := commonLines(before, after)
	wide := len(after) + 1
	lines := make([]diffLine, 0, len(before)+len(after))
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, diffLine{"", before[i]})
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || common[(i+1)*wide+j] >= common[i*wide+j+1]):
			lines = append(lines, diffLine{"-", before[i]})
			i++
		default:
			lines = append(lines, diffLine{"+", after[j]})
			j++
		}
	}
	return lines
}

// commonLines is how many lines both have in common from each pair of lines on, by
// rows of the lines of before.
func commonLines(before, after []string) []uint16 {
	ids := map[string]int{} // lines may be long, and are compared often
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

// numbered gives each line a number: the same to those that are the same.
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

// shortened leaves out what stays, but for the lines around what does not. before and
// after are how many more lines stay there.
func shortened(lines []diffLine, before, after int) []diffLine {
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
	left := before
	skip := func() {
		if left > 0 {
			list = append(list, diffLine{"…", plural(int64(left), "line that stays", "lines that stay")})
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
