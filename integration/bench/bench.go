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

// part is one part of the benchmark, such as ingest or retry. With the flag -base, the programs of both commits run
// each part, one after the other.
type part struct {
	name  string
	needs string // the part that must run before, because this part uses its database
	alone bool   // -base skips this part, for example because it compares dlq-manager with another product
	load  string
	run   func(context.Context, *side) []figure
}

// parts returns all measurements in execution order.
func (o options) parts() []part {
	records, again := thousands(o.count(recordsToIngest)), thousands(o.count(recordsToRetry))
	return []part{
		{name: "ingest", run: ingest, load: records + " dead letters of 1 KB, in Kafka before one ingester starts"},
		{name: "payloads", needs: "ingest", run: payloads, load: "one API starts on the ingested table"},
		{name: "steady", run: steady, load: thousands(floodRate) + " records/s in a new database"},
		{name: "retry", needs: "payloads", run: retry, load: again + " messages by one request, and a fiftieth of that one by one"},
		{name: "search", run: search, load: fmt.Sprintf("%s messages of 300 bytes, spread over %d days, %d requests each, one after the other",
			thousands(o.count(o.documents)), o.days, o.requests)},
		{name: "reads", needs: "search", run: reads, load: fmt.Sprintf("%d requests each, one after the other, in the table of search", o.requests)},
		{name: "export", needs: "search", run: export, load: "one request for the table of search"},
		{name: "mixed", needs: "search", run: mixed, load: fmt.Sprintf("%g reads/s over %d connections in the table of search, quiet and with %s records/s",
			mixedRate, mixedCallers, thousands(floodRate))},
		{name: "engines", run: engines, alone: true, load: fmt.Sprintf("%s messages with values of 300 bytes, spread over %d days; PostgreSQL, then OpenSearch, quiet and with %s records/s; the facet counts the customers of the newest messages",
			thousands(o.count(o.documents)), o.days, thousands(floodRate))},
		{name: "beside", run: beside, alone: true, load: fmt.Sprintf("%s dead letters of 1 KB, %d times with each engine, by turns, while one API fills the search index",
			records, besidePairs)},
		{name: "archive", run: archive, load: thousands(o.count(recordsToArchive)) + " messages of 1 KB by one run of the archiver"},
		{name: "objects", run: objects, alone: true, load: thousands(o.count(recordsToMove)) + " archived messages of 1 KB of one day, restored by one redrive in two APIs"},
		{name: "schemas", run: schemas, alone: true, load: fmt.Sprintf("%s dead letters of 1 KB, %d times in each format, by turns; medians",
			thousands(o.count(recordsToDecode)), schemaPairs)},
		{name: "shares", run: shares, alone: true, load: fmt.Sprintf("%s dead letters of share groups without a value, %s a second",
			thousands(o.count(recordsToComplete)), thousands(pointerRate))},
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

// chosen returns the parts that -only names and the parts whose databases they need, or all parts without -only. With
// -base, it leaves out parts that are alone.
func (o options) chosen() []part {
	wanted := map[string]bool{}
	for _, name := range o.only {
		wanted[name] = true
	}
	for _, p := range slices.Backward(o.parts()) {
		wanted[p.needs] = wanted[p.needs] || wanted[p.name]
	}
	return slices.DeleteFunc(o.parts(), func(p part) bool {
		return len(o.only) > 0 && !wanted[p.name] || o.base != "" && p.alone
	})
}

// side holds the programs of one of the compared commits, and the databases of these programs in the current pair of
// turns.
type side struct {
	*bench
	commit   string
	programs string // folder of the programs
	prefix   string // prefix for the names of the databases of this commit

	ingested  *database // filled by the part named ingest, and used by later parts
	documents *database // filled by the part named search, and used by later parts
	flood     string    // prefix of the topics to which a flood of records is written in the part named mixed
	flooded   []string  // the names of these flooded topics
}

// bench is one run of the command bench.
type bench struct {
	opts    options
	log     io.Writer
	id      string // prefix of topic names
	root    string // root folder of the checkout
	folder  string // folder of programs, configuration and logs
	stack   *stack.Stack
	server  string // URL of PostgreSQL's superuser
	brokers []string
	kafka   *cluster
	sides   []*side // the programs of the base commit, if -base names one, and of the checkout
	tree    string  // folder with the checkout of the base commit

	named   int
	records int   // number of records in the dead-letter topics; 0 until fillTopics has run
	bytes   int64 // total size of the values of the records in the dead-letter topics
	done    []figure
}

// settings holds the settings of PostgreSQL. Except for sizes, the settings are those of a production server: the
// commit of every transaction waits for the disk. With shared buffers of 1 GB, the figures do not depend on the
// system's file cache. The log is in JSON because the measurement of claims reads it.
var settings = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "1GB", "max_wal_size": "4GB",
	"logging_collector": "on", "log_destination": "jsonlog", "log_rotation_size": "0", "log_rotation_age": "0",
}

// Heap sizes of Java programs in MB. These are the sizes that the programs' own start scripts set.
const kafkaHeap, producerHeap, connectHeap = 1024, 512, 2048

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.log, "%s bench: "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// start builds the programs and starts the servers.
func (b *bench) start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // the first run on a machine downloads PostgreSQL and Kafka
	defer cancel()
	b.buildSides(ctx)
	b.say("starting PostgreSQL and Kafka")
	b.stack = must(stack.Start(ctx, stack.Options{
		Postgres: true, Kafka: true, Own: true, Log: b.log, PostgresSettings: settings, KafkaHeapMB: kafkaHeap,
	}))
	if notes := b.stack.Notes(); len(notes) > 0 {
		check(fmt.Errorf("the servers are stand-ins, so figures are meaningless: %v", notes))
	}
	b.use(b.stack.DatabaseURL(), b.stack.Brokers())
}

// use sets the addresses of PostgreSQL and Kafka, and connects the benchmark's own Kafka client.
func (b *bench) use(database string, brokers []string) {
	b.server, b.brokers, b.kafka = database, brokers, connect(brokers)
}

// buildSides builds the programs of the base commit, if -base names one, and those of the checkout.
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

// build builds the programs of a checkout as a release does, but without the console's libraries if
// they have not been fetched.
func (b *bench) build(ctx context.Context, name, root string) {
	commit := "unknown" // an unpacked source archive has no commits, so git describe fails there
	_ = attempt(func() { commit = output(ctx, root, "git", "describe", "--always", "--dirty", "--abbrev=12") })
	b.say("building the programs of %s", commit)
	folder := filepath.Join(b.folder, name) + string(filepath.Separator)
	output(ctx, root, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", folder, "./cmd/api", "./cmd/ingester", "./cmd/archiver")
	b.sides = append(b.sides, &side{bench: b, commit: commit, programs: folder, prefix: b.id + "_" + name})
}

// output runs a command in a folder and returns its output.
func output(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, failed bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &failed
	if err := cmd.Run(); err != nil {
		check(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &failed))
	}
	return strings.TrimSpace(out.String())
}

// measure runs the chosen parts once or, if two commits are compared, as many times as -pairs says. Each time, the
// programs of both commits run every part. Which commit is first alternates from part to part and from pair to pair of
// turns.
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

// takeTurn runs one part with the programs of one commit. It first settles the databases, so that autovacuum and
// checkpoints have nothing left to do for earlier parts.
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

// failure is the panic value that ends a turn, as Fatal ends a test: no part can continue after an
// error.
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

// attempt calls the function work, and returns the error with which work panicked, if it did.
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

// compares reports whether the run compares the programs with other products: it does when -base names no other commit.
func (b *bench) compares() bool { return len(b.sides) == 1 }

// stop stops the servers and removes all files; after a failure it keeps the folder with the programs, configurations
// and logs.
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
