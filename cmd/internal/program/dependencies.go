package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// OpenDatabase opens the pool without dialling.
func (b Base) OpenDatabase() (*sqlx.DB, error) { return postgres.Open(*b.Config.Database) }

// Database opens the pool and waits as WaitForDatabase does.
func (b Base) Database(ctx context.Context) (*sqlx.DB, error) {
	db, err := b.OpenDatabase()
	if err != nil {
		return nil, err
	}
	if err := b.WaitForDatabase(ctx, db); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// WaitForDatabase waits until the server answers, at most for the start-up
// timeout (the error then names it), and migrates when the configuration asks
// for it.
func (b Base) WaitForDatabase(ctx context.Context, db *sqlx.DB) error {
	if err := postgres.WaitReady(ctx, db, b.Config.Server.StartupTimeout); err != nil {
		return err
	}
	if b.Config.Database.AutoMigrate {
		return migrate.Up(ctx, db.DB)
	}
	return nil
}

// Store returns the store on db.
func (b Base) Store(db *sqlx.DB) *postgres.Store {
	return postgres.New(db,
		postgres.WithPayloadLimit(int(b.Config.Ingest.PayloadMaxBytes)),
		postgres.WithIdleConnections(b.Config.Database.MaxIdleConns))
}

// WaitForKafka waits until a broker answers, at most for the start-up timeout;
// the error then names the brokers.
func (b Base) WaitForKafka(ctx context.Context, cluster *broker.Cluster) error {
	limit, cancel := context.WithTimeout(ctx, b.Config.Server.StartupTimeout)
	defer cancel()
	var last error
	for {
		_, err := cluster.Topics(limit)
		if err == nil {
			return nil
		}
		if last == nil || limit.Err() == nil {
			last = err
		}
		if !pause(limit, 500*time.Millisecond) {
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("kafka at %s is not ready after %s: %w",
		strings.Join(b.Config.Kafka.Broker.Brokers, ","), b.Config.Server.StartupTimeout, last)
}

// CheckSchema answers readiness: the schema must be at least what this program
// was built for.
func CheckSchema(db *sqlx.DB) func(context.Context) error {
	return func(ctx context.Context) error { return migrate.Check(ctx, db.DB) }
}

// WaitForSchema returns once the schema is new enough; until then the program is
// up and unready, and says which version it wants.
func (b Base) WaitForSchema(ctx context.Context, db *sqlx.DB) error {
	for said := ""; ; {
		err := migrate.Check(ctx, db.DB)
		if err == nil {
			return nil
		}
		if text := err.Error(); text != said && !errors.Is(err, context.Canceled) {
			b.Log.Warn("waiting for the schema: " + text)
			said = text
		}
		if !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
