package main

import (
	"fmt"
	"strings"
)

// page is docs/benchmarks.md.
func (r result) page() string {
	m := r.machine
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }

	say("# Benchmarks\n\n")
	say("Written by `make bench` on %s; not edited by hand.\n\n", m.day.Format("2 January 2006"))
	rule := make([]string, len(heading.cells("")))
	for i := range rule {
		rule[i] = "---"
	}
	tableRow := func(cells []string) { say("| %s |\n", strings.Join(cells, " | ")) }
	tableRow(heading.cells("reached"))
	tableRow(rule)
	for _, l := range r.lines() {
		tableRow(l.cells(l.verdict()))
	}
	say("\n%s\n\n", r.steps())

	say("## Where\n\n")
	say("- %d cores (%s), %.0f GB of memory. Kafka, PostgreSQL, the programs and the bench\n  share them.\n",
		m.cores, m.model, float64(m.memory)/1e9)
	say("- PostgreSQL %s with %s.\n", strings.Fields(m.postgres)[0], settingsText())
	say("- Kafka %s, one broker, heap of %d MB.\n", m.kafka, kafkaHeapMB)
	say("- Load of the machine before the start (1, 5, 15 minutes): %s.\n\n", m.load)

	say("## How\n\n")
	say("The servers are the bench's own and write to disk as in production. The programs are\n" +
		"built as for a release and run as processes with their default settings. One run, no\n" +
		"warm-up, no best of several: expect other runs to differ by a fifth. Before each timed\n" +
		"part the table is vacuumed and a checkpoint is made.\n\n")
	say("A record is a JSON value of %s bytes with a key and the eight headers that Spring's\n"+
		"recoverer writes (%d bytes); %d dead-letter topics have %d partitions each. Nothing is\n"+
		"compressed.\n\n", thousands(r.ingest.value), r.ingest.headers, len(names), partitions)
	say("- **Ingest.** All %s records are in Kafka when one ingester starts. The time is from its\n"+
		"  readiness, group join included, to the last record's being stored with the bytes, the\n"+
		"  JSON projection, the positions and the counters: %.1f s. So the figure is a sustained\n"+
		"  one, with checkpoints and autovacuum in it.\n", thousands(r.opts.records), r.ingest.took.Seconds())
	say("- **One INSERT a record.** One connection of the same driver (lib/pq, one round trip a\n"+
		"  statement) inserts %s such records in auto-commit: half into the empty table, half into\n"+
		"  the one that the ingester filled, with the same indexes and triggers: ten columns and\n"+
		"  the value. It reads no Kafka, decodes nothing, keeps neither key, headers nor position,\n"+
		"  and it runs for %.1f s only: a burst. All of that favours it.\n",
		thousands(2*(r.opts.single/2)), r.single.took.Seconds())
	say("- **COPY.** The same driver, %d connections, %s rows in transactions of %s, with key and\n"+
		"  headers, into the same table. A burst of %.1f s, and without Kafka or decoding as well.\n",
		copyConnections, thousands(r.copied.n), thousands(copyBatch), r.copied.took.Seconds())
	say("- **Retry-all.** One `POST /api/v1/dlq/{topic}/retry-all` to one API process, while the\n"+
		"  table holds all %s messages. The time, %.1f s, is the request's: every message is\n"+
		"  claimed, published with `acks=all`, and its result and its attempt are stored before the\n"+
		"  answer. *Producing alone* is an ordinary producer that writes the backlog with\n"+
		"  `acks=all`, without any state.\n", thousands(r.opts.records), r.retry.took.Seconds())
	say("- **Memory** is the most that was ever resident (`VmHWM`), from the start of the process\n" +
		"  to the end of the work.\n")
	say("- **What limits it** comes from the system's clocks: how much of all cores was busy, how\n" +
		"  much of that was not ours (other programs, the kernel's own work), and whose time a\n" +
		"  record took.\n\n")
	say("A figure is only written when the counts are right: rows, distinct offsets, positions,\n" +
		"counters and bytes after ingest; the answer's numbers, the states, the attempts and the\n" +
		"records in the original topic after retry-all.\n\n")

	say("## Again\n\n")
	say("```\nmake bench\n```\n\n")
	say("takes some three minutes and 10 GB of disk, and wants the machine for itself.\n\n")
	say("```\ngo run ./integration/bench -records 100000 -retry 20000 -single 4000 -copy 20000\n```\n\n")
	say("is a try of half a minute; such small counts flatter ingest, whose pace a burst does not\nshow.\n")
	return b.String()
}

func settingsText() string {
	var parts []string
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"} {
		parts = append(parts, fmt.Sprintf("`%s=%s`", name, servers[name]))
	}
	return strings.Join(parts, ", ")
}
