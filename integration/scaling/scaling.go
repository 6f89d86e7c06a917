// Package scaling calculates what larger loads than the measured ones would take:
// pure functions from the figures of inputs.go to the tables of docs/scaling.md,
// and two small simulations for what arithmetic does not answer. A test compares
// the document with them.
package scaling

import (
	"fmt"
	"math"
	"strings"
)

// Table is a part of the document, between the markers of its name.
type Table struct {
	Name    string
	Heading []string
	Rows    [][]string
}

// Tables are all tables of the document.
func Tables(in Inputs) []Table {
	return []Table{
		inputsTable(in),
		machineTable(in),
		nodeTable(in),
		keysTable(in),
		clusterTable(in),
		redriveTable(in),
		distributionTable(in),
		backlogTable(in),
		vacuumTable(in),
		retentionTable(in),
		tiersTable(in),
		catalogueTable(in),
		recoveryTable(in),
	}
}

// String is the table in Markdown.
func (t Table) String() string {
	var b strings.Builder
	row := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row(t.Heading)
	rule := make([]string, len(t.Heading))
	for i := range rule {
		rule[i] = "---"
	}
	row(rule)
	for _, cells := range t.Rows {
		row(cells)
	}
	return b.String()
}

func inputsTable(in Inputs) Table {
	t := Table{Name: "inputs", Heading: []string{"figure", "value", "from"}}
	for _, f := range in.All() {
		from := f.Source
		if f.Assumed && f.Source == guess {
			from = "**assumed**"
		}
		t.Rows = append(t.Rows, []string{f.Name, f.text(), from})
	}
	return t
}

func (f Figure) text() string {
	switch f.Unit {
	case "B":
		return size(f.Value)
	case "B/s":
		return size(f.Value) + "/s"
	case "s":
		return duration(f.Value)
	case "$":
		return fmt.Sprintf("$%g", f.Value)
	}
	return strings.TrimSpace(number(f.Value) + " " + f.Unit)
}

// number writes thousands with commas, and up to two digits of what is small.
func number(v float64) string {
	if v < 100 {
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	}
	text := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// round keeps two digits: what is calculated is not more exact than that.
func round(v float64) float64 {
	if v <= 0 {
		return 0
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/scale) * scale
}

func rough(v float64) string { return number(round(v)) }

func rate(v float64) string { return rough(v) + " /s" }

func size(v float64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}} {
		if v >= unit.of {
			return fmt.Sprintf("%.3g %s", v/unit.of, unit.name)
		}
	}
	return number(v) + " B"
}

// duration writes seconds in the unit that fits.
func duration(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.3g ms", 1000*s)
	case s < 120:
		return fmt.Sprintf("%.3g s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.3g min", s/60)
	case s < 2*86400:
		return fmt.Sprintf("%.3g h", s/3600)
	}
	return fmt.Sprintf("%.3g days", s/86400)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

const micro = 1e-6
