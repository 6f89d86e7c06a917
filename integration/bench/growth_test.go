package main

import (
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
		w := work{rate: rate{1500 - 166*i, time.Second}}
		p.sizes = append(p.sizes, grown{rows: size, ingest: w, list: w, claim: w, archive: w})
	}
	lines := p.lines()
	if got := missed(lines); len(lines) != 4 || got != nil {
		t.Errorf("%d lines, missed %q, want 4 and none", len(lines), got)
	}
	if want := "with 100k: 1,500 /s, 1M: 1,334 /s, 5M: 1,168 /s"; lines[0].beside != want || !strings.HasSuffix(lines[0].work, "with 10M messages") {
		t.Errorf("%q beside %q, want %q", lines[0].work, lines[0].beside, want)
	}
	p.sizes[3].claim.n = 999
	if got := missed(p.lines()); len(got) != 1 || !strings.HasPrefix(got[0], "claim") {
		t.Errorf("claims too far apart: missed %q, want that", got)
	}
	p.sizes = p.sizes[:3]
	if got := missed(p.lines()); len(got) != 4 {
		t.Errorf("a size is missing: missed %q, want all", got)
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
	for _, n := range []int{1, 9_000_000} {
		if youngest := f.oldFrom(n).Add(time.Duration(n+growthWork) * f.each); !youngest.Before(now.AddDate(0, 0, -archiveDays)) {
			t.Errorf("message %d and %d more are of %s, want them to be old enough to be archived", n, growthWork, youngest)
		}
	}
}
