// Command stack runs a command with PostgreSQL and Kafka, or only the servers:
//
//	stack [flags] [--] command [argument ...]
//	stack [flags]
//
// The command gets the servers' addresses in DLQ_STACK_DATABASE_URL and DLQ_STACK_KAFKA_BROKERS; the servers stop when
// the command ends, and stack exits with the command's exit code. Without a command, stack prints the two variables and
// keeps the servers until Ctrl-C.
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

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// The exit codes of the program stack itself, when it does not run the command.
const (
	exitUsage  = 2
	exitFailed = 125
)

func run(args []string, stdout, stderr io.Writer) int {
	opts, command, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	servers, err := start(opts, signals)
	if err != nil {
		fmt.Fprintln(stderr, "stack:", err)
		return exitFailed
	}
	code := serve(servers, command, signals, stdout, stderr)
	if err := servers.Stop(); err != nil {
		fmt.Fprintln(stderr, "stack:", err)
	}
	return code
}

func parse(args []string, stderr io.Writer) (stack.Options, []string, error) {
	opts := stack.Options{Log: stderr}
	flags := flag.NewFlagSet("stack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&opts.Postgres, "postgres", true, "start PostgreSQL")
	flags.BoolVar(&opts.Kafka, "kafka", true, "start Kafka")
	flags.BoolVar(&opts.KafkaCluster, "kafka-cluster", false, "start three brokers of Kafka instead of one")
	flags.BoolVar(&opts.Fast, "fast", false, "quick start and commits, for tests: data is not forced to the disk")
	flags.IntVar(&opts.KafkaHeapMB, "kafka-heap", 0, "heap of each broker in megabytes (default: 512, in a cluster 256)")
	flags.StringVar(&opts.Dir, "dir", "", "where the throwaway data folder is made (default: the temporary folder, or with -fast memory if there is much room)")
	err := flags.Parse(args)
	return opts, flags.Args(), err
}

// start starts the servers. It stops them early if a signal arrives.
func start(opts stack.Options, signals <-chan os.Signal) (*stack.Stack, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-started:
		}
	}()
	return stack.Start(ctx, opts)
}

// serve runs the command and returns its exit code. Without a command, it waits for a signal.
func serve(servers *stack.Stack, command []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	if len(command) > 0 {
		return runCommand(command, servers.Environ(), signals, stdout, stderr)
	}
	for _, line := range servers.Environ() {
		fmt.Fprintln(stdout, line)
	}
	fmt.Fprintln(stderr, "stack: ready, Ctrl-C ends it")
	<-signals
	return 0
}
