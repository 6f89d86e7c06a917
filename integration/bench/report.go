package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The demands on the figures.
const (
	wantIngest      = 15_000 // records a second
	wantIngestTimes = 8      // of the loop with one INSERT a record
	wantRetry       = 15_000 // records a second
	wantRetryShare  = 0.6    // of the bare SQL
	wantRetryTimes  = 30     // of the way one by one
	wantMemory      = 150    // MB, less than
	wantSettled     = 10 * time.Second
	wantClaim       = 100 * time.Millisecond // 99 of 100 claims, less than
	wantGrowth      = 2                      // times, less than
)

// noDemand is what is wanted of a figure that is only shown.
const noDemand = "–"

// line is one row of the table.
type line struct {
	work, figure, beside, ratio, wanted, limits string
	reached                                     bool
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
	return "no"
}

// lines are the table, made of nothing but what was measured.
func (r result) lines() []line {
	if r.opts.reads > 0 {
		return r.reads.lines()
	}
	ingest := r.ingest.perSecond()
	times := quotient(ingest, r.single.perSecond())
	ingestWork := fmt.Sprintf("ingest %s × 1 KB, Kafka to PostgreSQL", thousands(r.opts.records))
	lines := []line{
		{
			work: ingestWork, figure: each(ingest),
			beside: "one INSERT a record: " + each(r.single.perSecond()), ratio: fmt.Sprintf("%.1f", times),
			wanted: fmt.Sprintf("ratio ≥ %d", wantIngestTimes), reached: times >= wantIngestTimes,
			limits: r.ingest.cpu.limits(r.ingest.n),
		},
		{
			work: ingestWork, figure: each(ingest),
			beside: fmt.Sprintf("COPY, %d connections: %s", copyConnections, each(r.copied.perSecond())),
			ratio:  fmt.Sprintf("%.2f", quotient(ingest, r.copied.perSecond())),
			wanted: "≥ " + each(wantIngest), reached: ingest >= wantIngest,
			limits: "as above",
		},
	}
	lines = append(lines, r.retryLines()...)
	lines = append(lines, r.settleLine())
	lines = append(lines, r.backlogLines()...)
	return append(lines,
		r.audit.line("claim and result", "the same without the audit line"),
		r.hash.line("storing what was ingested", "the same without the look for equal records"),
		memoryLine(fmt.Sprintf("memory of the ingester, backlog of %s", thousands(r.opts.records)), r.ingest.memory),
		memoryLine(fmt.Sprintf("memory of the API, retry-all of %s", thousands(r.opts.retry)), r.retry.memory),
	)
}

func (r result) retryLines() []line {
	retry := r.retry.perSecond()
	title := fmt.Sprintf("retry-all of %s × 1 KB over HTTP", thousands(r.opts.retry))
	share := quotient(retry, r.bare.perSecond())
	patient, hasty := quotient(retry, r.patient.perSecond()), quotient(retry, r.hasty.perSecond())
	return []line{
		{
			work: title, figure: each(retry),
			beside: "producing alone: " + each(r.produce.perSecond()),
			ratio:  fmt.Sprintf("%.2f", quotient(retry, r.produce.perSecond())),
			wanted: "≥ " + each(wantRetry), reached: retry >= wantRetry,
			limits: r.retry.cpu.limits(r.retry.n),
		},
		{
			work: title, figure: each(retry),
			beside: "bare SQL of claim, attempt row and result: " + each(r.bare.perSecond()),
			ratio:  fmt.Sprintf("%.2f", share),
			wanted: fmt.Sprintf("ratio ≥ %.1f", wantRetryShare), reached: share >= wantRetryShare,
			limits: "as above; the bare SQL: " + r.bare.cpu.limits(r.bare.n),
		},
		{
			work: title, figure: each(retry),
			beside: "one by one: " + each(r.patient.perSecond()), ratio: fmt.Sprintf("%.0f", patient),
			wanted: fmt.Sprintf("ratio ≥ %d", wantRetryTimes), reached: patient >= wantRetryTimes,
			limits: "as above",
		},
		{
			work: title, figure: each(retry),
			beside: "one by one, the client not waiting: " + each(r.hasty.perSecond()), ratio: fmt.Sprintf("%.1f", hasty),
			wanted: noDemand, reached: true, limits: "as above",
		},
		{
			work:   fmt.Sprintf("fixing the selection of a retry-all of %s", thousands(r.retry.created.n)),
			figure: seconds(r.retry.created.took),
			beside: "the whole retry-all: " + seconds(r.retry.took),
			ratio:  fmt.Sprintf("%.3f", quotient(r.retry.created.took.Seconds(), r.retry.took.Seconds())),
			wanted: noDemand, reached: true, limits: "one statement, one process of PostgreSQL",
		},
	}
}

func (r result) settleLine() line {
	d := r.doubt
	return line{
		work: fmt.Sprintf("settling %s doubtful claims", thousands(d.n)), figure: seconds(d.took),
		beside: noDemand, ratio: noDemand,
		wanted: "< " + seconds(wantSettled), reached: d.n > 0 && d.took < wantSettled, limits: d.cpu.limits(d.n),
	}
}

func (r result) backlogLines() []line {
	b := r.backlog
	title := fmt.Sprintf("claiming %s by cursor, %d workers, %d at a time", thousands(b.n), backlogWorkers, backlogBatch)
	slow := percentile(b.claims, 99)
	return []line{
		{
			work: title, figure: "p99 " + millis(slow),
			beside: fmt.Sprintf("p50 %s, longest %s", millis(percentile(b.claims, 50)), millis(percentile(b.claims, 100))),
			ratio:  noDemand, wanted: "p99 < " + millis(wantClaim), reached: slow > 0 && slow < wantClaim,
			limits: b.cpu.limits(b.n),
		},
		{
			work: "the same, claimed and finished", figure: each(b.perSecond()),
			beside: "bare SQL, above: " + each(r.bare.perSecond()),
			ratio:  fmt.Sprintf("%.2f", quotient(b.perSecond(), r.bare.perSecond())),
			wanted: noDemand, reached: true, limits: "as above",
		},
		{
			work: "size of that table when all is done", figure: gigabytes(b.after), beside: "before: " + gigabytes(b.before),
			ratio:  fmt.Sprintf("%.2f", b.growth()),
			wanted: fmt.Sprintf("ratio < %d", wantGrowth), reached: b.growth() > 0 && b.growth() < wantGrowth,
			limits: "versions of rows that vacuum has not removed yet",
		},
	}
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
		wanted: fmt.Sprintf("< %d MB", wantMemory), reached: mb < wantMemory, limits: "–",
	}
}

// saturated is from which share of the processors on they are what limits.
const saturated = 0.85

// limits says where the time went, for n records.
func (u usage) limits(n int) string {
	kind := "waiting for disk and answers"
	if u.share() >= saturated {
		kind = "the processors"
	}
	var parts []string
	for _, p := range u.ranking() {
		if each := p.own / time.Duration(max(n, 1)); each >= time.Microsecond {
			parts = append(parts, fmt.Sprintf("%s %d µs", p.name, each.Microseconds()))
		}
	}
	return fmt.Sprintf("%s: %.0f %% busy, %.0f %% with others' work; a record takes %s",
		kind, 100*u.share(), 100*u.foreign(), strings.Join(parts, ", "))
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
// demands that were missed.
func publish(r result, write bool, stdout io.Writer) error {
	lines := r.lines()
	if err := printTable(stdout, lines); err != nil {
		return err
	}
	page, text := "benchmarks.md", r.page
	if r.opts.reads > 0 {
		page, text = "benchmarks-reads.md", r.readsPage
	} else {
		fmt.Fprintln(stdout, "\n"+r.steps())
	}
	if write {
		root, err := moduleRoot(context.Background())
		if err != nil {
			return err
		}
		path := filepath.Join(root, "docs", page)
		if err := os.WriteFile(path, []byte(text()), 0o644); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	var missed []string
	for _, l := range lines {
		if !l.reached {
			missed = append(missed, fmt.Sprintf("%s: %s (%s, ratio %s), wanted %s", l.work, l.figure, l.beside, l.ratio, l.wanted))
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed:\n  %s", strings.Join(missed, "\n  "))
	}
	return nil
}

func printTable(out io.Writer, lines []line) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading.cells("reached"), "\t"))
	for _, l := range lines {
		fmt.Fprintln(w, strings.Join(l.cells(l.verdict()), "\t"))
	}
	return w.Flush()
}

// steps tells whether ingest kept its pace.
func (r result) steps() string {
	var parts []string
	for _, s := range r.ingest.steps {
		parts = append(parts, thousands(int(s.perSecond())))
	}
	return fmt.Sprintf("Ingest, records a second in each fifth of the work: %s.", strings.Join(parts, ", "))
}
