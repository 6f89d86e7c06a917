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

// shares are how much more something takes than the product's way: of the server's
// processor, of log and of disk.
type shares struct{ server, wal, disk float64 }

// over compares what one row's life takes: stored, claimed, finished.
func (l line) over(base line) shares {
	a, b := base.both(), l.both()
	return shares{more(a.server, b.server), more(a.wal, b.wal), more(a.disk, b.disk)}
}

// more is 0 where there is nothing to compare with.
func more(base, other float64) float64 {
	if base == 0 {
		return 0
	}
	return other/base - 1
}

// apart is how far the product's way is from itself in a group.
func (m measured) apart() shares {
	s := m.lines[len(m.lines)-1].over(m.lines[0])
	return shares{math.Abs(s.server), math.Abs(s.wal), math.Abs(s.disk)}
}

// noise is what a difference in a group must exceed to say something: how far the
// product's way is from itself there, and for processor time twice of what that is in
// half of the groups, because two figures may be close by chance.
func (r result) noise(m measured) shares {
	var all []float64
	for _, g := range r.groups {
		all = append(all, g.apart().server)
	}
	slices.Sort(all)
	own := m.apart()
	return shares{
		server: max(leastNoise, own.server, 2*all[len(all)/2]),
		wal:    max(leastNoise, own.wal),
		disk:   max(leastNoise, own.disk),
	}
}

// verdict says what a choice is against the product's way: whether its processor time
// is less, and what log and disk do beside that.
func verdict(change, noise shares) string {
	says, sign := "as much processor", 0.0
	switch {
	case change.server > noise.server:
		says, sign = "dearer", 1
	case change.server < -noise.server:
		says, sign = "cheaper", -1
	}
	var along, but []string
	for _, c := range []struct {
		name          string
		change, noise float64
	}{{"log", change.wal, noise.wal}, {"disk", change.disk, noise.disk}} {
		switch {
		case math.Abs(c.change) <= c.noise:
		case sign*c.change < 0:
			but = append(but, fmt.Sprintf("%s %+.0f %%", c.name, 100*c.change))
		default:
			along = append(along, fmt.Sprintf("%s %+.0f %%", c.name, 100*c.change))
		}
	}
	if sign == 0 && len(along) == 0 {
		return "no difference"
	}
	says = strings.Join(append([]string{says}, along...), ", ")
	if len(but) > 0 {
		says += ", but " + strings.Join(but, ", ")
	}
	return says
}

var heading = []string{
	"choice", "store: PostgreSQL µs", "client µs", "log B", "disk B",
	"claim and finish: PostgreSQL µs", "log B", "disk B", "processor", "log", "disk", "verdict", "what one is without",
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

func (l line) cells(base line, i int, noise shares) []string {
	name, processor, log, disk, says := l.name, "", "", "", ""
	if i == 0 {
		name = "**" + name + "**"
	} else {
		change := l.over(base)
		processor, log, disk, says = percent(change.server), percent(change.wal), percent(change.disk), verdict(change, noise)
	}
	return []string{
		name, tenths(l.stored.server), tenths(l.stored.client), whole(l.stored.wal), whole(l.stored.disk),
		tenths(l.retried.server), whole(l.retried.wal), whole(l.retried.disk), processor, log, disk, says, l.without,
	}
}

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }
func whole(v float64) string  { return fmt.Sprintf("%.0f", v) }

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }
