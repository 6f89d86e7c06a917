package main

import (
	"fmt"
	"strings"
)

// markdown is the table as both pages show it.
func markdown(lines []line) string {
	var b strings.Builder
	tableRow := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	tableRow(heading.cells("reached"))
	rule := make([]string, len(heading.cells("")))
	for i := range rule {
		rule[i] = "---"
	}
	tableRow(rule)
	for _, l := range lines {
		tableRow(l.cells(l.verdict()))
	}
	return b.String()
}

// page is docs/benchmarks.md.
func (r result) page() string {
	m := r.machine
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }

	say("# Benchmarks\n\n")
	say("Written by `make bench` on %s; not edited by hand.\n\n", m.day.Format("2 January 2006"))
	say("%s", markdown(r.lines()))
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
	r.sayRetry(say)
	r.saySettling(say)
	r.sayBacklog(say)
	r.sayCosts(say)
	say("- **Memory** is the most that was ever resident (`VmHWM`), from the start of the process\n" +
		"  to the end of the work.\n")
	say("- **What limits it** comes from the system's clocks: how much of all cores was busy, how\n" +
		"  much of that was not ours (other programs, the kernel's own work), and whose time a\n" +
		"  record took.\n\n")
	say("A figure is only written when the counts are right: rows, distinct offsets, positions,\n" +
		"counters and bytes after ingest; the answer's numbers, the states, the attempts, the\n" +
		"results, the audit trail and the records in the original topic after retry-all; what was\n" +
		"found and not found after settling; states, attempts and audit trail after the rest.\n\n")

	say("## Again\n\n")
	say("```\nmake bench\n```\n\n")
	say("takes some seven minutes and 12 GB of disk, and wants the machine for itself.\n\n")
	say("```\ngo run ./integration/bench -scale 0.1\n```\n\n")
	say("is a try of a minute with a tenth of everything; such small counts flatter ingest, whose\n" +
		"pace a burst does not show, and shift what is fixed in the other figures.\n")
	return b.String()
}

func (r result) sayRetry(say func(string, ...any)) {
	say("- **Retry-all.** One `POST /api/v1/dlq/{topic}/retry-all` to one API process, while the\n"+
		"  table holds all %s messages. The time, %.1f s, is the request's: the selection is\n"+
		"  stored as a redrive, every message is claimed, published with `acks=all`, and its result,\n"+
		"  its attempt and its line of the audit trail are stored before the answer. Processor time:\n"+
		"  %s. *Producing alone* is an ordinary producer that writes the backlog with\n"+
		"  `acks=all`, without any state.\n", thousands(r.opts.records), r.retry.took.Seconds(), r.retry.cpu.spent())
	say("- **Bare SQL.** %s messages of the same table, by the same driver, with %d connections and\n"+
		"  %d messages a statement: one UPDATE that claims, one statement that marks as resolved and\n"+
		"  inserts the attempts. No record is read, nothing is sent, nobody's rights are checked, no\n"+
		"  redrive, no result of one and no audit line is kept, and the ids are known beforehand. It\n"+
		"  has both cores for itself; retry-all shares them with Kafka and the API.\n",
		thousands(r.bare.n), bareWorkers, bareBatch)
	say("- **One by one.** Pages of %d; every message is sent with `acks=all` and a new key, and then\n"+
		"  marked by one UPDATE, in auto-commit: %d messages with the %s that the C client, and what\n"+
		"  is built on it, waits for company of a record by default, and %d without any wait. The\n"+
		"  demand is on the former.\n",
		onePage, r.patient.n, millis(clientWait), r.hasty.n)
	say("- **Fixing the selection** is the time of the same request with `Prefer: respond-async`, for\n" +
		"  another topic, sent to an API that carries nothing out; its other part is one HTTP answer.\n")
}

func (r result) saySettling(say func(string, ...any)) {
	say("- **Settling.** %s messages are claimed with the product's statements, half of them are\n"+
		"  published with its publisher, as many records of others between them, and that is all: so\n"+
		"  a process leaves them that is killed. When the claims have expired, one API is started,\n"+
		"  with `settle_interval: %s`. The time is from the start of its process until the last\n"+
		"  message is RESOLVED, because its record was found, or PENDING, because it was not.\n",
		thousands(r.doubt.n), settleInterval)
}

func (r result) sayBacklog(say func(string, ...any)) {
	b := r.backlog
	say("- **Claiming by cursor.** A database of its own with %s PENDING messages of 1 KB, written by\n"+
		"  SQL, and nothing else. %d workers share one cursor; each takes the next %d ids, claims\n"+
		"  them and ends them as acknowledged, with the statements that the programs use: attempts\n"+
		"  and audit lines are stored, Kafka is not asked. A claim's time is the caller's, waiting\n"+
		"  for a processor included; %d of them, and the statement that finds the ids takes %s\n"+
		"  (p99 %s). Autovacuum and checkpoints run as configured. The size is that of the table,\n"+
		"  what is stored out of line, and all indexes, right after the last message, with no\n"+
		"  vacuum by hand.\n",
		thousands(b.n), backlogWorkers, backlogBatch, len(b.claims),
		millis(percentile(b.looks, 50)), millis(percentile(b.looks, 99)))
}

func (r result) sayCosts(say func(string, ...any)) {
	say("- **The audit line** is part of the statement that ends attempts. %s messages are claimed and\n"+
		"  ended, %d at a time by one connection, every other batch with that part cut out of the\n"+
		"  statement's text.\n", thousands(r.audit.with.n+r.audit.without.n), bareBatch)
	say("- **The look for equal records** is what `ingest.return_window` costs. %s new records are\n"+
		"  stored, %s at a time by one connection, without Kafka, every other batch with a window of\n"+
		"  0 in place of 24h, while there are at least %s attempts of that time to look through.\n",
		thousands(r.hash.with.n+r.hash.without.n), thousands(hashBatch), thousands(r.opts.retry))
}

func settingsText() string {
	var parts []string
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"} {
		parts = append(parts, fmt.Sprintf("`%s=%s`", name, servers[name]))
	}
	return strings.Join(parts, ", ")
}
