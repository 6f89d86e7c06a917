package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// part is one measurement of a run.
type part struct {
	name  string
	needs []string // names of earlier parts that it works on what they leave
	measurement
}

// measurement is what a part does and how it tells of it.
type measurement interface {
	// run measures, and fails when a count behind a figure is wrong. It stops the
	// programs that it started.
	run(ctx context.Context) error

	// lines are rows of the table, made of nothing but what run found.
	lines() []line

	// method says how the figures came about: items of a list in Markdown, each
	// line ended.
	method() string
}

// ender is a measurement that leaves something for the parts that need it. end
// removes that, when the last of them is over.
type ender interface {
	end(ctx context.Context) error
}

// parts are all measurements in the order in which they run.
func (b *bench) parts() []part {
	if b.opts.reads > 0 {
		return []part{{name: "reads", measurement: &readsPart{bench: b}}}
	}
	return []part{
		{name: "ingest", measurement: &ingestPart{bench: b}},
		{name: "sizes", measurement: &sizesPart{bench: b}},
		{name: "large", measurement: &largePart{bench: b}},
		{name: "connect", measurement: &connectPart{bench: b}},
		{name: "retry-all", needs: []string{"ingest"}, measurement: &retryPart{bench: b}},
		{name: "settling", needs: []string{"ingest"}, measurement: &doubtPart{bench: b}},
		{name: "audit-line", needs: []string{"ingest"}, measurement: &auditPart{bench: b}},
		{name: "equal-records", needs: []string{"ingest", "retry-all"}, measurement: &hashPart{bench: b}},
		{name: "profiling", needs: []string{"ingest"}, measurement: &profilingPart{bench: b}},
		{name: "lists", needs: []string{"ingest"}, measurement: &listsPart{bench: b}},
		{name: "export", needs: []string{"ingest"}, measurement: &exportPart{bench: b}},
		{name: "cursor", measurement: &backlogPart{bench: b}},
		{name: "archive", measurement: &archivePart{bench: b}},
		{name: "growth", measurement: &growthPart{bench: b}},
		{name: "mixed", measurement: &mixedPart{bench: b}},
		{name: "idle", measurement: &idlePart{bench: b}},
	}
}

// choose returns the parts of these names with all that they need; no names are
// all parts.
func choose(all []part, names []string) ([]part, error) {
	if len(names) == 0 {
		return all, nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("no part %q; there are %s", name, strings.Join(partNames(all), ", "))
		}
		wanted[name] = true
	}
	// What a part needs stands before it, so one way back finds everything.
	for _, p := range slices.Backward(all) {
		if wanted[p.name] {
			for _, need := range p.needs {
				wanted[need] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p part) bool { return !wanted[p.name] }), nil
}

func partNames(all []part) (names []string) {
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}

// measured is a part that is over.
type measured struct {
	part
	took time.Duration
}

// runParts runs one part after the other, and ends each as soon as no other needs
// it.
func (b *bench) runParts(ctx context.Context, chosen []part) error {
	for i, p := range chosen {
		b.say("part %s", p.name)
		start := time.Now()
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("part %s failed: %w", p.name, err)
		}
		took := time.Since(start)
		b.say("part %s took %s", p.name, took.Round(100*time.Millisecond))
		b.result.parts = append(b.result.parts, measured{p, took})
		if err := endUnneeded(ctx, chosen[:i+1], chosen[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

// endUnneeded ends the parts that are done and that none of the rest needs. The
// end of a part may be called again.
func endUnneeded(ctx context.Context, done, rest []part) error {
	for _, p := range done {
		e, ok := p.measurement.(ender)
		if !ok || slices.ContainsFunc(rest, func(r part) bool { return slices.Contains(r.needs, p.name) }) {
			continue
		}
		if err := e.end(ctx); err != nil {
			return fmt.Errorf("end %s: %w", p.name, err)
		}
	}
	return nil
}
