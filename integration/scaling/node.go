package scaling

import "fmt"

// work is what one record takes of PostgreSQL: seconds of processor, bytes of log.
type work struct{ processor, log float64 }

func (w work) plus(o work) work { return work{w.processor + o.processor, w.log + o.log} }

func (in Inputs) store() work { return work{in.IngestPostgres.Value * micro, in.StoreWAL.Value} }
func (in Inputs) retry() work { return work{in.RetryPostgres.Value * micro, in.RetryWAL.Value} }

func (in Inputs) archive() work {
	return work{(in.ArchivePostgres.Value + in.SweepPostgres.Value) * micro, in.ArchiveWAL.Value}
}

// document is the catalogue's part, as messages come.
func (in Inputs) document() work { return work{in.Worker.Value * micro, in.WorkerLog.Value} }

// life is what happens to a message beside the catalogue: stored, retried once,
// archived.
func (in Inputs) life() work { return in.store().plus(in.retry()).plus(in.archive()) }

// Limit is how many records a second one resource of a node allows.
type Limit struct {
	Resource string
	Rate     float64
}

// Limits are those of a PostgreSQL node for work of one kind. A standby replays
// the log with one process.
func Limits(in Inputs, w work) []Limit {
	return []Limit{
		{"processors", in.NodeCores.Value * in.NodeUse.Value / w.processor},
		{"disk of the log", in.NodeWAL.Value / w.log},
		{"replay by a standby, one process", in.Replay.Value * in.NodeUse.Value / w.log},
	}
}

// Least is the limit that is reached first.
func Least(limits []Limit) Limit {
	least := limits[0]
	for _, l := range limits {
		if l.Rate < least.Rate {
			least = l
		}
	}
	return least
}

// machineTable holds the sum of the parts against what was measured: when the two
// agree, processors are the limit and the parts add up.
func machineTable(in Inputs) Table {
	t := Table{Name: "machine", Heading: []string{
		"work", "PostgreSQL", "program", "Kafka", "PostgreSQL's share",
		"2 processors ÷ sum (calculated)", "measured", "measured ÷ calculated",
	}}
	row := func(name string, postgres, program, kafka, measured Figure) {
		sum := postgres.Value + program.Value + kafka.Value
		ceiling := in.Cores.Value / sum / micro
		t.Rows = append(t.Rows, []string{
			name, postgres.text(), program.text(), kafka.text(), percent(postgres.Value / sum),
			rate(ceiling), measured.text(), fmt.Sprintf("%.2f", measured.Value/ceiling),
		})
	}
	row("ingest", in.IngestPostgres, in.IngestIngester, in.IngestKafka, in.IngestRate)
	row("retry-all", in.RetryPostgres, in.RetryAPI, in.RetryKafka, in.RetryRate)
	return t
}

func nodeTable(in Inputs) Table {
	t := Table{Name: "node", Heading: []string{"work", "processor", "log", "processors allow", "log's disk allows", "a standby keeps up with", "first to be full"}}
	for _, w := range []struct {
		name string
		work
	}{
		{"store", in.store()},
		{"retry", in.retry()},
		{"archive, with its vacuum", in.archive()},
		{"the three of them", in.life()},
		{"catalogue, as messages come", in.document()},
	} {
		limits := Limits(in, w.work)
		cells := []string{w.name, number(w.processor/micro) + " µs", size(w.log)}
		for _, l := range limits {
			cells = append(cells, rate(l.Rate))
		}
		t.Rows = append(t.Rows, append(cells, Least(limits).Resource))
	}
	return t
}

// PartitionRate is the most that one partition's position lets through: its row is
// locked from the start of the statement to the end of its commit.
func PartitionRate(in Inputs) float64 {
	return in.Batch.Value / (in.Batch.Value*in.IngestPostgres.Value*micro + in.NodeCommit.Value)
}

// CounterRate is the most that one row of a counter lets through: it is locked by
// the trigger at the end of the statement, and until the commit.
func CounterRate(in Inputs) float64 {
	return in.Batch.Value / (in.Batch.Value*in.IngestPostgres.Value*micro*in.CounterShare.Value + in.NodeCommit.Value)
}

// IngesterRate is what an ingester stores when PostgreSQL has processors to spare:
// every writer waits for its statement.
func IngesterRate(in Inputs) float64 { return in.Writers.Value * PartitionRate(in) }

// groupShards is how many rows the counter of an error group and topic has; see
// migration 011.
const groupShards = 4

func keysTable(in Inputs) Table {
	return Table{
		Name:    "keys",
		Heading: []string{"what waits", "held for", "at most"},
		Rows: [][]string{
			{"batches of one partition, for its position", "the whole statement and its commit", rate(PartitionRate(in)) + " a partition"},
			{"an ingester's writers, for PostgreSQL's answers", "the same", rate(IngesterRate(in)) + " an ingester"},
			{
				"writers of one error group, for a row of its counters", "the trigger and the commit",
				fmt.Sprintf("%s a row, %s with %d rows", rate(CounterRate(in)), rate(groupShards*CounterRate(in)), groupShards),
			},
		},
	}
}
