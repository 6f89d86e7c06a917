package format

import (
	"fmt"
	"slices"
	"strings"
)

// Bars is a small picture of numbers over time.
type Bars struct {
	Path   string // SVG path of the bars, within Width and Height
	Width  int
	Height int
	Most   int64 // the largest number
	Words  string
}

// The width of a bar, the space between bars, and the height of the picture, in SVG units.
const (
	barWidth   = 3
	barSpace   = 1
	barsHeight = 24
)

// DrawBars draws every number above 0 at least one unit high, so that it is visible. In the description, the parameter
// words says what is counted, and step is the length of time of each bar.
func DrawBars(numbers []int64, words, step string) Bars {
	b := Bars{Width: len(numbers)*(barWidth+barSpace) - barSpace, Height: barsHeight, Most: max(0, slices.Max(numbers)), Words: words}
	var path strings.Builder
	for i, n := range numbers {
		if n > 0 {
			height := max(1, int(n*barsHeight/b.Most))
			fmt.Fprintf(&path, "M%d %dh%dv-%dh-%dz", i*(barWidth+barSpace), barsHeight, barWidth, height, barWidth)
		}
	}
	if b.Path = path.String(); b.Most > 0 {
		b.Words += ", at most " + Number(b.Most) + " in " + step
	}
	return b
}
