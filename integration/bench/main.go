// Command bench measures the programs: it runs them as processes and uses them over HTTP and Kafka, with its own Kafka
// and PostgreSQL, which write to disk as in production:
//
//	bench [-only PART,PART] [-scale S] [-json FILE] [-write]
//	bench -base COMMIT [-pairs N] [-only PART,PART] [-scale S] [-json FILE]
//
// It prints one table in Markdown; -write puts it into docs/benchmarks.md. With -base it also builds the programs of
// that commit, and measures the programs of both commits in turn. It then prints for each figure both medians, their
// ratio and its 95 % interval. Each commit has its own databases, which its own program migrates. In the parts that
// -base runs, the benchmark's own SQL uses only dlq.dlq_messages, its archive and the views. It shows a figure only if
// the counts that the figure depends on are right. It runs on Linux only, and no other program should use the machine
// meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	o.define(flag.CommandLine)
	flag.Parse()
	if err := o.check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	setEnvironment()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, &bench{opts: o, log: os.Stderr, id: "bench"})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options holds the command line.
type options struct {
	only      []string // names of the parts to run; empty for all parts
	scale     float64
	documents int // number of messages in the parts named search and engines
	days      int // number of days over which the times of these messages are spread
	requests  int
	base      string
	pairs     int
	limit     time.Duration
	write     bool
	json      string
}

// The numbers of records and messages at -scale 1. They keep fast programs busy for seconds, so that the figures
// include checkpoints and autovacuum.
const (
	recordsToIngest   = 500_000
	recordsToRetry    = 100_000
	recordsToConnect  = 200_000
	recordsToArchive  = 100_000
	recordsToMove     = 100_000
	recordsToComplete = 100_000
	recordsToCopy     = 100_000 // number of rows for each number of connections
	recordsToDecode   = 100_000
)

// count scales n.
func (o options) count(n int) int { return max(int(float64(n)*o.scale), 1) }

func (o *options) define(flags *flag.FlagSet) {
	flags.Func("only", "names of the parts that run, separated by commas: "+strings.Join(partNames(), ", "), func(text string) error {
		o.only = strings.Split(text, ",")
		return nil
	})
	flags.Float64Var(&o.scale, "scale", 1, "factor for the number of records of every part")
	flags.IntVar(&o.documents, "documents", 300_000, "number of messages for the part search, before -scale")
	flags.IntVar(&o.days, "days", 30, "days over which these messages are spread")
	flags.IntVar(&o.requests, "requests", 300, "number of requests for each query of the parts search and reads")
	flags.StringVar(&o.base, "base", "", "commit whose programs are measured in turn with those of the checkout")
	flags.IntVar(&o.pairs, "pairs", 6, "turns of each commit, with -base; 6 is the least that gives a 95 % interval")
	flags.DurationVar(&o.limit, "limit", 4*time.Hour, "give up when the work takes longer than this")
	flags.BoolVar(&o.write, "write", false, "write the table into docs/benchmarks.md")
	flags.StringVar(&o.json, "json", "", "file that the figures are written to as JSON")
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case !(o.scale >= 0.001 && o.scale <= 20):
		return fmt.Errorf("-scale must be 0.001 to 20, not %v", o.scale)
	case o.documents < 1000 || o.days < 1 || o.requests < 1 || o.pairs < 1:
		return errors.New("-documents must be at least 1000, -days, -requests and -pairs at least 1")
	case o.write && (o.base != "" || o.scale != 1 || len(o.only) > 0):
		return errors.New("-write needs all parts at -scale 1, without -base")
	}
	for _, name := range o.only {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("no part %q; there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	return nil
}

// setEnvironment removes variables that would change the settings, memory or number of processors of the programs, and
// sets CGO_ENABLED, so that the programs are built as for a release.
func setEnvironment() {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "DLQ_") || slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}, name) {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("CGO_ENABLED", "0")
}

// run runs the benchmark. When a part fails, it still prints the results of the completed parts.
func run(ctx context.Context, b *bench) error {
	failed := attempt(func() { b.start(ctx) })
	if failed == nil {
		ctx, cancel := context.WithTimeoutCause(ctx, b.opts.limit, fmt.Errorf("not done after %s (-limit)", b.opts.limit))
		defer cancel()
		if failed = b.measure(ctx); failed != nil && ctx.Err() != nil {
			failed = fmt.Errorf("%w: %w", context.Cause(ctx), failed)
		}
	}
	missed := attempt(func() { b.publish(os.Stdout, failed == nil) })
	return errors.Join(failed, missed, b.stop(failed != nil))
}
