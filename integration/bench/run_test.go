package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAFailedRunShowsWhatWasOverAndFails(t *testing.T) {
	t.Parallel()
	wrong := errors.New("part c failed")
	var out bytes.Buffer
	r := above()
	r.opts.write = true // would write the page
	if err := announce(r, wrong, &out); !errors.Is(err, wrong) {
		t.Errorf("announce = %v, want %v", err, wrong)
	}
	if !strings.Contains(out.String(), "14,100 /s") {
		t.Errorf("the table of what was over is missing:\n%s", &out)
	}
	if strings.Contains(out.String(), "all of these parts") {
		t.Errorf("a run that failed has a time for the whole:\n%s", &out)
	}
	out.Reset()
	if err := announce(result{}, wrong, &out); !errors.Is(err, wrong) || out.Len() > 0 {
		t.Errorf("announce of nothing = %v with %q, want %v alone", err, &out, wrong)
	}
}

func TestTheWholeRunHasATime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts    options
		took    time.Duration
		verdict string
	}{
		{options{scale: 1}, 14 * time.Minute, "yes"},
		{options{scale: 1}, 15 * time.Minute, "no"},
		{options{scale: 0.5}, time.Minute, noDemand},
		{options{scale: 1, only: []string{"a"}}, time.Hour, noDemand},
	} {
		r := result{opts: c.opts, parts: []measured{{part{name: "a", measurement: &fakePart{}}, c.took / 2}, {part{name: "b", measurement: &fakePart{}}, c.took / 2}}}
		lines := r.lines()
		if got := lines[len(lines)-1]; got.verdict() != c.verdict || got.figure != seconds(c.took) {
			t.Errorf("the last row after %s = %+v, want %s", c.took, got, c.verdict)
		}
	}
}

func TestOthersWorkKeepsThePageFromBeingWritten(t *testing.T) {
	t.Parallel()
	u := usage{by: map[string]time.Duration{"api": time.Second}, busy: 3 * time.Second, idle: 7 * time.Second}
	err := expectUndisturbed([]line{{work: "quiet", limits: "waiting"}, {work: "spoiled", limits: "COPY: " + u.limits(1, "record", 1)}})
	if err == nil || !strings.Contains(err.Error(), "spoiled") || strings.Contains(err.Error(), "quiet") {
		t.Errorf("expectUndisturbed = %v, want an error about the spoiled row", err)
	}
	u.busy = 1500 * time.Millisecond
	if err := expectUndisturbed([]line{{limits: u.limits(1, "record", 1)}}); err != nil {
		t.Errorf("expectUndisturbed with little of others = %v, want nil", err)
	}
}

func TestProgramsRunWithTheirDefaults(t *testing.T) {
	t.Parallel()
	got := environ([]string{"HOME=/h", "DLQ_X=1", "GOGC=off", "GOMEMLIMIT=1", "GOMAXPROCS=1", "GODEBUG=a=1", "GOGCX=1"})
	if want := []string{"HOME=/h", "GOGCX=1"}; !slices.Equal(got, want) {
		t.Errorf("environ = %v, want %v", got, want)
	}
}

func TestUnquotedRowsHaveBytes(t *testing.T) {
	t.Parallel()
	s := &sample{
		columns: []string{"id", "dlq_offset", "created_at", "updated_at", "value", "error_message"}, binary: []string{"value"},
		rows: [][]any{{"1", "7", "then", "then", `\x01ff`, `\x01ff`}, {"2", "8", "then", "then", nil, nil}},
	}
	got, err := s.unquoted()
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := got.rows[0][4].([]byte); !ok || !bytes.Equal(b, []byte{1, 255}) || got.rows[0][5] != `\x01ff` || got.rows[1][4] != nil {
		t.Errorf("unquoted() = %v, want bytes where the column has them", got.rows)
	}
	if s.rows[0][4] != `\x01ff` {
		t.Errorf("unquoted() changed the rows that COPY sends: %v", s.rows)
	}
	s.rows[0][4] = `\xzz`
	if _, err := s.unquoted(); err == nil {
		t.Error("unquoted() of what is not hexadecimal = nil, want an error")
	}
}

func TestTheFasterCopyCounts(t *testing.T) {
	t.Parallel()
	second := func(n int) work { return work{rate: rate{n, time.Second}} }
	var c copies
	for _, one := range []copying{{second(10), 2}, {second(20), 4}, {second(40), 2}, {second(20), 4}} {
		c.add(one)
	}
	if best := c.fastest(); len(c) != 2 || best.connections != 2 || best.rate != (rate{50, 2 * time.Second}) {
		t.Errorf("fastest() = %+v of %d, want 50 in 2 s with 2 connections", best, len(c))
	}
	if got, want := c.text(), "COPY, 2 connections: 25 /s; 4: 20 /s"; got != want {
		t.Errorf("text() = %q, want %q", got, want)
	}
	if best := (copies{}).fastest(); best.perSecond() != 0 {
		t.Errorf("fastest() of none = %+v, want nothing", best)
	}
}
