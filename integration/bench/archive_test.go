package main

import (
	"strings"
	"testing"
	"time"
)

func TestBareMoveNamesItsColumns(t *testing.T) {
	t.Parallel()
	got := bareMove([]string{"id", "status"})
	for _, want := range []string{
		"dlq_messages_archive (id, status, archived_at)", "SELECT id, status, clock_timestamp() FROM gone",
		"(created_at, id) > ($3",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("bareMove = %s, want %q in it", got, want)
		}
	}
}

func TestArchiveLines(t *testing.T) {
	t.Parallel()
	part := func(rows, longest int) *archivePart {
		return &archivePart{
			procedure: work{rate: rate{rows, time.Second}}, bare: work{rate: rate{1000, time.Second}}, batches: times(longest),
		}
	}
	for _, c := range []struct {
		name string
		part *archivePart
		want int
	}{
		{"both", part(900, 49), 0},
		{"too slow", part(899, 49), 1},
		{"locks too long", part(900, 50), 1},
		{"nothing measured", &archivePart{}, 2},
	} {
		if got := missed(c.part.lines()); len(got) != c.want {
			t.Errorf("%s: missed %q, want %d", c.name, got, c.want)
		}
	}
}

func TestIdleLines(t *testing.T) {
	t.Parallel()
	part := func(used, first time.Duration) *idlePart {
		return &idlePart{
			topics: 1, waited: 30 * time.Second, ingester: used, woken: 12, storedIn: 20 * time.Millisecond,
			first: firstRecords{ready: 100 * time.Millisecond, fromReady: first},
		}
	}
	deaf := part(290*time.Millisecond, 890*time.Millisecond)
	deaf.storedIn = time.Second
	for _, c := range []struct {
		name string
		part *idlePart
		want int
	}{
		{"both", part(290*time.Millisecond, 890*time.Millisecond), 0},
		{"one percent", part(300*time.Millisecond, 890*time.Millisecond), 1},
		{"a second", part(290*time.Millisecond, 900*time.Millisecond), 1},
		{"late after the wait", deaf, 1},
		{"nothing measured", &idlePart{}, 3},
	} {
		if got := missed(c.part.lines()); len(got) != c.want {
			t.Errorf("%s: missed %q, want %d", c.name, got, c.want)
		}
	}
}
