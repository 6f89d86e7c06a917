package main

import (
	"fmt"
	"strings"
	"time"
)

// The demands on reading.
const (
	wantPage       = 20 * time.Millisecond // 99 of 100 answers
	wantText       = time.Second
	wantDepth      = 2 // times of page 1
	wantExport     = 50_000
	wantReadMemory = 100 // MB, less than
)

// lines are the table of reading.
func (r reads) lines() []line {
	var lines []line
	p50 := map[string]time.Duration{}
	for _, a := range r.answers {
		p50[a.name] = percentile(a.times, 50)
		slow := percentile(a.times, 99)
		l := line{
			work: a.name, figure: "p99 " + fine(slow),
			beside: fmt.Sprintf("p50 %s, longest %s", fine(p50[a.name]), fine(percentile(a.times, 100))),
			ratio:  noDemand, wanted: "p99 < " + millis(a.want), reached: slow > 0 && slow < a.want,
			limits: fmt.Sprintf("%d %s an answer", a.found, a.list),
		}
		if a.within != "" {
			times := quotient(p50[a.name].Seconds(), p50[a.within].Seconds())
			l.ratio = fmt.Sprintf("%.2f", times)
			l.wanted += fmt.Sprintf(", ratio of p50 ≤ %d", wantDepth)
			l.reached = l.reached && times > 0 && times <= wantDepth
		}
		lines = append(lines, l)
	}
	e := r.export
	mb := float64(e.memory) / 1e6
	return append(lines,
		line{
			work: fmt.Sprintf("export of %s as NDJSON", thousands(e.n)), figure: each(e.perSecond()),
			beside: fmt.Sprintf("%.0f MB/s", float64(e.bytes)/1e6/max(e.took.Seconds(), 1e-9)), ratio: noDemand,
			wanted: "≥ " + each(wantExport), reached: e.perSecond() >= wantExport, limits: e.cpu.limits(e.n, "record", 1),
		},
		line{
			work: "memory of the API, all of the above", figure: fmt.Sprintf("%.0f MB", mb), beside: noDemand, ratio: noDemand,
			wanted: fmt.Sprintf("< %d MB", wantReadMemory), reached: mb > 0 && mb < wantReadMemory, limits: noDemand,
		})
}

// fine shows what is less than some milliseconds.
func fine(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// readsPage is docs/benchmarks-reads.md.
func (r result) readsPage() string {
	m, out := r.machine, r.parts[0].measurement.(*readsPart).reads
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	say("# Benchmarks of reading\n\n")
	say("Written by `make bench-reads` on %s; not edited by hand.\n\n", m.day.Format("2 January 2006"))
	say("%s", markdown(out.lines()))
	say("\n## Where\n\n")
	say("- %d cores (%s), %.0f GB of memory. PostgreSQL, the API and the bench share them.\n", m.cores, m.model, float64(m.memory)/1e9)
	say("- PostgreSQL %s with %s.\n", strings.Fields(m.postgres)[0], settingsText())
	say("- Load of the machine before the start (1, 5, 15 minutes): %s.\n\n", m.load)
	say("## How\n\n")
	say("The live table holds %s messages of %d topics and %s error groups, of which the most\n"+
		"frequent has many times as many messages as the rarest; 30 days, a fifth PENDING, a fifth DEAD.\n"+
		"A message has 260 to 300 bytes of JSON and an error text of some 60. They are written by SQL,\n"+
		"with every trigger and index of the product (%s), and so are the documents of the catalogue, whose\n"+
		"indexes are built behind them (%s): the worker would make the same of them, more slowly. Table and indexes take\n"+
		"%s, the catalogue %s.\n\n", thousands(out.rows), readTopics, thousands(readGroups),
		seconds(out.fill), seconds(out.catalogue), gigabytes(out.size), gigabytes(out.documents))
	say("One API process with its defaults, but for `redrive.workers: 0`, is asked over HTTP, one question at a time over one connection,\n"+
		"%d times each after %d that do not count; the times are the client's, whole answers read. The deep\n"+
		"page is asked with the cursor that the page before it would have given. The export is one request.\n\n", repeats, warmUp)
	say("```\nmake bench-reads\n```\n\ntakes %s after the start of the servers and 20 GB of disk, and wants the machine for itself.\n",
		seconds(r.total()))
	return b.String()
}

func (p *readsPart) lines() []line { return p.reads.lines() }

// method is empty: the page of this part says it itself.
func (p *readsPart) method() string { return "" }
