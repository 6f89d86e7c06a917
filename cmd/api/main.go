// The program api serves the REST API and the console, and sends messages again on behalf of operators. Any number of
// replicas may share one database.
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
)

const usage = `Usage: dlq-manager-api [flags]
       dlq-manager-api [flags] migrate up | down [--all] | version
       dlq-manager-api token new --name NAME --role ROLE --topics TOPICS

Without a command it serves until SIGTERM or SIGINT. "migrate" changes or shows
the version of the database's schema and exits: "up" runs what is missing, "down"
takes one step back, "down --all" goes back to nothing. "token new" makes a token
and prints it, with the entry of the configuration that lets its bearer in.`

func main() { program.Main("dlq-manager-api", run) }

func run(ctx context.Context, args, environ []string, stdout io.Writer) error {
	line := program.NewCommandLine("dlq-manager-api", usage, stdout)
	all := line.Flags.Bool("all", false, "with migrate down: take every step back")
	yes := line.Flags.Bool("yes", false, "with migrate down --all: really, outside dev")
	var token tokenOrder
	token.flags(line.Flags)
	if done, err := line.Parse(args, stdout); done {
		return err
	}
	if len(line.Args) > 0 && line.Args[0] == "token" {
		return token.run(line.Args, time.Now(), stdout)
	}
	base, err := program.Start("api", line.Path, environ)
	if err != nil {
		return err
	}
	defer func() { _ = base.Log.Sync() }()
	if len(line.Args) > 0 {
		return migration{base: base, all: *all, yes: *yes, stdout: stdout}.run(ctx, line.Args)
	}
	if base, err = base.WithTracing(ctx, "api"); err != nil {
		return err
	}
	defer base.StopTracing()
	return serve(ctx, base)
}

// serve opens its port first and answers "not ready" while it waits for the dependencies, so that probes find a program
// that is starting.
func serve(ctx context.Context, base program.Base) error {
	parts, err := build(base)
	if err != nil {
		return err
	}
	defer parts.close()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", base.Config.Server.Address())
	if err != nil {
		return err
	}
	base.Log.Info("listening on " + listener.Addr().String())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { complainUnprotected(ctx, base.Config, base.Log); return nil })
	g.Go(func() error { return parts.server.Serve(ctx, listener) })
	g.Go(func() error {
		if err := parts.wait(ctx); err != nil {
			return err
		}
		parts.server.SetReady()
		base.Log.Info("ready")
		parts.workers(ctx)
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	base.Log.Info("stopped")
	return nil
}
