package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The demands on the figures.
const (
	wantMemory  = 128 // MB, less than
	wantSettled = 10 * time.Second
	wantClaim   = 100 * time.Millisecond // 99 of 100 claims, less than
	wantGrowth  = 2                      // times, less than
	wantRun     = 15 * time.Minute       // all parts, less than
)

// noDemand is what is wanted of a figure that is only shown.
const noDemand = "–"

// line is one row of the table.
type line struct {
	work, figure, beside, ratio, wanted, limits string
	reached                                     bool
	floor                                       bool // what is wanted at least is reached, though the aim is not
}

var heading = line{
	work: "work", figure: "figure", beside: "beside it, in the same run", ratio: "ratio",
	wanted: "wanted", limits: "what limits it",
}

func (l line) cells(reached string) []string {
	return []string{l.work, l.figure, l.beside, l.ratio, l.wanted, reached, l.limits}
}

func (l line) verdict() string {
	if l.wanted == noDemand {
		return noDemand
	}
	if l.reached {
		return "yes"
	}
	if l.floor {
		return "the least"
	}
	return "no"
}

// lines are the table: the rows of every part, in their order.
func (r result) lines() (lines []line) {
	for _, p := range r.parts {
		lines = append(lines, p.lines()...)
	}
	if r.opts.reads == 0 && len(r.parts) > 0 && !r.broken {
		lines = append(lines, r.wholeLine())
	}
	return lines
}

// total is the time of all parts.
func (r result) total() (sum time.Duration) {
	for _, p := range r.parts {
		sum += p.took
	}
	return sum
}

// wholeLine is the time of the run, of which something is only demanded when
// nothing was left out.
func (r result) wholeLine() line {
	l := line{
		work: "all of these parts", figure: seconds(r.total()), beside: noDemand, ratio: noDemand,
		wanted: noDemand, reached: true, limits: "all of the above, with what is made for it",
	}
	if r.opts.whole() {
		l.work = "the whole run"
		l.wanted, l.reached = fmt.Sprintf("< %.0f min", wantRun.Minutes()), r.total() < wantRun
	}
	return l
}

// times says how long every part took.
func (r result) times() string {
	var parts []string
	for _, p := range r.parts {
		parts = append(parts, fmt.Sprintf("%s %s", p.name, seconds(p.took)))
	}
	return fmt.Sprintf("Time of each part, with what is made for it: %s. Together: %s.", strings.Join(parts, ", "), seconds(r.total()))
}

func (c cost) line(with, without string) line {
	return line{
		work: with, figure: each(c.with.perSecond()),
		beside: without + ": " + each(c.without.perSecond()), ratio: fmt.Sprintf("%.2f", c.ratio()),
		wanted: noDemand, reached: true, limits: "one connection",
	}
}

func memoryLine(work string, bytes int64) line {
	mb := float64(bytes) / 1e6
	return line{
		work: work, figure: fmt.Sprintf("%.0f MB", mb), beside: "–", ratio: "–",
		wanted: fmt.Sprintf("< %d MB", wantMemory), reached: mb > 0 && mb < wantMemory, limits: "–",
	}
}

const (
	// saturated is from which share of a processor on it is what limits.
	saturated = 0.85

	// disturbing is from which share of the machine on others' work spoils a figure.
	disturbing = 0.10

	// disturbed begins what is said of such a figure.
	disturbed = "others' work on this machine"
)

// limits says where the time went, for n units such as "record". Sessions is how
// many of PostgreSQL had work at one time, at most.
func (u usage) limits(n int, unit string, sessions int) string {
	var parts []string
	for _, p := range u.ranking() {
		if each := p.own / time.Duration(max(n, 1)); each >= time.Microsecond {
			parts = append(parts, fmt.Sprintf("%s %d µs", p.name, each.Microseconds()))
		}
	}
	return fmt.Sprintf("%s: %.0f %% busy, %.0f %% with others' work; a %s takes %s",
		u.kind(sessions, runtime.NumCPU()), 100*u.share(), 100*u.foreign(), unit, strings.Join(parts, ", "))
}

// kind is what limits: a session is one process of PostgreSQL, which can have no
// more than one core, whatever else is idle.
func (u usage) kind(sessions, cores int) string {
	most := time.Duration(float64(u.busy+u.idle) / float64(cores) * float64(sessions) * saturated)
	ours := time.Duration(0)
	for _, own := range u.by {
		ours += own
	}
	switch {
	case u.foreign() >= disturbing:
		return disturbed
	case u.share() >= saturated:
		return "the processors"
	case sessions >= cores:
		return "waiting for disk and answers"
	case u.by["postgres"] >= most && sessions == 1:
		return "one process of PostgreSQL, all of a core"
	case u.by["postgres"] >= most:
		return fmt.Sprintf("%d processes of PostgreSQL, all of a core each", sessions)
	case ours >= most && sessions == 1:
		return "one after the other, PostgreSQL and those who wait for it, all of a core together"
	default:
		return "waiting for disk and answers"
	}
}

// ranking is who used how much, by the names that readers know, the most first.
func (u usage) ranking() (all []process) {
	known := map[string]string{"postgres": "PostgreSQL", "java": "Kafka"}
	for _, name := range slices.SortedFunc(maps.Keys(u.by), func(a, b string) int { return int(u.by[b] - u.by[a]) }) {
		shown := known[name]
		if shown == "" {
			shown = name
		}
		all = append(all, process{name: shown, own: u.by[name]})
	}
	return all
}

// spent says how many processor seconds each used.
func (u usage) spent() string {
	var parts []string
	for _, p := range u.ranking() {
		if p.own >= 100*time.Millisecond {
			parts = append(parts, fmt.Sprintf("%s %.1f s", p.name, p.own.Seconds()))
		}
	}
	return fmt.Sprintf("%s of %.1f s", strings.Join(parts, ", "), (u.busy + u.idle).Seconds())
}

// seconds are milliseconds below one.
func seconds(d time.Duration) string {
	if d < time.Second {
		return millis(d)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}

func gigabytes(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func each(perSecond float64) string { return thousands(int(perSecond)) + " /s" }

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// publish prints the table and, when asked, writes the page. The error names the
// demands that were missed, not the aims of which at least the least was reached.
func publish(r result, write bool, stdout io.Writer) error {
	lines := r.lines()
	if err := printTable(stdout, lines); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\n"+r.profiles()+"\n"+r.times())
	if write {
		if err := expectUndisturbed(lines); err != nil && !r.opts.disturbed {
			return fmt.Errorf("the page is not written, %w", err)
		}
		if err := r.write(); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	var missed []string
	for _, l := range lines {
		if !l.reached && !l.floor {
			missed = append(missed, fmt.Sprintf("%s: %s (%s, ratio %s), wanted %s", l.work, l.figure, l.beside, l.ratio, l.wanted))
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed:\n  %s", strings.Join(missed, "\n  "))
	}
	return nil
}

// expectUndisturbed refuses figures that others' work has spoiled.
func expectUndisturbed(lines []line) error {
	var spoiled []string
	for _, l := range lines {
		if strings.Contains(l.limits, disturbed) {
			spoiled = append(spoiled, l.work)
		}
	}
	if len(spoiled) > 0 {
		return fmt.Errorf("%s took %.0f %% and more during:\n  %s", disturbed, 100*disturbing, strings.Join(spoiled, "\n  "))
	}
	return nil
}

func (r result) write() error {
	root, err := moduleRoot(context.Background())
	if err != nil {
		return err
	}
	page, text := "benchmarks.md", r.page
	if r.opts.reads > 0 {
		page, text = "benchmarks-reads.md", r.readsPage
	}
	return os.WriteFile(filepath.Join(root, "docs", page), []byte(text()), 0o644)
}

func printTable(out io.Writer, lines []line) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading.cells("reached"), "\t"))
	for _, l := range lines {
		fmt.Fprintln(w, strings.Join(l.cells(l.verdict()), "\t"))
	}
	return w.Flush()
}
