package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestLetterIsWhatTheFiguresAreAbout(t *testing.T) {
	t.Parallel()
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := deadletter.New(patterns, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLetters()
	for n, name := range names {
		r := l.letter(name, n)
		if !json.Valid(r.Value) || len(r.Value) < 1000 || len(r.Value) > 1100 {
			t.Errorf("value of %s: %d bytes, valid %t, want 1000 to 1100 of JSON", name, len(r.Value), json.Valid(r.Value))
		}
		if got := headerBytes(r); len(r.Headers) != 8 || got < 500 || got > 700 {
			t.Errorf("headers of %s: %d with %d bytes, want 8 with 500 to 700", name, len(r.Headers), got)
		}
		record := entity.Record{Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, entity.Header{Key: h.Key, Value: h.Value})
		}
		reading := decoder.Decode(r.Topic, record, l.at, nil)
		if reading.Failure.Dialect != "spring-dlt" || reading.OriginalTopic != originalTopic(name) {
			t.Errorf("%s is read as %q of %q, want spring-dlt of %q", name,
				reading.Failure.Dialect, reading.OriginalTopic, originalTopic(name))
		}
	}
	if a, b := l.letter("orders", 1), l.letter("orders", 1); bytes.Equal(a.Value, b.Value) || bytes.Equal(a.Key, b.Key) {
		t.Error("two letters are alike, want them to differ")
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ records, retry int }{{1_000_000, 100_000}, {100, 100}, {1003, 7}, {20, 19}} {
		total := 0
		got := quota(c.records, c.retry)
		for _, n := range got {
			total += n
		}
		if got[0] != c.retry || total != c.records {
			t.Errorf("quota(%d, %d) = %v, want %d first and %d in all", c.records, c.retry, got, c.retry, c.records)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		ok   bool
	}{
		{"", true},
		{"-write", true},
		{"-scale 0.01", true},
		{"-only ingest,cursor", true},
		{"-only nothing", false},
		{"-only ingest -write", false},
		{"-scale 0.5 -write", false}, // too little to be published
		{"-scale 0", false},
		{"-scale 1.1", false},
		{"-scale NaN", false},
		{"-reads 5000000 -write", true},
		{"-reads 4999999 -write", false},
		{"-reads 1000", false},
		{"rest", false},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		if (err == nil) != c.ok {
			t.Errorf("parse(%q) = %v, want ok %t", c.args, err, c.ok)
		}
	}
	for _, args := range []string{"-scale 0.001", "-scale 0.1", ""} {
		opts, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		least := quota(opts.records, opts.retry)[1]
		if opts.single < 2 || opts.copied < 2 || opts.doubtful < 2 || opts.backlog < 1 || least < max(opts.doubtful, opts.retry, 2*opts.single) {
			t.Errorf("parse(%q) leaves %d letters to a topic for %+v", args, least, opts.counts)
		}
	}
}

func TestParseProcess(t *testing.T) {
	t.Parallel()
	const text = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 200 0 0 150 50 30 20 20 0 5 0 12345 1000 200 18446744073709551615"
	got, err := parseProcess(text)
	want := process{pid: 42, parent: 7, name: "a (b) c", own: 2 * time.Second, children: 500 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("parseProcess = %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 (a", "42 (a) S 7", strings.Replace(text, "150", "x", 1)} {
		if _, err := parseProcess(bad); err == nil {
			t.Errorf("parseProcess(%q) = nil, want an error", bad)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	busy, idle := wholeMachine("cpu  100 10 50 700 40 5 5 30 9 9\ncpu0 1 1 1 1\n")
	if busy != 2*time.Second || idle != 7400*time.Millisecond {
		t.Errorf("wholeMachine = %s busy, %s idle, want 2s and 7.4s", busy, idle)
	}
	before := usage{by: map[string]time.Duration{"api": time.Second}, busy: time.Second, idle: time.Second}
	after := usage{by: map[string]time.Duration{"api": 3 * time.Second, "java": time.Second}, busy: 7 * time.Second, idle: 3 * time.Second}
	u := after.since(before)
	if both := u.plus(u); both.by["api"] != 4*time.Second || both.busy != 2*u.busy || both.idle != 2*u.idle {
		t.Errorf("plus() = %+v, want twice of %+v", both, u)
	}
	if got := u.share(); math.Abs(got-0.75) > 1e-9 {
		t.Errorf("share() = %v, want 0.75", got)
	}
	if got := u.foreign(); math.Abs(got-3.0/8) > 1e-9 {
		t.Errorf("foreign() = %v, want 3/8", got)
	}
	if got, want := u.limits(1_000_000, "request", 1), "a request takes api 2 µs, Kafka 1 µs"; !strings.HasSuffix(got, want) || !strings.HasPrefix(got, disturbed) {
		t.Errorf("limits() = %q, want %s ... %q", got, disturbed, want)
	}
}

func TestWhatLimitsFollowsFromTheSessions(t *testing.T) {
	t.Parallel()
	s := time.Second
	used := func(postgres, bench, foreign, idle time.Duration) usage {
		return usage{by: map[string]time.Duration{"postgres": postgres, "bench": bench}, busy: postgres + bench + foreign, idle: idle}
	}
	for _, c := range []struct {
		name            string
		u               usage
		sessions, cores int
		want            string
	}{
		{"one process", used(9*s, 0, 0, 11*s), 1, 2, "one process of PostgreSQL, all of a core"},
		{"by turns", used(5*s, 4*s, 0, 11*s), 1, 2, "one after the other"},
		{"one that waits", used(4*s, s, 0, 15*s), 1, 2, "waiting"},
		{"as many as cores", used(9*s, 0, 0, 11*s), 2, 2, "waiting"},
		{"two of four cores", used(18*s, 0, 0, 22*s), 2, 4, "2 processes of PostgreSQL"},
		{"all busy", used(17*s, s, 0, 2*s), 1, 2, "the processors"},
		{"others", used(9*s, 0, 2*s, 9*s), 1, 2, disturbed},
	} {
		if got := c.u.kind(c.sessions, c.cores); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: kind() = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_020_003: "1,020,003"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

// times is one of as many milliseconds.
func times(ms int) []time.Duration { return []time.Duration{time.Duration(ms) * time.Millisecond} }

func TestPercentile(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for n := 1; n <= 200; n++ {
		all = append(all, time.Duration(n))
	}
	for _, c := range []struct {
		sorted []time.Duration
		of     float64
		want   time.Duration
	}{
		{all, 50, 100},
		{all, 99, 198},
		{all, 99.9, 200},
		{all, 100, 200},
		{all, 0, 1},
		{all[:1], 50, 1},
		{nil, 99, 0},
	} {
		if got := percentile(c.sorted, c.of); got != c.want {
			t.Errorf("percentile(%d times, %v) = %d, want %d", len(c.sorted), c.of, got, c.want)
		}
	}
}

func TestWithoutAudit(t *testing.T) {
	t.Parallel()
	const before = "WITH a AS (SELECT 1), audit AS (\n\tINSERT INTO dlq.audit (at, action,\n\t\treason)\n\tSELECT f(x), $2 FROM a\n) SELECT 1"
	const want = "WITH a AS (SELECT 1), audit AS (\n\t\n\tSELECT f(x), $2 FROM a\n) SELECT 1"
	if got := withoutAudit(before); got != want {
		t.Errorf("withoutAudit = %q, want %q", got, want)
	}
	const other = "INSERT INTO dlq.attempts (a) SELECT 1"
	if got := withoutAudit(other); got != other {
		t.Errorf("withoutAudit = %q, want it unchanged", got)
	}
}

func TestInBatches(t *testing.T) {
	t.Parallel()
	all := make([]int, 103)
	for i := range all {
		all[i] = i
	}
	var mu sync.Mutex
	var got []int
	err := inBatches(3, 10, all, func(some []int) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, some...)
		return nil
	})
	slices.Sort(got)
	if err != nil || !slices.Equal(got, all) {
		t.Errorf("inBatches = %v with %v, want each of %d once", err, got, len(all))
	}
	wrong := errors.New("wrong")
	begun := 0
	if err := inBatches(1, 10, all, func([]int) error { begun++; return wrong }); !errors.Is(err, wrong) || begun != 1 {
		t.Errorf("inBatches = %v after %d batches, want %v after one", err, begun, wrong)
	}
}

func TestFeedMakesWhatTheIngesterStores(t *testing.T) {
	t.Parallel()
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := deadletter.New(patterns, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{letters: newLetters(), decoder: decoder}
	f.next(3)
	b := f.next(2)
	if r := b.Ranges[0]; len(b.Ranges) != 1 || r.From != 3 || r.To != 5 || len(b.Messages) != 2 {
		t.Fatalf("next(2) = %d messages in %+v, want two in one range from 3 to 5", len(b.Messages), b.Ranges)
	}
	for i, m := range b.Messages {
		if m.Source.Offset != int64(3+i) || m.OriginalTopic != originalTopic(names[0]) || m.Failure.Dialect != "spring-dlt" {
			t.Errorf("message %d = %+v of %q in %q", i, m.Source, m.OriginalTopic, m.Failure.Dialect)
		}
	}
}

func TestSpent(t *testing.T) {
	t.Parallel()
	u := usage{
		by:   map[string]time.Duration{"api": time.Second, "postgres": 2500 * time.Millisecond, "bench": 10 * time.Millisecond},
		busy: 4 * time.Second, idle: time.Second,
	}
	if got, want := u.spent(), "PostgreSQL 2.5 s, api 1.0 s of 5.0 s"; got != want {
		t.Errorf("spent() = %q, want %q", got, want)
	}
}
