package main

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rates []float64
		want  float64
	}{
		{[]float64{3, 2, 4}, 2},
		{[]float64{5}, 1},
		{[]float64{5, 0}, 0},
		{nil, 0},
	} {
		if got := apart(c.rates); got != c.want {
			t.Errorf("apart(%v) = %v, want %v", c.rates, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		100_000: "100k", 1_000_000: "1M", 10_000_000: "10M", 1_500_000: "1.5M", 5000: "5k", 1234: "1,234", 7: "7",
	} {
		if got := short(n); got != want {
			t.Errorf("short(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestGrowthLines(t *testing.T) {
	t.Parallel()
	p := &growthPart{}
	for i, size := range growthSizes {
		usual := work{rate: rate{1500 - 150*i, time.Second}}
		w := rounds{{rate: rate{1, time.Second}}, usual, usual, usual, {rate: rate{9000, time.Second}}}
		p.sizes = append(p.sizes, grown{rows: size, ingest: w, list: w, claim: w, archive: w})
	}
	lines := p.lines()
	if got := missed(lines); len(lines) != 4 || got != nil {
		t.Errorf("%d lines, missed %q, want 4 and none", len(lines), got)
	}
	if want := "with 100k: 1,500 /s, 1M: 1,350 /s, 5M: 1,200 /s"; lines[0].beside != want || !strings.HasSuffix(lines[0].work, "with 10M messages") {
		t.Errorf("%q beside %q, want %q", lines[0].work, lines[0].beside, want)
	}
	p.sizes[1].list = rounds{{p.sizes[1].list[1].rate, usage{by: map[string]time.Duration{"postgres": 15 * time.Millisecond}, busy: time.Second}}}
	if got, want := p.lines()[1].limits, "0.0 µs, 11.1 µs, 0.0 µs, 0.0 µs; "+disturbed+" with 1M"; !strings.HasSuffix(got, want) {
		t.Errorf("limits are %q, want the processor time of each size, and %q", got, want)
	}
	p.sizes[3].claim = rounds{{rate: rate{899, time.Second}}}
	if got := missed(p.lines()); len(got) != 1 || !strings.HasPrefix(got[0], "claim") {
		t.Errorf("claims too far apart: missed %q, want that", got)
	}
	p.sizes = p.sizes[:3]
	if got := missed(p.lines()); len(got) != 4 {
		t.Errorf("a size is missing: missed %q, want all", got)
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	r := rounds{{rate: rate{10, time.Second}}, {rate: rate{10, time.Minute}}, {rate: rate{40, 2 * time.Second}}}
	if got, all := r.median(), r.total(); got != 10 || all.rate != (rate{60, 63 * time.Second}) {
		t.Errorf("median %v, total %v, want 10 and 60 in 63 s", got, all.rate)
	}
	if got := (rounds{}).median(); got != 0 {
		t.Errorf("nothing has a median of %v, want 0", got)
	}
}

func TestFillerDrawsWhatStays(t *testing.T) {
	t.Parallel()
	f := &filler{rows: 10, old: []numbers{{1, 3}, {6, 9}}}
	random, drawn := rand.New(rand.NewPCG(1, 1)), map[int]bool{}
	for range 200 {
		drawn[f.draw(random)] = true
	}
	if want := map[int]bool{4: true, 5: true, 10: true}; !maps.Equal(drawn, want) {
		t.Errorf("drawn were %v, want %v", drawn, want)
	}
	if got, want := filledID(12).String(), "018f0000-000c-7000-8000-000000000000"; got != want {
		t.Errorf("filledID(12) = %s, want %s", got, want)
	}
}

func TestFillerStaysWithinItsDays(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	f := newFillerOf(10_000_000, now)
	if got := f.moment(10_000_000); !got.Before(now) {
		t.Errorf("the last message is of %s, want before %s", got, now)
	}
	if oldest := now.AddDate(0, 0, -archiveDays); !f.begin.After(oldest) {
		t.Errorf("the first message is of %s, want after %s: it would be archived", f.begin, oldest)
	}
	for round := range growthRounds {
		before := now.AddDate(0, 0, -archiveDays-growthOldDays*(growthRounds-1-round))
		for _, n := range []int{1, 9_000_000} {
			oldest := f.oldFrom(n, round).Add(time.Duration(n) * f.each)
			if youngest := oldest.Add(growthWork * f.each); !youngest.Before(before) || oldest.Before(before.Add(-growthOld)) {
				t.Errorf("round %d: message %d and %d more are of %s to %s, want them to be archived in it", round, n, growthWork, oldest, youngest)
			}
		}
	}
}
