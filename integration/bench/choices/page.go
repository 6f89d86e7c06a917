package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// document is where the page goes, in the module.
const document = "docs/benchmarks-schema.md"

// machine is what the figures were taken on.
type machine struct {
	day      time.Time
	cores    int
	model    string
	load     string
	postgres string
}

func describe(ctx context.Context, db *sql.DB) (machine, error) {
	m := machine{day: time.Now().UTC(), cores: runtime.NumCPU()}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, err
	}
	m.load = strings.Join(strings.Fields(string(load))[:3], " ")
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	for text := range bytes.Lines(cpu) {
		if name, model, _ := strings.Cut(string(text), ":"); strings.TrimSpace(name) == "model name" {
			m.model = strings.TrimSpace(model)
			break
		}
	}
	err = db.QueryRowContext(ctx, "SHOW server_version").Scan(&m.postgres)
	return m, err
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (r result) page() string {
	m := r.machine
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	say("# Choices of the schema\n\n")
	say("Written by `go run ./integration/bench/choices -write` on %s; not edited by hand.\n\n", m.day.Format("2 January 2006"))
	say("Each group begins with the product's way, in bold, and ends with the same once more. Figures are\n" +
		"of one row of 1 KB. *Processor* and *log* compare storing, claiming and finishing together with the\n" +
		"first row of the group; the verdict is made from these figures. A choice that is cheaper and yet not\n" +
		"taken costs what its last column names.\n\n")
	say("%s\n", r.table())
	say("## Where\n\n")
	say("- %d cores (%s). Load of the machine before the start (1, 5, 15 minutes): %s.\n", m.cores, m.model, m.load)
	say("- PostgreSQL %s with %s.\n\n", strings.Fields(m.postgres)[0], settings())
	say("## How\n\n")
	say("Every choice has a database of its own, a copy of the newest schema with that one change. The\n"+
		"product's own store writes %d rows into it in %d rounds, %d at a time over one connection, and\n"+
		"claims and finishes them, %d at a time, as acknowledged, without Kafka. The choices of a group take\n"+
		"turns after every round, in an order that changes. Shown is the lower quartile of the rounds, for\n"+
		"what others do to caches and clocks only ever adds; disk is the mean growth of the table with what\n"+
		"is out of line and its indexes.\n\n",
		r.opts.rows, r.opts.rounds, product("").batch, product("").claim)
	say("- Processor time is that of the sessions (`/proc/PID/schedstat`) and of the client. It depends much\n" +
		"  less on others who work on the machine than the rates that follow from it, which are not shown.\n" +
		"  What the product's way differs from itself by in a group, and twice what that is in half of the\n" +
		"  groups, counts as no difference: the fewer others work on the machine, the more verdicts say.\n")
	say("- Log is what the whole server wrote meanwhile. Only the groups *after a checkpoint* have whole pages\n" +
		"  in it: there every part begins with one.\n")
	say("- *Vacuum*: rows are stored once, and claimed and failed in every round; autovacuum\n" +
		"  looks every second, as work of minutes is done in seconds. Elsewhere it is off.\n")
	say("- Text arrays are made from the binary ones of the product, so the client's part shows more than the\n" +
		"  choice would cost; the server's does not.\n")
	say("- What is missing from a statement is cut out of its text before it is prepared; a run in which\n" +
		"  nothing was cut, or in which rows, states, attempts or audit lines are not as they must be, fails.\n\n")
	say("## Again\n\n```\ngo run ./integration/bench/choices -write\n```\n\n")
	say("takes some ten minutes of a machine that is otherwise at rest, and 10 GB of disk.\n")
	return b.String()
}
