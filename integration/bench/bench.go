package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

// part is one measurement. A turn of it is one side's.
type part struct {
	name  string
	needs string // name of the part whose database it uses
	alone bool   // it compares with another product, so -base does not repeat it
	load  string
	run   func(context.Context, *side) []figure
}

// parts are all measurements in the order in which they run.
func (o options) parts() []part {
	records, again := thousands(o.count(recordsToIngest)), thousands(o.count(recordsToRetry))
	return []part{
		{name: "ingest", run: ingest, load: records + " dead letters of 1 KB, in Kafka before one ingester starts"},
		{name: "payloads", needs: "ingest", run: payloads, load: "one API starts on the ingested table; then " + thousands(floodRate) + " records/s in a new database"},
		{name: "retry", needs: "ingest", run: retry, load: again + " messages by one request, and a fiftieth of that one by one"},
		{name: "search", run: search, load: fmt.Sprintf("%s messages of 300 bytes, spread over %d days, %d requests each, one after the other",
			thousands(o.count(o.documents)), o.days, o.requests)},
		{name: "reads", needs: "search", run: reads, load: fmt.Sprintf("%d requests each, one after the other, in the table of search", o.requests)},
		{name: "export", needs: "search", run: export, load: "one request for the table of search"},
		{name: "mixed", needs: "search", run: mixed, load: fmt.Sprintf("%g reads/s over %d connections in the table of search, quiet and with %s records/s",
			mixedRate, mixedCallers, thousands(floodRate))},
		{name: "archive", run: archive, load: thousands(o.count(recordsToArchive)) + " messages of 1 KB by one run of the archiver"},
		{name: "connect", run: kafkaConnect, alone: true, load: fmt.Sprintf("%s dead letters of 1 KB, %d times each way, by turns; medians",
			thousands(o.count(recordsToConnect)), connectPairs)},
	}
}

func partNames() (names []string) {
	for _, p := range (options{}).parts() {
		names = append(names, p.name)
	}
	return names
}

// chosen are the parts of -only with those that they need.
func (o options) chosen() []part {
	wanted := map[string]bool{}
	for _, name := range o.only {
		wanted[name] = true
	}
	for _, p := range o.parts() {
		wanted[p.needs] = wanted[p.needs] || wanted[p.name]
	}
	return slices.DeleteFunc(o.parts(), func(p part) bool {
		return len(o.only) > 0 && !wanted[p.name] || o.base != "" && p.alone
	})
}

// side is the programs of one commit and the databases that they use in this turn.
type side struct {
	*bench
	commit   string
	programs string // folder
	prefix   string // of the names of databases

	ingested  *database // from the part ingest on
	documents *database // from the part search on
	flood     string    // prefix of the names of topics that are written to while documents are read
	flooded   []string  // these names
}

// bench is one run.
type bench struct {
	opts    options
	log     io.Writer
	id      string // prefix of the names of topics
	root    string // of the checkout
	folder  string // of programs, configuration and logs
	stack   *stack.Stack
	server  string // URL of PostgreSQL's superuser
	brokers []string
	kafka   *cluster
	sides   []*side // the base, if there is one, and the checkout
	tree    string  // checkout of the base

	named   int
	records int   // in the dead-letter topics, once they are filled
	bytes   int64 // of their values
	done    []figure
}

// settings are of production but for sizes: every commit waits for the disk. A gigabyte
// of buffers keeps the figures apart from the system's cache. Claims read the log in JSON.
var settings = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "1GB", "max_wal_size": "4GB",
	"logging_collector": "on", "log_destination": "jsonlog", "log_rotation_size": "0", "log_rotation_age": "0",
}

// Heaps of what Java runs, in MB, as their own start scripts have them.
const kafkaHeap, producerHeap, connectHeap = 1024, 512, 2048

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.log, "%s bench: "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// start builds the programs and starts the servers.
func (b *bench) start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // a machine that never had the servers fetches them
	defer cancel()
	b.buildSides(ctx)
	b.say("starting PostgreSQL and Kafka")
	b.stack = must(stack.Start(ctx, stack.Options{
		Postgres: true, Kafka: true, Own: true, Log: b.log, PostgresSettings: settings, KafkaHeapMB: kafkaHeap,
	}))
	if notes := b.stack.Notes(); len(notes) > 0 {
		check(fmt.Errorf("the servers are stand-ins, whose figures say nothing: %v", notes))
	}
	b.use(b.stack.DatabaseURL(), b.stack.Brokers())
}

// use sets the servers.
func (b *bench) use(database string, brokers []string) {
	b.server, b.brokers, b.kafka = database, brokers, connect(brokers)
}

// buildSides builds the programs of the base, if there is one, and those of the checkout.
func (b *bench) buildSides(ctx context.Context) {
	b.folder = must(os.MkdirTemp("", "dlq-manager-bench-"))
	b.root = output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/dlq-manager/dlq-manager")
	if b.opts.base != "" {
		b.tree = filepath.Join(b.folder, "tree")
		output(ctx, b.root, "git", "worktree", "add", "--detach", b.tree, b.opts.base)
		b.build(ctx, "base", b.tree)
	}
	b.build(ctx, "head", b.root)
}

// build builds the programs of a checkout as a release does, but without the libraries of
// the console's pages where they are not fetched.
func (b *bench) build(ctx context.Context, name, root string) {
	commit := "unknown" // of an unpacked archive
	_ = attempt(func() { commit = output(ctx, root, "git", "describe", "--always", "--dirty", "--abbrev=12") })
	b.say("building the programs of %s", commit)
	folder := filepath.Join(b.folder, name) + string(filepath.Separator)
	output(ctx, root, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", folder, "./cmd/api", "./cmd/ingester", "./cmd/archiver")
	b.sides = append(b.sides, &side{bench: b, commit: commit, programs: folder, prefix: b.id + "_" + name})
}

// output runs a command in a folder and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, failed bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &failed
	if err := cmd.Run(); err != nil {
		check(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &failed))
	}
	return strings.TrimSpace(out.String())
}

// measure does all parts: once, or with a base as many pairs as wanted. In a pair the sides
// do each part by turns; which one is first alternates from part to part and from pair to pair.
func (b *bench) measure(ctx context.Context) error {
	for pair := range max(b.opts.pairs*(len(b.sides)-1), 1) {
		err := attempt(func() {
			defer func() {
				for _, s := range b.sides {
					s.drop(ctx, s.ingested)
					s.drop(ctx, s.documents)
					s.kafka.removeFlood(ctx, s.flooded)
					s.ingested, s.documents, s.flooded = nil, nil, nil
				}
			}()
			for i, p := range b.opts.chosen() {
				order := slices.Clone(b.sides)
				if (pair+i)%2 == 1 {
					slices.Reverse(order)
				}
				for _, s := range order {
					b.takeTurn(ctx, p, s, pair)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeTurn starts from settled databases, so that what came before leaves no work to
// autovacuum or to a checkpoint.
func (b *bench) takeTurn(ctx context.Context, p part, s *side, pair int) {
	b.say("part %s, %s, turn %d", p.name, s.commit, pair+1)
	for _, other := range b.sides {
		other.ingested.settle(ctx)
		other.documents.settle(ctx)
	}
	var figures []figure
	if err := attempt(func() { figures = p.run(ctx, s) }); err != nil {
		check(fmt.Errorf("part %s of %s: %w", p.name, s.commit, err))
	}
	for _, f := range figures {
		f.Part, f.side = p.name, s
		b.done = append(b.done, f)
		b.say("  %s: %s", f.Name, f.text())
	}
}

// failure ends a turn, as Fatal ends a test: parts have no other use for an error.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt returns the failure of work.
func attempt(work func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	work()
	return nil
}

// compares reports whether the programs are compared with other ways to do the same, and
// not with those of a base.
func (b *bench) compares() bool { return len(b.sides) == 1 }

// stop ends the servers and removes everything; after a failure the logs stay.
func (b *bench) stop(failed bool) error {
	var errs []error
	if b.kafka != nil {
		b.kafka.client.Close()
	}
	if b.stack != nil {
		errs = append(errs, b.stack.Stop())
	}
	if b.tree != "" {
		errs = append(errs, attempt(func() { output(context.Background(), b.root, "git", "worktree", "remove", "--force", b.tree) }))
	}
	if failed {
		b.say("logs are in %s", b.folder)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(b.folder))...)
}
