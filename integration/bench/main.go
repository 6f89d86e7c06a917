// Command bench measures the programs as they are shipped, as processes, against
// a Kafka and a PostgreSQL of its own that write to disk as in production:
//
//	bench [-scale S] [-only PART,PART] [-reads N] [-dir DIR] [-limit D] [-write]
//
// A run is a list of parts, see parts.go; -only takes some of them, with what they
// need. With -reads it measures searches alone. It prints one table. A figure is
// only shown when the counts behind it are right: a run that lost, doubled or
// changed a record fails, and prints the parts that were over by then. With -write
// a run that succeeds, undisturbed by others, also writes docs/benchmarks.md, or
// docs/benchmarks-reads.md. It must run inside of this module, on Linux, and wants
// the machine for itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// What the program exits with besides 0.
const (
	exitFailed = 1 // or a demand was missed
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line, and the counts that follow from it.
type options struct {
	counts
	reads int      // messages that are searched; 0: everything else is measured instead
	only  []string // names of parts; none: all
	scale float64
	dir   string
	limit time.Duration
	write bool
	// disturbed figures are written, too, and named on the page
	disturbed bool
}

// counts are how much each part does.
type counts struct {
	records  int // dead letters in Kafka when the ingester starts
	retry    int // of them in the topic that is retried
	single   int // rows of the loop with one INSERT a record
	copied   int // rows that COPY writes
	doubtful int // claims that a process leaves behind
	backlog  int // PENDING rows that workers claim by cursor
}

// demanded are the counts that the demands on the figures name, or that take some
// seconds.
var demanded = counts{
	records: 1_000_000, retry: 100_000, single: 20_000, copied: 200_000, doubtful: 10_000, backlog: 300_000,
}

const demandedReads = 5_000_000

func parse(args []string, stderr io.Writer) (options, error) {
	opts := options{counts: demanded}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opts.reads, "reads", 0, "measure nothing but searches of so many messages")
	flags.Func("only", "names of the parts that are measured, by comma", func(text string) error {
		opts.only = strings.Split(text, ",")
		return nil
	})
	flags.Float64Var(&opts.scale, "scale", 1, "share of every count that is done, for a try")
	flags.StringVar(&opts.dir, "dir", "", "where the throwaway data is made (some 30 GB); empty: the temporary folder")
	flags.DurationVar(&opts.limit, "limit", 20*time.Minute, "give up when the work takes longer than this")
	flags.BoolVar(&opts.write, "write", false, "write docs/benchmarks.md")
	flags.BoolVar(&opts.disturbed, "disturbed", false, "write it also when others' work took part of the machine; the page names the rows")
	err := flags.Parse(args)
	if err == nil {
		if err = opts.check(flags.Args()); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
		}
		opts = opts.scaled()
	}
	return opts, err
}

// whole is without anything left out.
func (o options) whole() bool { return o.scale == 1 && len(o.only) == 0 && o.reads == 0 }

// leastScale leaves something to measure in every part.
const leastScale = 0.001

func (o options) scaled() options {
	for _, n := range []*int{&o.records, &o.retry, &o.single, &o.copied, &o.doubtful, &o.backlog, &o.reads} {
		*n = o.share(*n)
	}
	return o
}

// share is how much of n is done.
func (o options) share(n int) int { return int(float64(n) * o.scale) }

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case !(o.scale >= leastScale && o.scale <= 1):
		return fmt.Errorf("-scale must be %v to 1, not %v", leastScale, o.scale)
	case o.reads < 0 || o.reads > 0 && o.share(o.reads) < 10*fillStep:
		return fmt.Errorf("-reads must be 0, or at least %d", 10*fillStep)
	case o.write && o.reads > 0 && o.share(o.reads) < demandedReads:
		return fmt.Errorf("-write needs -reads of at least %d", demandedReads)
	case o.write && o.reads == 0 && o.scale < 1:
		return errors.New("-write needs all counts, without -scale")
	case o.write && len(o.only) > 0:
		return errors.New("-write needs all parts, without -only")
	}
	_, err := choose((&bench{opts: o}).parts(), o.only)
	return err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	result, err := measure(ctx, opts, stderr)
	if err = announce(result, err, stdout); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
	return 0
}

// announce publishes what was measured. Of a run that failed it shows the parts
// that were over by then, and writes nothing.
func announce(r result, failed error, stdout io.Writer) error {
	if failed == nil {
		return publish(r, r.opts.write, stdout)
	}
	if len(r.parts) == 0 {
		return failed
	}
	r.broken = true
	return errors.Join(failed, publish(r, false, stdout))
}
