package scaling

import "math"

// Vacuum is autovacuum of one table: one process, one pass at a time, begun when
// more than a share of the rows is dead.
type Vacuum struct {
	in   Inputs
	rows float64
}

// NewVacuum is that of a table of so many rows.
func NewVacuum(in Inputs, rows float64) Vacuum { return Vacuum{in, rows} }

// threshold is autovacuum_vacuum_scale_factor of the table; see migration 004.
const threshold = 0.02

// pageBytes is a page of PostgreSQL.
const pageBytes = 8192

// visited is the share of the table's pages that have a dead row, when dead rows lie
// anywhere: the others are known to have none, and are passed by.
func (v Vacuum) visited(dead float64) float64 {
	if v.in.HeapBytes.Value == 0 {
		return 0
	}
	return 1 - math.Pow(1-min(1, dead/v.rows), pageBytes/v.in.HeapBytes.Value)
}

// takes is how long a pass is: it goes through all indexes, whatever little is dead,
// and through the pages that have dead rows. What it reads it writes as well: a page
// of an index has so many entries that hardly one has none dead. And each of these
// pages goes to the log as a whole, the first time after a checkpoint. Processor, disk
// or the disk of the log, whichever is slowest.
func (v Vacuum) takes(dead float64) float64 {
	processor := v.rows*v.in.VacuumRow.Value*micro + dead*v.in.VacuumDead.Value*micro
	pages := v.rows * (v.in.IndexBytes.Value + v.in.HeapBytes.Value*v.visited(dead))
	return max(processor, 2*pages/v.in.NodeRead.Value, pages/v.in.NodeWAL.Value)
}

// Steady is how a table does under retries without end.
type Steady struct {
	Dead float64 // most dead rows, as a share of the rows
	Busy float64 // share of the time that a pass is under way
	Pass float64 // seconds of the last pass

	Visited float64 // share of the table's pages that it went to
}

// versions that a retry leaves: of the claim and of the result.
const versions = 2

// passes is how many passes are played; the first ones are not steady yet.
const passes = 12

// Run plays retries at a rate. A pass removes what was dead when it began.
func (v Vacuum) Run(retries float64) Steady {
	var out Steady
	dead, busy, clock := 0.0, 0.0, 0.0
	grows := versions * retries
	for pass := range passes {
		wait := max(0, (threshold*v.rows+50-dead)/grows)
		clock += wait
		dead += wait * grows
		takes := v.takes(dead)
		found := dead
		dead += takes * grows
		clock, busy = clock+takes, busy+takes
		if pass >= passes/2 {
			out.Dead = max(out.Dead, dead/v.rows)
		}
		out.Pass, out.Visited = takes, v.visited(found)
		dead -= found
	}
	out.Busy = busy / clock
	return out
}

func vacuumTable(in Inputs) Table {
	t := Table{Name: "vacuum", Heading: []string{"rows of a table", "retries", "a pass takes", "pages it visits", "passes are under way", "most dead rows, of all rows", "keeps up"}}
	shard := in.TotalRows.Value / float64(Shards(in))
	for _, rows := range []float64{1e6, 1e7, 1e8, shard, in.TotalRows.Value} {
		for _, retries := range []float64{1_000, Least(Limits(in, in.retry())).Rate} {
			s := NewVacuum(in, rows).Run(retries)
			verdict := "yes"
			if s.Busy > 0.9 {
				verdict = "always at work"
			}
			if s.Dead > 1 {
				verdict = "no"
			}
			t.Rows = append(t.Rows, []string{
				rough(rows), rate(retries), duration(s.Pass), percent(s.Visited), percent(s.Busy), percent(s.Dead), verdict,
			})
		}
	}
	return t
}
