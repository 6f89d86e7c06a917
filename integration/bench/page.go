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
	say("\n%s\n\n", r.times())
	if err := expectUndisturbed(r.lines()); err != nil {
		say("This run was not alone, and some rows say less than the others: %s\n\n", strings.Replace(strings.ReplaceAll(err.Error(), "\n  ", "\n- "), "\n- ", "\n\n- ", 1))
	}

	if profiles := r.profiles(); profiles != "" {
		say("## Profiles\n\n")
		say("Where the programs and the database spent their time in these parts: of the program's\n" +
			"processor time, the functions that took most, with what the runtime and the system did on\n" +
			"their stacks, and what Go's runtime did on its own, which is collecting garbage and choosing\n" +
			"who runs; of the time from the begin to the end of all statements in the server, waits for\n" +
			"locks, the disk and a processor included, those that took most.\n\n")
		say("%s\n", profiles)
	}
	say("## Where\n\n")
	say("- %d cores (%s), %.0f GB of memory. Kafka, PostgreSQL, the programs and the bench\n  share them.\n",
		m.cores, m.model, float64(m.memory)/1e9)
	say("- PostgreSQL %s with %s.\n", strings.Fields(m.postgres)[0], settingsText())
	say("- Kafka %s, one broker, heap of %d MB.\n", m.kafka, kafkaHeapMB)
	say("- Load of the machine before the start (1, 5, 15 minutes): %s.\n\n", m.load)

	say("## How\n\n")
	say("The servers are the bench's own and write to disk as in production. The programs are\n" +
		"built as for a release and run as processes with their default settings, but for what a\n" +
		"part says and `redrive.workers: 0` (redrives are left to others) for the APIs of the parts\n" +
		"lists, export and mixed and for fixing a selection; Go's runtime has its defaults, too. One\n" +
		"run, no warm-up, no best of several, unless a part says otherwise: expect other runs to\n" +
		"differ by a fifth. Where a part begins with a table that is filled, it is vacuumed, analyzed\n" +
		"and a checkpoint is made first.\n\n")
	say("A dead letter is a JSON value of 1 KB with a key and the eight headers that Spring's\n"+
		"recoverer writes, unless a part says otherwise; every topic has %d partitions. Nothing\n"+
		"is compressed.\n\n", partitions)
	for _, m := range r.parts {
		say("%s", m.method())
	}
	say("- **Memory** is the most that was ever resident (`VmHWM`), from the start of the process\n" +
		"  to the end of the work.\n")
	say("- **What limits it** comes from the system's clocks: how much of all cores was busy, how\n"+
		"  much of all was others' (other programs, the kernel's own work), and whose time a record\n"+
		"  took. What runs in one session of PostgreSQL can have one core at most. From %.0f %% of\n"+
		"  others' work on, this page is not written without being asked to (`-disturbed`). *The least* in the table means: not the aim, but what is wanted at least.\n\n",
		100*disturbing)
	say("A figure is only written when the counts are right: rows, distinct offsets, positions,\n" +
		"counters and bytes after ingest; the answer's numbers, the states, the attempts, the\n" +
		"results, the audit trail and the records in the original topic after retry-all; what was\n" +
		"found and not found after settling; states, attempts and audit trail after the rest.\n\n")

	say("## Again\n\n")
	say("```\nmake bench\n```\n\n")
	say("took %s after the start of the servers and the builds, takes up to 30 GB of disk, and wants\n"+
		"the machine for itself.\n\n", seconds(r.total()))
	say("```\ngo run ./integration/bench -scale 0.1 -only ingest,retry-all\n```\n\n")
	say("is a try of some parts with a tenth of everything; such small counts flatter ingest, whose\n"+
		"pace a burst does not show, and shift what is fixed in the other figures. The parts are:\n%s.\n",
		strings.Join(r.names(), ", "))
	return b.String()
}

func (r result) names() (names []string) {
	for _, p := range r.parts {
		names = append(names, p.name)
	}
	return names
}

func settingsText() string {
	var parts []string
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"} {
		parts = append(parts, fmt.Sprintf("`%s=%s`", name, servers[name]))
	}
	return strings.Join(parts, ", ")
}
