package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakePart does what it is told.
type fakePart struct {
	err  error
	ran  int
	ends int
}

func (f *fakePart) run(context.Context) error { f.ran++; return f.err }
func (f *fakePart) lines() []line             { return nil }
func (f *fakePart) method() string            { return "" }
func (f *fakePart) end(context.Context) error { f.ends++; return nil }

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []part{{name: "a"}, {name: "b", needs: []string{"a"}}, {name: "c"}, {name: "d", needs: []string{"b"}}}
	for _, c := range []struct {
		only string
		want []string
	}{
		{"", []string{"a", "b", "c", "d"}},
		{"c", []string{"c"}},
		{"b", []string{"a", "b"}},
		{"d,c", []string{"a", "b", "c", "d"}},
		{"d", []string{"a", "b", "d"}},
	} {
		got, err := choose(all, strings.FieldsFunc(c.only, func(r rune) bool { return r == ',' }))
		if err != nil || !slices.Equal(partNames(got), c.want) {
			t.Errorf("choose(%q) = %v, %v, want %v", c.only, partNames(got), err, c.want)
		}
	}
	if _, err := choose(all, []string{"e"}); err == nil {
		t.Error("choose(e) = nil, want an error")
	}
}

func TestEveryPartNeedsEarlierOnes(t *testing.T) {
	t.Parallel()
	for _, opts := range []options{{}, {reads: 1}} {
		var seen []string
		for _, p := range (&bench{opts: opts}).parts() {
			for _, need := range p.needs {
				if !slices.Contains(seen, need) {
					t.Errorf("part %s needs %s, want it to stand before", p.name, need)
				}
			}
			if slices.Contains(seen, p.name) {
				t.Errorf("two parts are called %s", p.name)
			}
			seen = append(seen, p.name)
		}
	}
}

func TestRunParts(t *testing.T) {
	t.Parallel()
	a, b, c := &fakePart{}, &fakePart{}, &fakePart{}
	run := &bench{log: io.Discard}
	parts := []part{
		{name: "a", measurement: a},
		{name: "b", measurement: b, needs: []string{"a"}},
		{name: "c", measurement: c},
	}
	wrong := errors.New("wrong")
	c.err = wrong
	err := run.runParts(t.Context(), parts)
	if !errors.Is(err, wrong) || !strings.Contains(err.Error(), "part c failed") {
		t.Errorf("runParts = %v, want %v of c", err, wrong)
	}
	if a.ran != 1 || b.ran != 1 || c.ran != 1 || len(run.result.parts) != 2 {
		t.Errorf("%d, %d and %d runs and %d results, want one each and two", a.ran, b.ran, c.ran, len(run.result.parts))
	}
	// a must last as long as b needs it, and may be ended again.
	if a.ends != 1 || b.ends != 1 || c.ends != 0 {
		t.Errorf("ended %d, %d and %d times, want 1, 1 and 0", a.ends, b.ends, c.ends)
	}
}

// above is a run that is just above every demand on writing and retrying.
func above() result {
	second := func(n int) work { return work{rate: rate{n, time.Second}} }
	top := profile{
		name: "ingester", processor: 14 * time.Second, functions: []spent{{what: "pq.send", share: 0.25}},
		statements: []spent{{what: "INSERT dlq_messages", share: 0.875, calls: 1234, each: 12 * time.Millisecond}},
	}
	parts := []part{
		{name: "ingest", measurement: &ingestPart{
			ingested: ingested{work: second(14_100), steps: []rate{{16_000, time.Second}}, memory: 127e6, profile: top},
			single:   second(1_400), copied: copies{{second(20_000), 2}, {second(19_000), 4}},
		}},
		{name: "sizes", measurement: &sizesPart{sizes: []sized{{
			size: size{name: "100 B", count: 300_000}, ingested: ingested{work: second(24_100)}, copied: copies{{second(40_000), 4}},
		}}}},
		{name: "large", measurement: &largePart{in: ingested{work: second(10), memory: 126e6}, retried: second(12), api: 125e6}},
		{name: "connect", measurement: &connectPart{
			ingester: []turn{{aTurn(22_100, 60, 20), 110e6}, {aTurn(1, 900, 1), 1}, {aTurn(90_000, 1, 1), 900e6}},
			connect:  []turn{{aTurn(20_000, 30, 90), 900e6}},
		}},
		{name: "retry-all", measurement: &retryPart{
			bench: &bench{},
			retried: retried{
				work: work{rate: rate{100_000, 6600 * time.Millisecond}}, memory: 124e6, created: rate{100_000, 300 * time.Millisecond},
			},
			produced: produced{rate: rate{50_000, time.Second}}, looked: looked{rows: 20_000, memory: 123e6},
			bare: second(21_500), hasty: second(303), patient: rate{151, time.Second},
		}},
		{name: "settling", measurement: &doubtPart{work: work{rate: rate{10_000, 9900 * time.Millisecond}}}},
		{name: "audit-line", measurement: &auditPart{cost: cost{with: rate{9_000, time.Second}, without: rate{10_000, time.Second}}}},
		{name: "equal-records", measurement: &hashPart{
			bench: &bench{}, cost: cost{with: rate{20_000, 2 * time.Second}, without: rate{25_000, 2 * time.Second}},
		}},
		{name: "profiling", measurement: &profilingPart{cost: cost{with: rate{9_900, time.Second}, without: rate{10_000, time.Second}}}},
		{name: "cursor", measurement: &backlogPart{backlog: backlog{
			work: work{rate: rate{1_000_000, time.Minute}}, claims: times(99), before: 100, after: 199,
		}}},
	}
	r := result{machine: machine{cores: 2, postgres: "17.1", kafka: "4.1"}}
	for _, p := range parts {
		r.parts = append(r.parts, measured{p, 12 * time.Second})
	}
	return r
}

// aTurn is n rows of one second, and the processor time in µs of each.
func aTurn(n int, postgres, program time.Duration) work {
	by := map[string]time.Duration{"postgres": postgres, "program": program}
	for name := range by {
		by[name] *= time.Duration(n) * time.Microsecond
	}
	return work{rate{n, time.Second}, usage{by: by}}
}

// of is the part of a result that is of this type.
func of[T measurement](r result) (found T) {
	for _, p := range r.parts {
		if m, ok := p.measurement.(T); ok {
			found = m
		}
	}
	return found
}

func TestPublish(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := publish(above(), false, &out); err != nil {
		t.Errorf("publish = %v, want nil", err)
	}
	for _, want := range []string{
		"14,100 /s", "10.1", "1,400 /s", "24,100 /s", "0.60", "15,151 /s", "0.30", "0.70", "50", "100", "100 MB/s",
		"300 ms", "9.9 s", "p99 99 ms", "16,666 /s", "1.99", "0.90", "0.80", "0.99", "127 MB", "126 MB", "125 MB", "124 MB", "123 MB",
		"`pq.send` 25 %", "`INSERT dlq_messages` 88 % (1,234 × 12.0 ms)", "settling 12.0 s", "Together: 120.0 s", "COPY, 2 connections: 20,000 /s; 4: 19,000 /s",
		"22,100 /s", "1.10", "60 µs a row", "2.00", "80 µs a row", "0.67", "110 MB",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
	for name, spoil := range map[string]func(result){
		"ingest, COPY":           func(r result) { of[*ingestPart](r).copied[0].n = 20_200 },
		"ingest, INSERT":         func(r result) { of[*ingestPart](r).single.n = 1_411 },
		"ingest, sizes":          func(r result) { of[*sizesPart](r).sizes[0].copied[0].n = 40_200 },
		"ingester, too large":    func(r result) { of[*ingestPart](r).memory = 128e6 },
		"ingester, 10 MB":        func(r result) { of[*largePart](r).in.memory = 128e6 },
		"Connect, speed":         func(r result) { of[*connectPart](r).connect[0].took = 990 * time.Millisecond },
		"Connect, PostgreSQL":    func(r result) { of[*connectPart](r).connect[0].cpu.by["postgres"] = 540 * time.Millisecond },
		"Connect, all programs":  func(r result) { of[*connectPart](r).connect[0].cpu.by["program"] = time.Second },
		"API, 10 MB":             func(r result) { of[*largePart](r).api = 128e6 },
		"API, too large":         func(r result) { of[*retryPart](r).memory = 128e6 },
		"API, lists":             func(r result) { of[*retryPart](r).looked.memory = 128e6 },
		"retry-all, producer":    func(r result) { of[*retryPart](r).produced.n = 101_100 },
		"retry-all, bare SQL":    func(r result) { of[*retryPart](r).bare.n = 21_700 },
		"retry-all, one by one":  func(r result) { of[*retryPart](r).hasty.n = 607 },
		"settling, too slow":     func(r result) { of[*doubtPart](r).took = 10 * time.Second },
		"settling, nothing":      func(r result) { of[*doubtPart](r).work = work{} },
		"claims, too slow":       func(r result) { of[*backlogPart](r).claims = times(100) },
		"claims, none":           func(r result) { of[*backlogPart](r).claims = nil },
		"size, too large":        func(r result) { of[*backlogPart](r).after = 200 },
		"size, not measured":     func(r result) { of[*backlogPart](r).before = 0 },
		"INSERT, not measured":   func(r result) { of[*ingestPart](r).single = work{} },
		"COPY, not measured":     func(r result) { of[*ingestPart](r).copied = nil },
		"memory, not measured":   func(r result) { of[*largePart](r).api = 0 },
		"producer, not measured": func(r result) { of[*retryPart](r).produced = produced{} },
	} {
		r := above()
		spoil(r)
		err := publish(r, false, io.Discard)
		if err == nil || strings.Count(err.Error(), "wanted") != 1 {
			t.Errorf("%s: publish = %v, want one missed demand", name, err)
		}
	}
}

func TestTheLeastIsNeitherReachedNorMissed(t *testing.T) {
	t.Parallel()
	r := above()
	of[*retryPart](r).produced.n = 100_900
	of[*retryPart](r).hasty.n = 606
	var out bytes.Buffer
	if err := publish(r, false, &out); err != nil {
		t.Errorf("publish = %v, want nil", err)
	}
	if got := strings.Count(out.String(), "the least"); got != 2 {
		t.Errorf("%d rows say that only the least was reached, want 2:\n%s", got, &out)
	}
}

func TestPageHoldsTheTable(t *testing.T) {
	t.Parallel()
	page := above().page()
	for _, want := range []string{
		"| 14,100 /s |", "| 15,151 /s |", "| 0.90 | – | – | one connection |", "PostgreSQL 17.1", "Kafka 4.1", "`fsync=on`",
		"## Profiles", "| ingest | ingester, 14.0 s |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if !strings.HasSuffix(page, "\n") || strings.Contains(page, "%!") {
		t.Errorf("the page is not well formed:\n%s", page)
	}
}
