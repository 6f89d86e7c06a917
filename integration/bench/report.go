package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is the result of a run.
type report struct {
	Date    time.Time         `json:"date"`
	Machine string            `json:"machine"`
	Commit  string            `json:"commit"`
	Base    string            `json:"base,omitempty"`
	Loads   map[string]string `json:"loads"` // what each part did, in words, by the name of the part
	Rows    []row             `json:"rows"`
}

// row is a figure of the report; if two commits are compared, its value is the median of the checkout's figures.
type row struct {
	figure
	*compared
}

// compared holds the medians of one figure for two commits, and their ratio.
type compared struct {
	Base     float64    `json:"base"`     // median of this figure for the base commit
	Ratio    float64    `json:"ratio"`    // median of the ratios of the checkout to the base, one ratio for each pair of turns
	Interval [2]float64 `json:"interval"` // confidence interval of the ratio
	Coverage float64    `json:"coverage"` // coverage of the interval, 0 to 1
	Pairs    int        `json:"pairs"`
}

func (b *bench) report() report {
	head := b.sides[len(b.sides)-1]
	r := report{Date: time.Now().UTC().Truncate(time.Second), Machine: machine(), Commit: head.commit, Loads: map[string]string{}}
	for _, p := range b.opts.chosen() {
		r.Loads[p.name] = p.load
	}
	if !b.compares() {
		r.Base = b.sides[0].commit
	}
	for i, f := range b.done {
		same := func(o figure) bool { return o.Part == f.Part && o.Name == f.Name }
		switch {
		case r.Base == "":
			r.Rows = append(r.Rows, row{figure: f})
		case !slices.ContainsFunc(b.done[:i], same): // the figures of all turns, of both commits, make one row
			r.Rows = append(r.Rows, b.compare(f, slices.DeleteFunc(slices.Clone(b.done), func(o figure) bool { return !same(o) })))
		}
	}
	return r
}

// compare makes a row of the report from the figures of all turns. A ratio is computed only for pairs of turns in which
// both commits have the figure.
func (b *bench) compare(shown figure, turns []figure) row {
	var values [2][]float64 // [0]: the figures of the base commit; [1]: the figures of the checkout
	var ratios, loads, others []float64
	for _, f := range turns {
		if f.Skipped != "" {
			return row{figure: figure{Part: f.Part, Name: f.Name, Skipped: f.side.commit + ": " + f.Skipped}}
		}
		at := slices.Index(b.sides, f.side)
		values[at] = append(values[at], f.Value)
		loads, others = append(loads, f.Load), append(others, f.Others)
	}
	for i, s := range b.sides {
		if len(values[i]) == 0 {
			return row{figure: figure{Part: shown.Part, Name: shown.Name, Skipped: s.commit + " does not have it"}}
		}
	}
	for i := range min(len(values[0]), len(values[1])) {
		if values[0][i] != 0 {
			ratios = append(ratios, values[1][i]/values[0][i])
		}
	}
	c := compared{Base: median(values[0]), Ratio: median(ratios), Pairs: len(ratios)}
	c.Interval[0], c.Interval[1], c.Coverage = interval(ratios)
	shown.Value, shown.Load, shown.Others = median(values[1]), median(loads), median(others)
	return row{figure: shown, compared: &c}
}

// markdown returns the report without a title.
func (r report) markdown() string {
	var b strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	fmt.Fprintf(&b, "%s, %s, commit %s", r.Date.Format("2 January 2006"), r.Machine, r.Commit)
	heading := []string{"part", "work", "figure", "compared with", "ratio", "limit", "load average", "others' share"}
	if r.Base != "" {
		heading = []string{"part", "work", "base", "checkout", "ratio", "95 % interval", "result", "load average", "others' share"}
		fmt.Fprintf(&b, " compared with %s", r.Base)
	}
	fmt.Fprint(&b, ".\n\n")
	line(heading...)
	line(slices.Repeat([]string{"---"}, len(heading))...)
	for _, row := range r.Rows {
		cells := row.single()
		if r.Base != "" {
			cells = row.pair()
		}
		load, others := number(row.Load), fmt.Sprintf("%.0f %%", 100*row.Others)
		if row.Skipped != "" {
			load, others = "–", "–"
		}
		line(append(cells, load, others)...)
	}
	fmt.Fprint(&b, "\nLoads:\n\n")
	for _, name := range partNames() {
		if load := r.Loads[name]; load != "" {
			fmt.Fprintf(&b, "- %s: %s.\n", name, load)
		}
	}
	return b.String()
}

func (r row) single() []string {
	other, ratio, limit := "–", "–", "–"
	if r.ComparedWith != "" {
		other, ratio = r.ComparedWith+": "+number(r.ComparedValue), number(quotient(r.Value, r.ComparedValue))
	}
	if r.Limit != 0 {
		limit = map[bool]string{true: "≥ ", false: "< "}[r.MoreIsBetter] + number(r.Limit)
	}
	if r.missed() {
		limit += ", **missed**"
	}
	return []string{r.Part, r.Name, r.text(), other, ratio, limit}
}

func (r row) pair() []string {
	c := r.compared
	if c == nil || c.Pairs == 0 {
		return []string{r.Part, r.Name, "–", r.text(), "–", "–", "–"}
	}
	bounds := fmt.Sprintf("%.3f to %.3f", c.Interval[0], c.Interval[1])
	return []string{r.Part, r.Name, number(c.Base), r.text(), fmt.Sprintf("%.3f", c.Ratio), bounds, c.verdict(r.MoreIsBetter)}
}

// verdict returns "better" or "worse" if the interval excludes a ratio of 1, and otherwise "within noise". If the
// coverage of the interval is below 95 %, there is no result.
func (c compared) verdict(moreIsBetter bool) string {
	switch {
	case c.Coverage < 0.95:
		return fmt.Sprintf("no result: the interval of %d pairs has %.0f %%", c.Pairs, 100*c.Coverage)
	case c.Interval[0] <= 1 && c.Interval[1] >= 1:
		return "within noise"
	case (c.Interval[0] > 1) == moreIsBetter:
		return "better"
	}
	return "worse"
}

// publish prints the figures of the completed parts, and writes them to the file that -json names. With -write, it
// writes docs/benchmarks.md, but only after a complete run. It fails when a figure missed its limit, unless two commits
// are compared.
func (b *bench) publish(stdout io.Writer, whole bool) {
	if len(b.done) == 0 {
		return
	}
	r := b.report()
	fmt.Fprintln(stdout, r.markdown())
	if b.opts.json != "" {
		check(os.WriteFile(b.opts.json, must(json.MarshalIndent(r, "", "  ")), 0o644))
	}
	if b.opts.write && whole {
		path := filepath.Join(b.root, "docs", "benchmarks.md")
		check(os.WriteFile(path, []byte(replaceGenerated(string(must(os.ReadFile(path))), r.markdown())), 0o644))
	}
	var missed []error
	for _, row := range r.Rows {
		if r.Base == "" && row.missed() {
			missed = append(missed, fmt.Errorf("missed: %s: %s, limit %s", row.Name, row.text(), number(row.Limit)))
		}
	}
	check(errors.Join(missed...))
}

// A run of the benchmark replaces the text in docs/benchmarks.md between these markers.
const (
	generatedBegin = "<!-- written by make bench: begin -->\n"
	generatedEnd   = "<!-- written by make bench: end -->"
)

func replaceGenerated(page, section string) string {
	before, rest, begins := strings.Cut(page, generatedBegin)
	_, after, ends := strings.Cut(rest, generatedEnd)
	if !begins || !ends {
		check(errors.New("the page has no generated section"))
	}
	return before + generatedBegin + "\n" + section + "\n" + generatedEnd + after
}
