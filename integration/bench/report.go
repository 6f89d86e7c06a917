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
	wantRetry       = 5_000  // records a second
	wantMemory      = 150    // MB, less than
)

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
	if l.reached {
		return "yes"
	}
	return "no"
}

// lines are the table, made of nothing but what was measured.
func (r result) lines() []line {
	ingest, retry := r.ingest.perSecond(), r.retry.perSecond()
	times := quotient(ingest, r.single.perSecond())
	ingestWork := fmt.Sprintf("ingest %s × 1 KB, Kafka to PostgreSQL", thousands(r.opts.records))
	retryWork := fmt.Sprintf("retry-all of %s × 1 KB over HTTP", thousands(r.opts.retry))
	return []line{
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
		{
			work: retryWork, figure: each(retry),
			beside: "producing alone: " + each(r.produce.perSecond()),
			ratio:  fmt.Sprintf("%.2f", quotient(retry, r.produce.perSecond())),
			wanted: "≥ " + each(wantRetry), reached: retry >= wantRetry,
			limits: r.retry.cpu.limits(r.retry.n),
		},
		memoryLine(fmt.Sprintf("memory of the ingester, backlog of %s", thousands(r.opts.records)), r.ingest.memory),
		memoryLine(fmt.Sprintf("memory of the API, retry-all of %s", thousands(r.opts.retry)), r.retry.memory),
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
	names := map[string]string{"postgres": "PostgreSQL", "java": "Kafka"}
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(u.by), func(a, b string) int { return int(u.by[b] - u.by[a]) }) {
		each := u.by[name] / time.Duration(max(n, 1))
		shown := names[name]
		if shown == "" {
			shown = name
		}
		if each >= time.Microsecond {
			parts = append(parts, fmt.Sprintf("%s %d µs", shown, each.Microseconds()))
		}
	}
	return fmt.Sprintf("%s: %.0f %% busy, %.0f %% with others' work; a record takes %s",
		kind, 100*u.share(), 100*u.foreign(), strings.Join(parts, ", "))
}

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
	fmt.Fprintln(stdout, "\n"+r.steps())
	if write {
		root, err := moduleRoot(context.Background())
		if err != nil {
			return err
		}
		path := filepath.Join(root, "docs", "benchmarks.md")
		if err := os.WriteFile(path, []byte(r.page()), 0o644); err != nil {
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
