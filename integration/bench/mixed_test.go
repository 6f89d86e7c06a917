package main

import (
	"errors"
	"testing"
	"time"
)

func TestMixIsWhole(t *testing.T) {
	t.Parallel()
	reads := mix(nil)
	count, all := map[string]int{}, 0
	for n := range 100 {
		count[drawn(reads, n).name]++
	}
	for _, r := range reads {
		all += r.of
		if count[r.name] != r.of {
			t.Errorf("%s is drawn %d times of 100, want %d", r.name, count[r.name], r.of)
		}
	}
	if all != 100 {
		t.Errorf("the mix adds up to %d, want 100", all)
	}
}

func TestDueBy(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int{0: 0, 25 * time.Millisecond: 500, time.Second: 20_000, time.Minute: 1_200_000} {
		if got := dueBy(after, 20_000); got != want {
			t.Errorf("dueBy(%s) = %d, want %d", after, got, want)
		}
	}
}

func TestMixedLines(t *testing.T) {
	t.Parallel()
	at := func(quiet, loaded, stored int) *mixedPart {
		return &mixedPart{
			quiet:    load{times: times(quiet)},
			bearable: flood{due: mixedBearable, load: load{times: times(quiet)}, stored: rate{mixedBearable, time.Second}},
			flood: flood{
				due: mixedRate, load: load{times: times(loaded)}, produced: rate{20_000, time.Second}, stored: rate{stored, time.Second},
			},
			memory: 100e6,
		}
	}
	failing, late, large := at(10, 30, 20_000), at(10, 30, 20_000), at(10, 30, 20_000)
	failing.flood.note(0, errors.New("500"))
	late.flood.late, large.memory = 1, wantMemory*1e6
	behind := at(10, 30, 20_000)
	behind.bearable.stored.n -= mixedBearable / 50
	for _, c := range []struct {
		name string
		part *mixedPart
		want int
	}{
		{"both", at(10, 30, 20_000), 0},
		{"too slow", at(10, 31, 20_000), 1},
		{"too little ingested", at(10, 30, 19_000), 1},
		{"an answer failed", failing, 1},
		{"a request was not asked", late, 1},
		{"too much memory", large, 1},
		{"behind what is bearable", behind, 1},
		{"nothing measured", &mixedPart{}, 5},
	} {
		if got := missed(c.part.lines()); len(got) != c.want {
			t.Errorf("%s: missed %q, want %d", c.name, got, c.want)
		}
	}
}

func TestAnswersSayWhatWentWrong(t *testing.T) {
	t.Parallel()
	l := load{times: []time.Duration{time.Second}, late: 2}
	l.note(0, errors.New("503\nbusy"))
	l.note(time.Second, nil)
	if got, want := l.answers(), `2 answers, 1 errors ("503\nbusy"), 2 not asked in time`; got != want {
		t.Errorf("answers() = %q, want %q", got, want)
	}
}
