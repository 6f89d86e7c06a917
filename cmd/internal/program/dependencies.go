package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// OpenDatabase opens the main connection pool of the program, without connecting, and registers the metrics of the
// pool.
func (b Base) OpenDatabase() (*sqlx.DB, error) {
	db, err := postgres.Open(*b.Config.Database, postgres.WithTracing(b.Tracing.Provider()))
	if err != nil {
		return nil, err
	}
	if err := b.watchPool(db); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// OpenKafka opens the program's only connections to Kafka, without connecting. If the connections need tokens to sign
// in, it logs one line when no token can be obtained any more, and one when tokens can be obtained again.
func (b Base) OpenKafka() (*broker.Cluster, error) {
	var tokens outage.Log
	return broker.Open(b.Config.Kafka.Broker, broker.WithTokenReport(func(err error) {
		tokens.Report(context.Background(), b.Log, err, "cannot get a token for kafka; connections go on until their token expires", "got a token for kafka")
	}))
}

// OpenReads opens the pools for the database's replica, without connecting and without metrics of the pools; nil when
// the configuration names no replica.
func (b Base) OpenReads(store *postgres.Store) (*postgres.Reads, error) {
	cfg := b.Config.Database
	if cfg.ReadHost == "" {
		return nil, nil //nolint:nilnil // no replica is no error
	}
	return store.NewReads(cfg.Replica(), cfg.ReadMaxLag, b.Registry, b.Log, postgres.WithTracing(b.Tracing.Provider()))
}

// openPatiently opens a pool without a read timeout, for statements in the background during which the server sends
// nothing for a long time.
func (b Base) openPatiently() (*sqlx.DB, error) {
	cfg := *b.Config.Database
	cfg.ReadTimeout = 0
	return postgres.Open(cfg)
}

// PatientDatabase opens a pool without a read timeout, waits for the server for at most the start-up timeout, and
// migrates the schema if the configuration says so.
func (b Base) PatientDatabase(ctx context.Context) (*sqlx.DB, error) {
	db, err := b.openPatiently()
	if err != nil {
		return nil, err
	}
	if err := b.WaitFor(ctx, db, nil); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// WaitFor waits until the database and Kafka answer, both within one start-up timeout, and then migrates if the
// configuration says so. It does not wait for a database or cluster that is nil. The error names each dependency that
// did not answer, the database first.
func (b Base) WaitFor(ctx context.Context, db *sqlx.DB, cluster *broker.Cluster) error {
	var both sync.WaitGroup
	var database, kafka error
	if db != nil {
		both.Go(func() { database = postgres.WaitReady(ctx, db, b.Config.Server.StartupTimeout) })
	}
	if cluster != nil {
		both.Go(func() { kafka = b.waitForKafka(ctx, cluster) })
	}
	both.Wait()
	if err := errors.Join(database, kafka); err != nil {
		return err
	}
	if db == nil || !b.Config.Database.AutoMigrate {
		return nil
	}
	return b.migrate(ctx)
}

func (b Base) migrate(ctx context.Context) error {
	db, err := b.openPatiently()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return migrate.Up(ctx, db.DB)
}

// Store returns a store in the database db, with the settings of the configuration.
func (b Base) Store(db *sqlx.DB) *postgres.Store {
	return postgres.New(db, postgres.WithPayload(postgres.PayloadMode(b.Config.Ingest.Payload), int(b.Config.Ingest.PayloadMaxBytes)))
}

// waitForKafka waits until a broker answers, for at most the start-up timeout. After that, the error names the brokers.
func (b Base) waitForKafka(ctx context.Context, cluster *broker.Cluster) error {
	timeout := b.Config.Server.StartupTimeout
	err := wait.Ready(ctx, timeout, 500*time.Millisecond, func(ctx context.Context) error {
		_, err := cluster.Topics(ctx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("kafka at %s is not ready after %s: %w", strings.Join(b.Config.Kafka.Broker.Brokers, ","), timeout, err)
	}
	return err
}

// SchemaCheck returns the readiness check of the schema, which must be at least the version that this program was built
// for. Any client may see the check's errors about versions, but not its errors of connections, because these contain
// names of hosts.
func SchemaCheck(db *sqlx.DB) rest.Check {
	return rest.Check{
		Name:     "schema",
		Probe:    func(ctx context.Context) error { return migrate.Check(ctx, db.DB) },
		Required: true,
		Public:   tellsVersion,
	}
}

func tellsVersion(err error) bool {
	switch err.(type) { //nolint:errorlint // an error that wraps one of these is not public
	case *migrate.VersionError, *migrate.DirtyError, *migrate.NumberingError:
		return true
	default:
		return false
	}
}

// WaitForSchema waits until the schema is new enough. During this time the program runs but is not ready, and the log
// says which version it needs. It returns an error at once when no migration can lead to the schema of this program.
func (b Base) WaitForSchema(ctx context.Context, db *sqlx.DB) error {
	for said := ""; ; {
		err := migrate.Check(ctx, db.DB)
		var numbering *migrate.NumberingError
		if err == nil || errors.As(err, &numbering) {
			return err
		}
		if text := err.Error(); text != said && !errors.Is(err, context.Canceled) {
			b.Log.Warn("waiting for the schema: " + text)
			said = text
		}
		if !wait.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}
