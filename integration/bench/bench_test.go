package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestIntervalIsThatOfTheSignTest: the bounds of the confidence interval are two of the sorted values. They are the
// narrowest pair that covers at least 95 % by the sign test. With fewer than six values no interval reaches 95 %.
func TestIntervalIsThatOfTheSignTest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n         int
		low, high float64
		coverage  float64
	}{
		{0, 0, 0, 0},
		{1, 1, 1, 0},
		{2, 1, 2, 0.5},
		{5, 1, 5, 0.9375},
		{6, 1, 6, 0.96875},
		{8, 1, 8, 0.9922},
		{9, 2, 8, 0.9609},
		{20, 6, 15, 0.9586},
	} {
		var values []float64
		for v := range test.n {
			values = append(values, float64(test.n-v))
		}
		low, high, coverage := interval(values)
		if low != test.low || high != test.high || math.Abs(coverage-test.coverage) > 0.0001 {
			t.Errorf("interval of 1 to %d: got %v to %v with %.4f, want %v to %v with %.4f",
				test.n, low, high, coverage, test.low, test.high, test.coverage)
		}
	}
}

func TestQuantilesMediansAndNumbers(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for n := range 200 {
		times = append(times, time.Duration(200-n))
	}
	for share, want := range map[float64]time.Duration{0.5: 100, 0.99: 198, 1: 200, 0: 1} {
		if got := quantile(times, share); got != want {
			t.Errorf("quantile %v of 1 to 200: got %d, want %d", share, got, want)
		}
	}
	for want, values := range map[float64][]float64{0: nil, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		if got := median(values); got != want {
			t.Errorf("median of %v: got %v, want %v", values, got, want)
		}
	}
	for want, v := range map[string]float64{"1,234,568": 1234567.8, "999": 999.4, "12.3": 12.34, "0.05": 0.051} {
		if got := number(v); got != want {
			t.Errorf("number %v: got %s, want %s", v, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	less, more := section{}.figure("", "ms", 10), section{}.figure("", "/s", 10)
	got := []bool{
		less.missed(), less.limit(10).missed(), less.limit(11).missed(), more.limit(10).missed(), more.limit(11).missed(),
		skipped("", "no server").limit(11).missed(),
	}
	if want := []bool{false, true, false, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("10 ms of any, 10 and 11, 10 /s of 10 and 11, skipped: missed %v, want %v", got, want)
	}
}

func TestMetricsAreSummedOverTheirLabels(t *testing.T) {
	t.Parallel()
	const text = "# HELP m x\nm{topic=\"a b\"} 1.5\nm{topic=\"c\"} 2\nm_other 7\nn 3\n"
	for name, want := range map[string]float64{"m": 3.5, "n": 3, "absent": 0} {
		if got := sumMetric(strings.NewReader(text), name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestTheLastLineOfTheProducerToolCounts(t *testing.T) {
	t.Parallel()
	const text = "10 records sent, 5.0 records/sec (1 MB/sec)\n300 records sent, 53773.077612 records/sec (66.87 MB/sec), 1 ms avg\n"
	if n, rate := readProduced(text); n != 300 || rate != 53773.077612 {
		t.Errorf("got %d, %v", n, rate)
	}
	if err := attempt(func() { readProduced("Exception") }); err == nil {
		t.Error("no line of records: got no error")
	}
}

func TestClaimTimesAddParseBindAndExecute(t *testing.T) {
	t.Parallel()
	line := func(pid int, database, message string) string {
		return fmt.Sprintf("{\"pid\": %d, \"dbname\": %q, \"message\": %q}\n", pid, database, message)
	}
	const claim = "WITH want AS (SELECT 1) UPDATE m SET\n\tstatus = 'RETRYING', x = 1"
	got := claimTimes(strings.NewReader(
		line(1, "d", "duration: 1.000 ms  parse <unnamed>: "+claim)+
			line(2, "d", "duration: 50.000 ms  execute <unnamed>: "+claim)+
			line(1, "d", "duration: 2.000 ms  bind <unnamed>: "+claim)+
			line(1, "d", "duration: 4.000 ms  execute <unnamed>: "+claim)+
			line(3, "d", "duration: 9.000 ms  execute <unnamed>: SELECT 1 WHERE status = 'RETRYING'")+
			line(3, "other", "duration: 9.000 ms  execute <unnamed>: "+claim)+
			line(3, "d", "connection received")), "d")
	if want := []time.Duration{50 * time.Millisecond, 7 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOthersAreWhoDoesNotDescendFromTheBench(t *testing.T) {
	t.Parallel()
	all := map[int]procfs.ProcStat{1: {}, 7: {PPID: 1}, 8: {PPID: 7}, 9: {PPID: 8}, 10: {PPID: 1}}
	for pid, want := range map[int]bool{7: true, 8: true, 9: true, 10: false, 1: false, 99: false} {
		if got := descends(all, pid, 7); got != want {
			t.Errorf("%d descends from 7: got %t, want %t", pid, got, want)
		}
	}
	before := usage{by: map[string]time.Duration{"api": 1}, busy: 10, idle: 10}
	used := usage{by: map[string]time.Duration{"api": 6, "java": 10}, busy: 40, idle: 30}.since(before)
	if got := used.others(); got != 0.3 { // of 50 ticks, 30 are busy; this process and its descendants use 15 of the 30
		t.Errorf("others: got %v, want 0.3", got)
	}
}

// TestComparisonsAreOfPairs: a ratio is computed from two figures of the same pair. A figure that only one of the two
// commits has is reported too.
func TestComparisonsAreOfPairs(t *testing.T) {
	t.Parallel()
	b := &bench{}
	b.sides = []*side{{bench: b, commit: "old"}, {bench: b, commit: "new"}}
	for i := range 6 {
		for at, s := range b.sides {
			f := figure{side: s, Part: "ingest", Name: "rate", Value: float64((i + 1) * (at + 1)), MoreIsBetter: true}
			cost, same := f, f
			cost.Name, cost.MoreIsBetter = "cost", false
			same.Name, same.Value = "same", float64(100+i*(1-2*at))
			b.done = append(b.done, f, cost, same)
		}
	}
	b.done = append(b.done, figure{side: b.sides[1], Part: "payloads", Name: "lag", Value: 1}, figure{side: b.sides[0], Part: "payloads", Name: "share", Skipped: "no view"})
	b.done = append(b.done, figure{side: b.sides[0], Part: "few", Name: "pairs", Value: 1}, figure{side: b.sides[1], Part: "few", Name: "pairs", Value: 1})
	text := b.report().markdown()
	for _, want := range []string{
		"| 1.000 to 1.000 | no result: the interval of 1 pairs has 0 % |",
		"| ingest | rate | 3.50 | 7.00  | 2.000 | 2.000 to 2.000 | better |",
		"| ingest | cost | 3.50 | 7.00  | 2.000 | 2.000 to 2.000 | worse |",
		"| within noise |",
		"| payloads | lag | – | skipped: old does not have it |",
		"| payloads | share | – | skipped: old: no view |",
		"commit new compared with old",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table has no %q:\n%s", want, text)
		}
	}
}

func TestOnlyTheGeneratedSectionIsReplaced(t *testing.T) {
	t.Parallel()
	page := replaceGenerated("# A\n"+generatedBegin+"old\n"+generatedEnd+"\nB\n", "new\n")
	if want := "# A\n" + generatedBegin + "\nnew\n\n" + generatedEnd + "\nB\n"; page != want {
		t.Errorf("got %q, want %q", page, want)
	}
	text, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := attempt(func() { replaceGenerated(string(text), "new") }); err != nil {
		t.Errorf("docs/benchmarks.md: %v", err)
	}
	if err := attempt(func() { replaceGenerated("# A\n", "new") }); err == nil {
		t.Error("a page without markers: got no error")
	}
}

func parseOptions(line string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.define(flags)
	if err := flags.Parse(strings.Fields(line)); err != nil {
		return o, err
	}
	return o, o.check(flags.Args())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for line, valid := range map[string]bool{
		"": true, "-write": true, "-only mixed -scale 0.1": true, "-base HEAD -pairs 2": true,
		"-only nothing": false, "-scale 0": false, "-scale NaN": false, "-pairs 0": false, "more": false,
		"-write -scale 0.5": false, "-write -base HEAD": false, "-write -only ingest": false,
	} {
		if o, err := parseOptions(line); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid %t", line, err, valid)
		} else if line == "-only mixed -scale 0.1" && fmt.Sprintf("%d %s", len(o.chosen()), o.chosen()[0].name) != "2 search" {
			t.Errorf("%q: got %d parts from %s on, want the two from search on", line, len(o.chosen()), o.chosen()[0].name)
		}
	}
}

// TestTheSmallestRun runs some parts of the benchmark with few messages and real servers. It compares the programs with
// themselves, as if they were two commits.
func TestTheSmallestRun(t *testing.T) {
	t.Parallel()
	o, err := parseOptions("-scale 0.002 -documents 1000000 -requests 5 -pairs 1 -only ingest,retry,reads,archive")
	if err != nil {
		t.Fatal(err)
	}
	built, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{opts: o, log: t.Output(), id: fmt.Sprintf("bench%d", time.Now().UnixNano()), folder: t.TempDir()}
	err = attempt(func() {
		b.use(stacktest.Postgres(t), stacktest.Kafka(t))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.kafka.client.Close()
	writeForeignDeadLetter(t, b)
	for _, name := range []string{"old", "new"} {
		b.sides = append(b.sides, &side{bench: b, commit: name, programs: built, prefix: b.id + name})
	}
	if err := b.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range b.done {
		if f.Value == 0 && f.Skipped == "" && !strings.Contains(f.Name, "processor") {
			t.Errorf("%s of %s is 0", f.Name, f.side.commit)
		}
	}
}

// writeForeignDeadLetter writes a dead letter for a share group that does not belong to the benchmark, as other tests do
// that use the same Kafka at the same time. Its topic matches no pattern of the benchmark.
func writeForeignDeadLetter(t *testing.T, b *bench) {
	t.Helper()
	if err := attempt(func() {
		source, dlq, group := "foreign-"+b.id, sharedDeadLetterTopic("foreign-"+b.id), "foreign-"+b.id+"-group"
		b.createShareGroup(t.Context(), source, dlq, group)
		check(b.kafka.client.ProduceSync(t.Context(), &kgo.Record{Topic: dlq, Value: []byte("foreign")}).FirstErr())
	}); err != nil {
		t.Fatal(err)
	}
}
