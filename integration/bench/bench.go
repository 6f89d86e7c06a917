package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

// startPatience bounds the start of the servers and the builds; a machine that
// never had them fetches them first. The limit of the work begins after it.
const startPatience = 12 * time.Minute

// servers are as in production, but for their size: every commit waits for the
// disk. A gigabyte of buffers keeps the figures apart from the system's cache.
var servers = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "1GB",
	"max_wal_size":       "4GB",

	// What statements take is counted for the profiles, of all databases.
	"shared_preload_libraries": "pg_stat_statements",
}

// kafkaHeapMB is what Kafka's own start script gives it.
const kafkaHeapMB = 1024

// bench is one run: the servers, the programs, and what was measured so far.
type bench struct {
	opts   options
	log    io.Writer
	folder string // of binaries, configuration and logs
	stack  *stack.Stack
	kafka  *cluster
	live   *database // that the programs use, from the part ingest on
	result result
}

// result is what a run found.
type result struct {
	opts    options
	machine machine
	parts   []measured
	broken  bool // a part failed; parts are those before it
}

// measure does the whole run. Nothing that it starts is left behind.
func measure(ctx context.Context, opts options, log io.Writer) (res result, err error) {
	b := &bench{opts: opts, log: log, result: result{opts: opts}}
	chosen, err := choose(b.parts(), opts.only)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, b.stop(err != nil)) }()
	if err := b.start(ctx); err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.limit, fmt.Errorf("not done after %s (-limit)", opts.limit))
	defer cancel()
	err = b.timely(ctx, func(ctx context.Context) error { return b.runParts(ctx, chosen) })
	return b.result, err
}

// timely says when it was the limit that ended a step.
func (b *bench) timely(ctx context.Context, step func(context.Context) error) error {
	err := step(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.log, "bench: "+format+"\n", args...) }

func (b *bench) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if b.result.machine.load, err = loadAverage(); err != nil {
		return err
	}
	if err := b.opts.expectSpace(); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp(b.opts.dir, "dlq-manager-bench-"); err != nil {
		return err
	}
	if err := expectTools(ctx); err != nil {
		return err
	}
	b.say("building the programs")
	if err := build(ctx, b.folder, "api", "ingester", "archiver"); err != nil {
		return err
	}
	b.say("starting PostgreSQL and Kafka")
	b.stack, err = stack.Start(ctx, stack.Options{
		Postgres: true, Kafka: true, Own: true, Dir: b.opts.dir, Log: b.log,
		PostgresSettings: servers, KafkaHeapMB: kafkaHeapMB,
	})
	if err != nil {
		return err
	}
	if notes := b.stack.Notes(); len(notes) > 0 {
		return fmt.Errorf("the servers are stand-ins, whose figures say nothing: %v", notes)
	}
	if b.kafka, err = connect(b.stack.Brokers()); err != nil {
		return err
	}
	if err := b.countStatements(ctx); err != nil {
		return err
	}
	b.result.machine, err = describe(ctx, b.stack.DatabaseURL(), b.result.machine.load)
	return err
}

// expectTools looks for what is only run when much is measured already.
func expectTools(ctx context.Context) error {
	if _, err := stack.KafkaTool(ctx, producerHeapMB, producerTool, "--help"); err != nil {
		return err
	}
	if _, err := stack.KafkaConnect(ctx, connectHeapMB); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "tool", "-n", "pprof").CombinedOutput(); err != nil {
		return fmt.Errorf("go tool pprof: %w\n%s", err, out)
	}
	return nil
}

// database makes a database and brings it to the newest schema as an operator
// would: with the program.
func (b *bench) database(ctx context.Context, name string) (*database, error) {
	d, err := createDatabase(ctx, b.stack.DatabaseURL(), name)
	if err != nil {
		return nil, err
	}
	d.config = filepath.Join(b.folder, name+".yaml")
	if err := os.WriteFile(d.config, []byte(d.configText(b.stack.Brokers())), 0o600); err != nil {
		return nil, err
	}
	return d, b.program("api", d).complete(ctx, "migrate", "up")
}

// drop removes a database that is no longer needed. Nil is none.
func (b *bench) drop(ctx context.Context, d *database) error {
	if d == nil {
		return nil
	}
	d.close()
	admin, err := openDatabase(b.stack.DatabaseURL())
	if err != nil {
		return err
	}
	defer admin.close()
	if _, err := admin.ExecContext(ctx, "DROP DATABASE "+d.url.Path[1:]+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop a database: %w", err)
	}
	return nil
}

func (b *bench) program(name string, d *database) program {
	return program{
		name: name, path: filepath.Join(b.folder, name), config: d.config,
		log: filepath.Join(b.folder, name+".log"),
	}
}

// stop ends the servers and removes everything; after a failure the logs stay.
func (b *bench) stop(failed bool) error {
	b.live.close()
	b.kafka.close()
	var err error
	if b.stack != nil {
		err = b.stack.Stop()
	}
	if failed && b.folder != "" {
		b.say("logs are in %s", b.folder)
		return err
	}
	return errors.Join(err, os.RemoveAll(b.folder))
}

// rate is work and the time it took.
type rate struct {
	n    int
	took time.Duration
}

func (r rate) perSecond() float64 {
	if r.took <= 0 {
		return 0
	}
	return float64(r.n) / r.took.Seconds()
}

func (r rate) plus(other rate) rate { return rate{r.n + other.n, r.took + other.took} }
