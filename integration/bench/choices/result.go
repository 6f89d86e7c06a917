package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// line is what a choice took a row.
type line struct {
	name, without string
	stored        cost
	retried       cost
}

// cost is of one row: microseconds of the server's and of the client's processor,
// bytes of log, bytes that the table with all that belongs to it grew by.
type cost struct{ server, client, wal, disk float64 }

func (c cost) plus(o cost) cost {
	return cost{c.server + o.server, c.client + o.client, c.wal + o.wal, c.disk + o.disk}
}

func (l line) both() cost { return l.stored.plus(l.retried) }

func (t *trial) line() line {
	return line{name: t.choice.name, without: t.choice.without, stored: typical(t.stored), retried: typical(t.retried)}
}

// typical is the lower quartile of each figure by itself: what others do to the
// machine's caches and clocks only ever adds. Disk is a mean: files grow by leaps.
func typical(parts []part) cost {
	var server, client, wal []float64
	var disk float64
	for _, p := range parts {
		n := float64(p.rows)
		server = append(server, float64(p.server.Nanoseconds())/1000/n)
		client = append(client, float64(p.client.Nanoseconds())/1000/n)
		wal = append(wal, float64(p.wal)/n)
		disk += float64(p.disk) / n / float64(len(parts))
	}
	return cost{lowerQuartile(server), lowerQuartile(client), lowerQuartile(wal), disk}
}

// lowerQuartile is the figure that a quarter of them do not exceed; 0 of none.
func lowerQuartile(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[(len(of)-1)/4]
}

// measured is a group: the product's way first, and once more last.
type measured struct {
	name  string
	lines []line
}

// result is a whole run.
type result struct {
	opts    options
	machine machine
	groups  []measured
}

// leastNoise is a difference that never says anything, as a share.
const leastNoise = 0.02

// apart is how far the product's way is from itself in a group, as a share of its
// processor time.
func (m measured) apart() float64 {
	first, last := m.lines[0].both().server, m.lines[len(m.lines)-1].both().server
	return math.Abs(last/first - 1)
}

// noise is what a difference in a group must exceed to say something: how far the
// product's way is from itself there, and twice of what that is in half of the groups,
// because two figures may be close by chance.
func (r result) noise(m measured) float64 {
	var all []float64
	for _, g := range r.groups {
		all = append(all, g.apart())
	}
	slices.Sort(all)
	return max(leastNoise, m.apart(), 2*all[len(all)/2])
}

// logNoise is what log or disk must differ by to be named.
const logNoise = 0.02

// verdict compares what one row's life takes: stored, claimed, finished.
func verdict(base, other cost, noise float64) string {
	change := other.server/base.server - 1
	switch {
	case change > noise:
		return "the product's way is cheaper"
	case change < -noise:
		return "cheaper than the product's way"
	case other.wal > base.wal*(1+logNoise):
		return "as much processor, more log"
	case other.wal < base.wal*(1-logNoise):
		return "as much processor, less log"
	case other.disk > base.disk*(1+logNoise):
		return "as much processor, more disk"
	case other.disk < base.disk*(1-logNoise):
		return "as much processor, less disk"
	}
	return "no difference"
}

var heading = []string{
	"choice", "store: PostgreSQL µs", "client µs", "log B", "disk B",
	"claim and finish: PostgreSQL µs", "log B", "disk B", "processor", "log", "verdict", "what one is without",
}

// table is the result as text.
func (r result) table() string {
	var b strings.Builder
	row := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row(heading)
	row(slices.Repeat([]string{"---"}, len(heading)))
	for _, g := range r.groups {
		for i, l := range g.lines {
			if i == len(g.lines)-1 {
				l.name += ", once more"
			}
			row(l.cells(g.lines[0], i, r.noise(g)))
		}
	}
	return b.String()
}

func (l line) cells(base line, i int, noise float64) []string {
	name, processor, log, says := l.name, "", "", ""
	if i == 0 {
		name = "**" + name + "**"
	} else {
		a, b := base.both(), l.both()
		processor, log, says = percent(a.server, b.server), percent(a.wal, b.wal), verdict(a, b, noise)
	}
	return []string{
		name, tenths(l.stored.server), tenths(l.stored.client), whole(l.stored.wal), whole(l.stored.disk),
		tenths(l.retried.server), whole(l.retried.wal), whole(l.retried.disk), processor, log, says, l.without,
	}
}

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }
func whole(v float64) string  { return fmt.Sprintf("%.0f", v) }

func percent(base, other float64) string { return fmt.Sprintf("%+.1f %%", 100*(other/base-1)) }
