// Command demo runs all of dlq-manager on one machine, with sample data:
//
//	demo [-bin DIR] [-port N] [-for DURATION]
//
// It starts PostgreSQL and Kafka with temporary data, migrates, starts the API and the ingester from DIR, opens a
// sample shop whose consumers dead-letter some records, and prints what to try. Ctrl-C or SIGTERM stops everything. On
// Linux, no process that the demo starts outlives the demo.
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

// Exit codes besides 0.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options holds the command line.
type options struct {
	bin  string
	port int
	stay time.Duration // 0: until SIGINT or SIGTERM
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.bin, "bin", "bin", "folder of the programs dlq-manager-api and dlq-manager-ingester")
	flags.IntVar(&opts.port, "port", 8080, "port of the API; another one is taken when it is in use")
	flags.DurationVar(&opts.stay, "for", 0, "stop after this long (default: run until Ctrl-C)")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fmt.Fprintln(stderr, "demo:", err)
	}
	return opts, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	if err := newDemo(opts, stdout).run(ctx); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return exitFailed
	}
	return 0
}
