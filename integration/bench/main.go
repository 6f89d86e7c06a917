// Command bench measures the programs as they are shipped, as processes, against
// a Kafka and a PostgreSQL of its own that write to disk as in production:
//
//	bench [-scale S] [-records N] [-retry N] [-single N] [-copy N] [-doubtful N] [-backlog N] [-reads N] [-dir DIR] [-write]
//
// With -reads it measures reading alone. It prints one table. A figure is only shown when the counts behind it are
// right: a run that lost, doubled or changed a record fails. With -write it also
// writes docs/benchmarks.md. It must run inside of this module, on Linux, and
// wants the machine for itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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

// options are the command line.
type options struct {
	records  int // dead letters in Kafka when the ingester starts
	retry    int // of them in the topic that is retried
	single   int // rows of the loop with one INSERT a record
	copied   int // rows that COPY writes
	doubtful int // claims that a process leaves behind
	backlog  int // PENDING rows that workers claim by cursor
	reads    int // messages that are searched; 0: everything else is measured instead
	scale    float64
	dir      string
	limit    time.Duration
	write    bool
}

// The counts that the demands on the figures name.
const (
	demandedRecords  = 1_000_000
	demandedRetry    = 100_000
	demandedDoubtful = 10_000
	demandedBacklog  = 1_000_000
	demandedReads    = 5_000_000
)

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opts.records, "records", demandedRecords, "dead letters that wait for the ingester")
	flags.IntVar(&opts.retry, "retry", demandedRetry, "of these, how many are in the topic that is retried")
	flags.IntVar(&opts.single, "single", 20_000, "rows of the loop with one INSERT a record")
	flags.IntVar(&opts.copied, "copy", 100_000, "rows that COPY writes")
	flags.IntVar(&opts.doubtful, "doubtful", demandedDoubtful, "claims that a process leaves behind")
	flags.IntVar(&opts.backlog, "backlog", demandedBacklog, "rows that workers claim by cursor")
	flags.IntVar(&opts.reads, "reads", 0, "measure nothing but searches of so many messages")
	flags.Float64Var(&opts.scale, "scale", 1, "share of every count that is done, for a try")
	flags.StringVar(&opts.dir, "dir", "", "where the throwaway data is made (some 12 GB); empty: the temporary folder")
	flags.DurationVar(&opts.limit, "limit", 10*time.Minute, "give up when the work takes longer than this")
	flags.BoolVar(&opts.write, "write", false, "write docs/benchmarks.md")
	err := flags.Parse(args)
	if err == nil {
		opts = opts.scaled()
		if err = opts.check(flags.Args()); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
		}
	}
	return opts, err
}

func (o options) scaled() options {
	for _, n := range []*int{&o.records, &o.retry, &o.single, &o.copied, &o.doubtful, &o.backlog, &o.reads} {
		*n = int(float64(*n) * o.scale)
	}
	return o
}

// least is how many letters every topic gets that is not retried.
func (o options) least() int { return (o.records - o.retry) / (len(names) - 1) }

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case !(o.scale > 0 && o.scale <= 1):
		return fmt.Errorf("-scale must be above 0 and at most 1, not %v", o.scale)
	case o.retry < 1 || o.single < 2 || o.copied < 1 || o.doubtful < 2 || o.backlog < 1:
		return errors.New("every count must be positive, and -single and -doubtful at least 2")
	case o.records < o.retry:
		return errors.New("-records must not be less than -retry")
	case o.least() < max(o.doubtful, 2*o.single):
		return fmt.Errorf("-records leaves %d to each topic that is not retried, less than -doubtful or twice -single", o.least())
	case o.reads < 0 || o.reads > 0 && o.reads < 10*fillStep:
		return fmt.Errorf("-reads must be 0, or at least %d", 10*fillStep)
	case o.write && o.reads > 0 && o.reads < demandedReads:
		return fmt.Errorf("-write needs -reads of at least %d", demandedReads)
	case o.write && (o.records < demandedRecords || o.retry < demandedRetry ||
		o.doubtful < demandedDoubtful || o.backlog < demandedBacklog):
		return fmt.Errorf("-write needs at least %d records, %d retries, %d doubtful claims and a backlog of %d",
			demandedRecords, demandedRetry, demandedDoubtful, demandedBacklog)
	}
	return nil
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
	if err == nil {
		err = publish(result, opts.write, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
	return 0
}
