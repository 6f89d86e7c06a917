package console

// diffLine is a line of a difference: "-" gone, "+" new, "" in both, "…" for lines that are left out.
type diffLine struct {
	Mark string
	Text string
}

func (l diffLine) Kind() string {
	return map[string]string{"-": "gone", "+": "new", "…": "skipped"}[l.Mark]
}

// diffContext is how many lines that stay are shown around those that do not.
const diffContext = 2

// difference finds the longest common lines. It takes two bytes a pair: neither may have more than 65,535 lines.
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

// commonLines counts the common lines from each pair of lines on, by rows of before.
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

// shortened leaves out lines that stay, except near changes. before and after count more of them on either side.
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
