package scaling

import "fmt"

// work is what one record takes of PostgreSQL: seconds of processor, bytes of log.
// What is alone is done by one process of a database, one record after the other.
type work struct {
	processor, log float64
	alone          bool
}

func (w work) plus(o work) work {
	return work{w.processor + o.processor, w.log + o.log, w.alone || o.alone}
}

func (in Inputs) store() work {
	return work{processor: in.IngestPostgres.Value * micro, log: in.StoreWAL.Value}
}

func (in Inputs) retry() work {
	return work{processor: in.RetryPostgres.Value * micro, log: in.RetryWAL.Value}
}

func (in Inputs) archive() work {
	return work{processor: (in.ArchivePostgres.Value + in.SweepPostgres.Value) * micro, log: in.ArchiveWAL.Value}
}

// work is the catalogue's part, as messages come: a database has one worker.
func (t Text) work() work {
	return work{processor: t.Processor.Value * micro, log: t.Log.Value, alone: true}
}

func (in Inputs) texts() []Text { return []Text{in.Short, in.Random} }

// life is what happens to a message beside the catalogue: stored, retried once,
// archived.
func (in Inputs) life() work { return in.store().plus(in.retry()).plus(in.archive()) }

// Limit is how many records a second one resource of a node allows.
type Limit struct {
	Resource string
	Rate     float64
}

const replayed = "replay by a standby, one process"

// Limits are those of a PostgreSQL node for work of one kind. A standby replays
// the log with one process; a third of what that did at best is planned with.
func Limits(in Inputs, w work) []Limit {
	return limits(in, w, in.Replay.Value*in.ReplayUse.Value)
}

func limits(in Inputs, w work, replay float64) []Limit {
	all := []Limit{
		{"processors", in.NodeCores.Value * in.NodeUse.Value / w.processor},
		{"disk of the log", in.NodeWAL.Value / w.log},
		{replayed, replay / w.log},
	}
	if w.alone {
		all = append(all, Limit{"one worker", 1 / w.processor})
	}
	return all
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
		number(in.Cores.Value) + " processors ÷ sum (calculated)", "measured", "measured ÷ calculated",
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
	t := Table{Name: "node", Heading: []string{
		"work", "processor", "log", "processors allow", "log's disk allows", "one worker does",
		"a standby keeps up with, planned", "as replay's clock and processor said", "first to be full, as planned", "if replay does what its processor said",
	}}
	row := func(name string, w work) {
		planned, best := Limits(in, w), limits(in, w, in.Replay.Value)
		worker := "–"
		if w.alone {
			worker = rate(planned[3].Rate)
		}
		t.Rows = append(t.Rows, []string{
			name, number(w.processor/micro) + " µs", size(w.log), rate(planned[0].Rate), rate(planned[1].Rate), worker,
			rate(planned[2].Rate), rough(in.ReplayClock.Value/w.log) + " to " + rate(best[2].Rate),
			Least(planned).Resource, Least(best).Resource,
		})
	}
	row("store", in.store())
	row("retry", in.retry())
	row("archive, with its vacuum; its log is a bound from above", in.archive())
	row("the three of them; the archive's log is a bound from above", in.life())
	for _, text := range in.texts() {
		row("catalogue, as messages come, "+text.Name, text.work())
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
