package main

import (
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	noise := shares{0.05, 0.02, 0.03}
	for _, c := range []struct {
		name   string
		change shares
		want   string
	}{
		{"Same", shares{}, "no difference"},
		{"WithinTheNoise", shares{-0.05, 0.02, -0.03}, "no difference"},
		{"Dearer", shares{0.06, 0, 0}, "dearer"},
		{"Cheaper", shares{-0.06, 0.01, -0.01}, "cheaper"},
		{"CheaperForMoreLog", shares{-0.19, 0.132, 0}, "cheaper, but log +13 %"},
		{"CheaperForMoreLogAndDisk", shares{-0.19, 0.132, 0.27}, "cheaper, but log +13 %, disk +27 %"},
		{"CheaperInAll", shares{-0.17, -0.17, -0.27}, "cheaper, log -17 %, disk -27 %"},
		{"CheaperInTwo", shares{-0.17, -0.17, 0.04}, "cheaper, log -17 %, but disk +4 %"},
		{"DearerForLessLog", shares{0.09, -0.055, 0}, "dearer, but log -6 %"},
		{"OnlyLog", shares{0.01, -0.04, 0}, "as much processor, log -4 %"},
		{"OnlyDisk", shares{0.01, 0, 0.04}, "as much processor, disk +4 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := verdict(c.change, noise); got != c.want {
				t.Errorf("verdict = %q, want %q", got, c.want)
			}
		})
	}
}

func TestNoise(t *testing.T) {
	t.Parallel()
	loud := measured{"loud", []line{{stored: cost{server: 60}, retried: cost{server: 40}}, {}, {stored: cost{server: 62}, retried: cost{server: 48}}}}
	quiet := measured{"quiet", []line{{stored: cost{server: 100}}, {stored: cost{server: 103}}}}
	r := result{groups: []measured{quiet, loud, quiet}}
	for _, c := range []struct {
		group measured
		want  float64
	}{{loud, 0.1}, {quiet, 0.06}} {
		if got := r.noise(c.group).server; math.Abs(got-c.want) > 0.0001 {
			t.Errorf("noise of %s = %v, want %v", c.group.name, got, c.want)
		}
	}
	still := measured{"still", loud.lines[:1]}
	if got := (result{groups: []measured{still}}).noise(still); got != (shares{leastNoise, leastNoise, leastNoise}) {
		t.Errorf("noise of equal figures = %v, want %v", got, leastNoise)
	}
}

// Log and disk have the noise of their own group alone.
func TestNoiseOfLogAndDisk(t *testing.T) {
	t.Parallel()
	quiet := measured{"quiet", []line{{stored: cost{1, 0, 100, 100}}, {stored: cost{1, 0, 100, 100}}}}
	loud := measured{"loud", []line{{stored: cost{1, 0, 100, 100}}, {stored: cost{1, 0, 110, 92}}}}
	r := result{groups: []measured{quiet, loud, loud}}
	if got := r.noise(loud); math.Abs(got.wal-0.1) > 1e-9 || math.Abs(got.disk-0.08) > 1e-9 {
		t.Errorf("noise of a loud group = %+v, want 0.1 of log and 0.08 of disk", got)
	}
	if got := r.noise(quiet); got.wal != leastNoise || got.disk != leastNoise {
		t.Errorf("noise of a quiet group = %+v, want %v of log and disk", got, leastNoise)
	}
}

func TestTypicalIsTheLowerQuartile(t *testing.T) {
	t.Parallel()
	var parts []part
	for _, n := range []time.Duration{90, 10, 30, 20, 80} {
		parts = append(parts, part{rows: 10, server: n * time.Microsecond, wal: int64(n), disk: int64(n)})
	}
	got := typical(parts)
	if got.server != 2 || got.wal != 2 || got.disk != 4.6 {
		t.Errorf("typical = %+v, want 2 µs, 2 B of log, and 4.6 B of disk, the mean", got)
	}
	if got := typical(nil); got != (cost{}) {
		t.Errorf("typical of nothing = %+v, want zero", got)
	}
}

func TestArrayText(t *testing.T) {
	t.Parallel()
	header := func(oid byte, n byte) []byte {
		return []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, oid, 0, 0, 0, n, 0, 0, 0, 1}
	}
	for _, c := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"Empty", []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, oidInt4}, "{}"},
		{"Numbers", append(header(oidInt4, 2), 0, 0, 0, 4, 255, 255, 255, 255, 255, 255, 255, 255), "{-1,NULL}"},
		{"Texts", append(header(oidText, 1), append([]byte{0, 0, 0, 4}, `a"\b`...)...), `{"a\"\\b"}`},
		{"Bytes", append(header(oidBytea, 1), 0, 0, 0, 2, 0, 255), `{"\\x00ff"}`},
		{"Truths", append(header(oidBool, 2), 0, 0, 0, 1, 1, 0, 0, 0, 1, 0), "{true,false}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := arrayText(c.raw)
			if err != nil || got != c.want {
				t.Errorf("arrayText = %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if got, err := arrayText(append(header(99, 1), 0, 0, 0, 0)); err == nil {
		t.Errorf("arrayText of an unknown type = %q, want an error", got)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	indexes := slices.Sorted(maps.Keys(uses))
	names := map[string]bool{}
	dropped := 0
	for _, g := range groups(indexes) {
		if names[g.name] || len(g.choices) < 2 {
			t.Errorf("group %q has %d choices, want a name of its own and something to compare", g.name, len(g.choices))
		}
		names[g.name] = true
		base := g.choices[0]
		if base.setup != nil || base.rewrite != nil || base.text || base.store != nil {
			t.Errorf("group %q begins with %q, want the product's way", g.name, base.name)
		}
		for _, c := range g.choices[1:] {
			if c.without == "" {
				t.Errorf("%q does not say what one is without: if it comes out cheaper, nobody knows why it was not taken", c.name)
			}
			if strings.HasPrefix(strings.Join(c.setup, ""), "DROP INDEX") {
				dropped++
			}
		}
	}
	if dropped != len(indexes) {
		t.Errorf("%d indexes are dropped in turn, want %d", dropped, len(indexes))
	}
}

func TestBatchesFollowOneAnother(t *testing.T) {
	t.Parallel()
	c := product("as it is")
	c.writers = 2
	tr := &trial{choice: c, letters: newLetters(), ref: repository.TopicRef{TopicID: 1, Incarnation: 2}}
	first, second := tr.batch(1, 100), tr.batch(1, 100)
	ends := map[int32]int64{}
	for _, r := range first.Ranges {
		if r.From != 0 || r.Partition.Partition%2 != 1 {
			t.Errorf("first batch has the range %+v, want the beginning of a partition of the second writer", r)
		}
		ends[r.Partition.Partition] = r.To
	}
	for _, r := range second.Ranges {
		if r.From != ends[r.Partition.Partition] {
			t.Errorf("second batch begins at %d of partition %d, want %d", r.From, r.Partition.Partition, ends[r.Partition.Partition])
		}
	}
	seen := map[uuid.UUID]bool{}
	for _, m := range append(first.Messages, second.Messages...) {
		seen[m.ID] = true
	}
	if len(seen) != 200 {
		t.Errorf("got %d ids of 200 messages, want as many", len(seen))
	}
}

func TestMessageHasOneKilobyte(t *testing.T) {
	t.Parallel()
	m := newLetters().message(uuid.New(), repository.TopicRef{}, 1, 2)
	if n := len(m.Record.Value); n < 1000 || n > 1150 {
		t.Errorf("a value has %d bytes, want some 1,050", n)
	}
	if len(m.Record.Headers) != 8 {
		t.Errorf("got %d headers, want 8", len(m.Record.Headers))
	}
}

func TestPageNeedsAFullRun(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-write", "-rows", "1000"}, {"-write", "-only", "ids"}, {"-write", "-rounds", "2"}, {"more"}, {"-rounds", "0"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("parse(%v) = nil, want an error", args)
		}
	}
	if _, err := parse([]string{"-write"}, io.Discard); err != nil {
		t.Errorf("parse(-write) = %v, want nil", err)
	}
}

func TestPageSaysWhatWasMeasured(t *testing.T) {
	t.Parallel()
	r := result{
		opts:    options{rows: 20_000, rounds: 10},
		machine: machine{model: "a processor", cores: 2, postgres: "17.1 (x)", load: "1 2 3", schema: 16},
		groups: []measured{{"g", []line{
			{name: "as it is", stored: cost{50, 9, 4000, 4000}, retried: cost{90, 0, 3000, 1000}},
			{name: "other", without: "something", stored: cost{60, 9, 4000, 4000}, retried: cost{90, 0, 3000, 1000}},
			{name: "as it is", stored: cost{51, 9, 4000, 4000}, retried: cost{90, 0, 3000, 1000}},
		}}},
	}
	page := r.page()
	for _, want := range []string{
		"| **as it is** | 50.0 | 9.0 | 4000 | 4000 | 90.0 | 3000 | 1000 |  |  |  |  |  |",
		"| other | 60.0 | 9.0 | 4000 | 4000 | 90.0 | 3000 | 1000 | +7.1 % | +0.0 % | +0.0 % | dearer | something |",
		"20000 rows into it in 10 rounds", "PostgreSQL 17.1",
		"**Schema:** migration 16.", "**Taken on a busy machine:**",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	r.machine.load = "0.5 1.9 2.0"
	if strings.Contains(r.page(), "busy machine") {
		t.Error("a machine with no more load than cores is called busy")
	}
	if strings.Contains(page, "%!") {
		t.Errorf("the page has a verb without a value:\n%s", page)
	}
}
