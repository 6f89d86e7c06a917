// The program ingester reads the dead-letter topics and stores their records in the database. Any number of ingesters
// may run; the consumer group divides the partitions among them.
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/completion"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
	"github.com/dlq-manager/dlq-manager/pkg/sharegroup"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

const usage = `Usage: dlq-manager-ingester [flags]

Reads dead-letter topics into the database until SIGTERM or SIGINT.`

func main() { program.Main("dlq-manager-ingester", run) }

func run(ctx context.Context, args, environ []string, stdout io.Writer) error {
	line := program.NewCommandLine("dlq-manager-ingester", usage, stdout)
	if done, err := line.Parse(args, stdout); done {
		return err
	}
	if err := line.NoArgs(); err != nil {
		return err
	}
	base, err := program.Start("ingester", line.Path, environ)
	if err != nil {
		return err
	}
	defer func() { _ = base.Log.Sync() }()
	if base.Config.Database == nil {
		return errors.New("the configuration has no database section: records cannot be stored")
	}
	if !base.Config.HasKafka() {
		return errors.New("the configuration names no kafka.brokers: there is nothing to read from")
	}
	// The ingester allocates batches of several megabytes all the time. In the worst case, the memory contains the
	// maximum of buffered bytes twice: bytes in use, and garbage that is not collected yet.
	program.NeedMemory(2*base.Config.Ingest.BufferBytes + 48<<20)
	if base, err = base.WithTracing(ctx, "ingester"); err != nil {
		return err
	}
	defer base.StopTracing()
	return serve(ctx, base)
}

func serve(ctx context.Context, base program.Base) error {
	cfg := base.Config
	cluster, err := base.OpenKafka()
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Close() }()
	shareTopics, err := cfg.Kafka.DeadLetter.ShareTopics()
	if err != nil {
		return err
	}
	groups := sharegroup.NewWatcher(cluster, shareTopics, base.Log)
	patterns, decoder, err := cfg.Kafka.DeadLetters(groups.IsReserved)
	if err != nil {
		return err
	}
	db, err := base.OpenDatabase()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()

	fingerprints, err := fingerprint.New(cfg.Groups)
	if err != nil {
		return err
	}
	origins, err := deadletter.NewOrigins(cfg.Kafka.DeadLetter)
	if err != nil {
		return err
	}
	store := base.Store(db)
	stores := ingest.Stores{Records: store, Quarantine: store, ErrorGroups: store, ConsumerGroups: store, Mappings: store}
	ingester := ingest.New(cfg.Ingest, cfg.Kafka.ConsumerGroup, patterns, cluster, decoder, stores, base.Registry, base.Log,
		ingest.WithFingerprints(fingerprints), ingest.WithOrigins(origins.Or(groups.Declaration)), ingest.WithShareGroups(groups),
		ingest.WithTracing(base.Tracing.Provider()), ingest.WithTopicLabels(telemetry.NewTopicLabels()))
	completer := completion.New(store, cluster, groups.CheckPointer, ingester.Declared, cfg.Ingest.MaxRecordBytes, base.Registry, base.Log)
	probes := rest.NewProbes(cfg.Server, []rest.Check{
		{Name: "database", Probe: both(db.PingContext, ingester.CheckDatabase), Required: true},
		program.SchemaCheck(db),
		{Name: "kafka", Probe: both(cluster.Ping, ingester.CheckKafka), Required: true},
	}, base.Registry, base.Log, rest.WithLiveness(ingester.Alive))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Server.Address())
	if err != nil {
		return err
	}
	base.Log.Info("listening on " + listener.Addr().String())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return probes.Serve(ctx, listener) })
	g.Go(func() error {
		if err := base.WaitFor(ctx, db, cluster); err != nil {
			return err
		}
		if err := base.WaitForSchema(ctx, db); err != nil {
			return err
		}
		probes.SetReady()
		base.Log.Info("ready")
		var background sync.WaitGroup
		defer background.Wait()
		background.Go(func() { groups.Run(ctx) })
		background.Go(func() { completer.Run(ctx) })
		return ingester.Run(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	base.Log.Info("stopped")
	return nil
}

// both returns a probe for a dependency, such as the database. The probe returns the last error that the ingester had
// with the dependency in its own work. If there is none, it calls the given probe.
func both(probe func(context.Context) error, learnt func() error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := learnt(); err != nil {
			return err
		}
		return probe(ctx)
	}
}
