package scaling

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pages are the texts of the measured pages: what they say is read from them, so
// that no figure is written down twice.
type Pages struct {
	Bench  string // docs/benchmarks.md
	Reads  string // docs/benchmarks-reads.md
	Schema string // docs/benchmarks-schema.md
}

// page finds figures in the tables of a page, and notes what it does not find.
type page struct {
	name, text string
	missing    []string
}

// miss notes once what is not there.
func (p *page) miss(format string, args ...any) {
	if text := p.name + ": " + fmt.Sprintf(format, args...); !slices.Contains(p.missing, text) {
		p.missing = append(p.missing, text)
	}
}

// cells are those of the first row whose first cell begins with a title.
func (p *page) cells(title string) []string {
	for line := range strings.Lines(p.text) {
		line = strings.TrimSpace(line)
		if cells := strings.Split(strings.Trim(line, "|"), "|"); strings.HasPrefix(line, "| "+title) && len(cells) > 1 {
			return cells
		}
	}
	p.miss("there is no row that begins with %q", title)
	return nil
}

// cell is a figure of such a row: what pattern's first group matches in a cell, or
// in any of them if the cell is anyCell.
func (p *page) cell(title string, cell int, pattern string) float64 {
	cells := p.cells(title)
	if cells == nil {
		return 0
	}
	text := strings.Join(cells, "|")
	if cell != anyCell {
		if cell >= len(cells) {
			p.miss("the row %q has %d cells, want more than %d", title, len(cells), cell)
			return 0
		}
		text = cells[cell]
	}
	return p.find(text, pattern, fmt.Sprintf("the row %q", title))
}

const anyCell = -1

// find is what a pattern finds in text.
func (p *page) find(text, pattern, where string) float64 {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		p.miss("nothing in %s matches %s", where, pattern)
		return 0
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64)
	if err != nil {
		p.miss("%s: %v", where, err)
	}
	return value
}

// What figures look like on the pages.
const (
	perSecond = `^\s*([\d,.]+) /s`
	plain     = `^\s*([\d,.]+)\s*$`
)

// took is the processor time that a row says a record took of a program.
func took(program string) string { return `a record takes [^;|]*?` + program + ` ([\d,.]+) µs` }
