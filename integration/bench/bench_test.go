package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
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
		{"-records 1000 -retry 10", true},
		{"-records 1000 -retry 10 -write", false}, // too little to be published
		{"-records 10 -retry 11", false},
		{"-retry 0", false},
		{"-single 1", false},
		{"rest", false},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		if (err == nil) != c.ok {
			t.Errorf("parse(%q) = %v, want ok %t", c.args, err, c.ok)
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
	if got := u.share(); math.Abs(got-0.75) > 1e-9 {
		t.Errorf("share() = %v, want 0.75", got)
	}
	if got := u.foreign(); math.Abs(got-3.0/8) > 1e-9 {
		t.Errorf("foreign() = %v, want 3/8", got)
	}
	if got, want := u.limits(1_000_000), "api 2 µs, Kafka 1 µs"; !strings.HasSuffix(got, want) || !strings.HasPrefix(got, "waiting") {
		t.Errorf("limits() = %q, want waiting ... %q", got, want)
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

// measured is a result just above every demand.
func measured() result {
	return result{
		opts:    options{records: 1_000_000, retry: 100_000},
		machine: machine{cores: 2, postgres: "17.1", kafka: "4.1"},
		single:  rate{1900, time.Second}, copied: rate{20_000, time.Second}, produce: rate{100_000, time.Second},
		ingest: ingested{rate: rate{15_300, time.Second}, steps: []rate{{16_000, time.Second}}, memory: 149e6},
		retry:  retried{rate: rate{5_100, time.Second}, memory: 149e6},
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := publish(measured(), false, &out); err != nil {
		t.Errorf("publish = %v, want nil", err)
	}
	for _, want := range []string{"15,300 /s", "8.1", "1,900 /s", "5,100 /s", "149 MB", "16,000"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
	for name, spoil := range map[string]func(*result){
		"ingest, too slow":      func(r *result) { r.ingest.rate, r.single = rate{14_999, time.Second}, rate{100, time.Second} },
		"ingest, ratio":         func(r *result) { r.single = rate{2_000, time.Second} },
		"retry-all, too slow":   func(r *result) { r.retry.rate = rate{4_999, time.Second} },
		"ingester, too large":   func(r *result) { r.ingest.memory = 150e6 },
		"API, too large":        func(r *result) { r.retry.memory = 150e6 },
		"nothing, not measured": func(r *result) { r.single = rate{} },
	} {
		r := measured()
		spoil(&r)
		err := publish(r, false, io.Discard)
		if err == nil || strings.Count(err.Error(), "wanted") != 1 {
			t.Errorf("%s: publish = %v, want one missed demand", name, err)
		}
	}
}

func TestPageHoldsTheTable(t *testing.T) {
	t.Parallel()
	page := measured().page()
	for _, want := range []string{"| 15,300 /s |", "| 5,100 /s |", "PostgreSQL 17.1", "Kafka 4.1", "`fsync=on`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
