// Command choices measures the choices of the schema and of its statements one by
// one: the product's own way beside the way it did not go, in databases of a
// PostgreSQL of its own, in turns, so that both meet the same machine:
//
//	choices [-rows N] [-rounds N] [-only TEXT] [-dir DIR] [-write]
//
// What it counts is processor time, log and disk for each row, which hardly depend
// on who else works on the machine; how long anything took is not among it. It
// prints one table, and writes docs/benchmarks-schema.md with -write. It must run
// inside of this module, on Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "choices:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	rows   int // of each choice
	rounds int // that they are stored in
	only   string
	dir    string
	write  bool
}

// The least that a page is written of.
const (
	demandedRows   = 20_000
	demandedRounds = 8
)

// limit bounds the whole run.
const limit = 45 * time.Minute

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("choices", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rows, "rows", 20_000, "rows that each choice stores, claims and finishes")
	flags.IntVar(&o.rounds, "rounds", 10, "parts that they come in, in turn with the other choices")
	flags.StringVar(&o.only, "only", "", "measure only groups with this text in their name")
	flags.StringVar(&o.dir, "dir", "", "where the throwaway data is made (some 10 GB); empty: the temporary folder")
	flags.BoolVar(&o.write, "write", false, "write "+document)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1 || o.rows < o.rounds*100:
		return o, errors.New("-rounds must be positive, and -rows at least 100 for each of them")
	case o.write && (o.rows < demandedRows || o.rounds < demandedRounds || o.only != ""):
		return o, fmt.Errorf("-write needs at least %d rows, %d rounds and all groups", demandedRows, demandedRounds)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", limit))
	defer cancel()
	result, err := measure(ctx, o, stderr)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, result.table())
	if !o.write {
		return nil
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, document), []byte(result.page()), 0o600)
}
