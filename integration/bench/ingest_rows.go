package main

import (
	"fmt"
	"strings"
)

// The demands on ingest.
const (
	wantIngestShare      = 0.7 // of COPY
	wantIngestSizedShare = 0.6 // the same, for other sizes of values
	wantIngestTimes      = 10  // of one INSERT a record
)

func (p *ingestPart) lines() []line {
	name := fmt.Sprintf("ingest %s × 1 KB, Kafka to PostgreSQL", thousands(p.n))
	times := quotient(p.perSecond(), p.single.perSecond())
	return []line{
		p.besideCopy(name, p.copied, wantIngestShare),
		{
			work: name, figure: each(p.perSecond()),
			beside: "one INSERT a record: " + each(p.single.perSecond()), ratio: fmt.Sprintf("%.1f", times),
			wanted: fmt.Sprintf("ratio ≥ %d", wantIngestTimes), reached: times >= wantIngestTimes,
			limits: "as above; one INSERT a record: " + p.single.cpu.limits(p.single.n, "record", 1),
		},
		memoryLine(fmt.Sprintf("memory of the ingester, backlog of %s", thousands(p.n)), p.memory),
	}
}

// besideCopy is the row of ingest beside COPY.
func (in *ingested) besideCopy(name string, copied copies, wanted float64) line {
	best := copied.fastest()
	share := quotient(in.perSecond(), best.perSecond())
	return line{
		work: name, figure: each(in.perSecond()),
		beside: copied.text(),
		ratio:  fmt.Sprintf("%.2f", share),
		wanted: fmt.Sprintf("ratio ≥ %.1f", wanted), reached: share >= wanted,
		limits: in.cpu.limits(in.n, "record", ingestWriters) + "; COPY: " + best.cpu.limits(best.n, "record", best.connections),
	}
}

func (p *ingestPart) profiles() []profile { return []profile{p.profile} }

func (p *ingestPart) method() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	say("- **Ingest.** All %s records, of %s bytes of JSON and %d of headers, are in Kafka when one\n"+
		"  ingester starts. The time is from its readiness, group join included, to the last record's\n"+
		"  being stored with the bytes, the JSON projection, the error group, the positions and the\n"+
		"  counters: %.1f s. So the figure is a sustained one, with checkpoints and autovacuum in it;\n"+
		"  %s. Writing the backlog to Kafka took %.1f s.\n",
		thousands(p.n), thousands(p.sent.value), p.sent.headers, p.took.Seconds(), p.pace(), p.sent.took.Seconds())
	all := p.copied.all()
	say("- **COPY** and **one INSERT a record** write rows that the ingester stored once more: %s\n"+
		"  different ones, with every column that it wrote, a new id, offset and time each, by the same\n"+
		"  driver (lib/pq) into the same table with its indexes and triggers; half of them into the empty\n"+
		"  table, half into the one that the ingester filled. COPY: %s rows in transactions of %s, with\n"+
		"  %s connections; the faster way counts. INSERT: one connection, one statement that is prepared\n"+
		"  once, bytes as bytes, one round trip a row, auto-commit, %s rows. Both read no Kafka, decode\n"+
		"  nothing, move no position, look for no equal record, and are bursts of %.1f s in all and %.1f s.\n"+
		"  All of that favours them. Against COPY are two things: the JSON that ingest derives in the\n"+
		"  server it sends a second time; and lib/pq knows COPY as text only, so bytes are sent as\n"+
		"  hexadecimal digits, twice as many. A driver with COPY in binary may be faster.\n",
		thousands(samples), thousands(all.n), thousands(copyBatch), ways(copyConnections()), thousands(p.single.n),
		all.took.Seconds(), p.single.took.Seconds())
	return b.String()
}

// ways is 2, 4 as "2 and 4".
func ways(all []int) string {
	var parts []string
	for _, n := range all {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, " and ")
}
