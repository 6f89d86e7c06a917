package main

import (
	"fmt"
	"slices"
	"time"
)

// The demands on ingest beside Kafka Connect.
const (
	wantConnectShare    = 1.1 // of its rows a second, at least
	wantConnectDatabase = 2.2 // of its processor time of PostgreSQL, at most
	wantConnectAll      = 1.0 // of its processor time of all programs, less than
)

func (p *connectPart) lines() []line {
	name := fmt.Sprintf("ingest %s × 1 KB beside Kafka Connect", thousands(p.topic.count))
	row := func(what string, figure func(turn) float64, text func(float64) string) (line, float64) {
		ours, theirs := median(p.ingester, figure), median(p.connect, figure)
		ratio := quotient(ours, theirs)
		return line{
			work: name + what, figure: text(ours), beside: "Kafka Connect: " + text(theirs), ratio: fmt.Sprintf("%.2f", ratio),
			limits: "as above",
		}, ratio
	}
	micros := func(n float64) string { return fmt.Sprintf("%.0f µs a row", n) }

	speed, ratio := row("", func(t turn) float64 { return t.perSecond() }, each)
	speed.wanted, speed.reached = fmt.Sprintf("ratio ≥ %.1f", wantConnectShare), ratio >= wantConnectShare
	speed.limits = limitsOf(p.ingester, ingestWriters) + "; Kafka Connect: " + limitsOf(p.connect, connectTasks)

	database, ratio := row(", processor time of PostgreSQL", func(t turn) float64 { return t.perRow("postgres") }, micros)
	database.wanted, database.reached = fmt.Sprintf("ratio ≤ %.1f", wantConnectDatabase), ratio > 0 && ratio <= wantConnectDatabase

	all, ratio := row(", processor time of all programs", func(t turn) float64 { return t.perRow("") }, micros)
	all.wanted, all.reached = fmt.Sprintf("ratio < %.0f", wantConnectAll), ratio > 0 && ratio < wantConnectAll

	megabytes := func(n float64) string { return fmt.Sprintf("%.0f MB", n/1e6) }
	memory, _ := row(", memory", func(t turn) float64 { return float64(t.memory) }, megabytes)
	memory.wanted, memory.reached, memory.limits = noDemand, true, "–"
	return []line{speed, database, all, memory}
}

// perRow is the processor time in µs that a row takes of a program, or of all
// without a name.
func (t turn) perRow(name string) float64 {
	var sum time.Duration
	for program, used := range t.cpu.by {
		if name == "" || name == program {
			sum += used
		}
	}
	return quotient(float64(sum)/float64(time.Microsecond), float64(t.n))
}

// median is that of one figure of turns, whose number is odd; 0 without any.
func median(turns []turn, figure func(turn) float64) float64 {
	var all []float64
	for _, t := range turns {
		all = append(all, figure(t))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// limitsOf names the resource that limited all of the turns together.
func limitsOf(turns []turn, sessions int) string {
	var sum work
	for _, t := range turns {
		sum = sum.plus(t.work)
	}
	return sum.cpu.limits(sum.n, "record", sessions)
}

func (p *connectPart) method() string {
	return fmt.Sprintf("- **Kafka Connect** with Debezium's JDBC sink (versions: `integration/stack/connect/pom.xml`) is one\n"+
		"  standalone worker with a heap of %d MB, %d tasks, batches of %s, `ByteArrayConverter` for keys,\n"+
		"  values and headers, `HoistField$Value`, `insert.mode=insert`, `primary.key.mode=kafka` and a table\n"+
		"  made beforehand. It stores the bytes of the value and topic, partition and offset. It and one\n"+
		"  ingester take turns: %d times each, the same %s records (%s bytes of JSON, %d of headers) in one topic, each time a new\n"+
		"  database, a checkpoint and a new consumer group; medians count. For both alike the time is from\n"+
		"  the first row seen in the table to the last (a look every 20 ms, rows of the first look not\n"+
		"  counted): starts and group joins are no part of it. Processor time is of the same moments;\n"+
		"  that of all programs is of Kafka, PostgreSQL, the ingester or Kafka Connect, and the looks.\n",
		connectHeapMB, connectTasks, thousands(connectBatch), len(p.connect), thousands(p.topic.count),
		thousands(p.sent.value), p.sent.headers)
}
