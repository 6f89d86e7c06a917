package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/migrate"
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
	schema   uint // the last migration of what was measured; 0: not noted
}

// busy says whether others worked on the machine: the bench starts only after its
// server is up, which alone makes some load.
func (m machine) busy() bool {
	var most float64
	for _, load := range strings.Fields(m.load) {
		if v, err := strconv.ParseFloat(load, 64); err == nil {
			most = max(most, v)
		}
	}
	return most > float64(m.cores)
}

// conditions are what a reader must know before he believes a figure.
func (m machine) conditions() string {
	text := fmt.Sprintf("**Schema:** migration %d.", m.schema)
	if m.schema == 0 {
		text = fmt.Sprintf("**Schema:** the run did not note its migration; the newest was %d when this page was written.", migrate.Latest())
	}
	if m.busy() {
		text += fmt.Sprintf("\n**Taken on a busy machine:** its load was %s (1, 5, 15 minutes) on %d cores before\n"+
			"the start. Log and disk do not mind; small differences of processor time are doubtful, and a verdict\n"+
			"that rests on one wants to be measured again at rest.", m.load, m.cores)
	}
	return text + "\n\n"
}

func describe(ctx context.Context, db *sql.DB) (machine, error) {
	m := machine{day: time.Now().UTC(), cores: runtime.NumCPU(), schema: migrate.Latest()}
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
	say("%s", m.conditions())
	say("Each group begins with the product's way, in bold, and ends with the same once more. Figures are\n" +
		"of one row of 1 KB. *Processor*, *log* and *disk* compare storing, claiming and finishing together\n" +
		"with the first row of the group. The verdict begins with processor time; log and disk are added\n" +
		"where they differ, after a *but* where they go the other way. What the group's last line differs by\n" +
		"from its first is noise, in each of the three. A choice that is cheaper and yet not taken costs what\n" +
		"its last column names.\n\n")
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
		"  What the product's way differs from itself by in a group, twice what that is in half of the groups,\n" +
		"  and 2 %% count as no difference: the fewer others work on the machine, the more verdicts say.\n" +
		"  Of log and disk it is the group's own difference, and 2 %%.\n")
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
