package main

import (
	"context"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

// parts are what the program is made of. Nothing of it has dialled yet when
// build returns.
type parts struct {
	base    program.Base
	db      *sqlx.DB        // nil: in memory
	cluster *broker.Cluster // nil: no Kafka
	service *redrive.Service

	publisher publisher
	server    *rest.Server
}

func build(base program.Base) (*parts, error) {
	p := &parts{base: base}
	store, err := p.buildStore()
	if err != nil {
		return nil, err
	}
	if p.publisher, err = p.buildPublisher(); err != nil {
		p.close()
		return nil, err
	}
	stackTrace, err := stackTraces(base.Config)
	if err != nil {
		p.close()
		return nil, err
	}
	cfg := base.Config
	p.service = redrive.New(cfg.Redrive, store, p.publisher, base.Registry, base.Log)
	p.server = rest.New(cfg.Server, store, p.service, p.checks(), base.Registry, base.Log,
		rest.WithStackTrace(stackTrace))
	base.Registry.MustRegister(newStateCollector(store))
	return p, nil
}

// stackTraces returns a reader of stack traces. They are in the headers already
// and are not stored a second time.
func stackTraces(cfg program.Config) (func(entity.Message) string, error) {
	kafka := cfg.Kafka
	if kafka == nil {
		kafka = program.DefaultConfig().Kafka
	}
	_, decoder, err := kafka.DeadLetters()
	if err != nil {
		return nil, err
	}
	return func(m entity.Message) string {
		return decoder.Decode(m.Source.Topic, m.Record, m.Source.Timestamp, nil).Failure.StackTrace
	}, nil
}

func (p *parts) buildStore() (repository.Repository, error) {
	if p.base.Config.Database == nil {
		p.base.Log.Warn("no database is configured: messages are kept in memory and lost at exit")
		return memory.New(time.Now), nil
	}
	db, err := p.base.OpenDatabase()
	if err != nil {
		return nil, err
	}
	p.db = db
	return p.base.Store(db), nil
}

// publisher sends records, and tells what became of them.
type publisher interface {
	redrive.Publisher
	redrive.Offsets
}

func (p *parts) buildPublisher() (publisher, error) {
	cfg := p.base.Config
	if !cfg.HasKafka() {
		settings := republisher.DefaultConfig()
		settings.RepublishRequired = new(cfg.RepublishRequired())
		p.base.Log.Warn("no kafka is configured: a retry resolves a message without sending anything")
		return republisher.NewDisabled(settings, p.base.Log), nil
	}
	patterns, _, err := cfg.Kafka.DeadLetters()
	if err != nil {
		return nil, err
	}
	if p.cluster, err = broker.Open(cfg.Kafka.Broker); err != nil {
		return nil, err
	}
	producer := p.cluster.NewProducer(broker.ProducerConfig{Timeout: cfg.Kafka.Republish.Timeout})
	return republisher.New(cfg.Kafka.Republish, patterns, p.cluster, producer)
}

// checks are what readiness tells. Kafka is shown and changes nothing: reading
// goes on without it, and a retry says itself that it cannot be made.
func (p *parts) checks() []rest.Check {
	database := rest.Check{Name: "database", Probe: alive, Passed: "in memory"}
	if p.db != nil {
		database = rest.Check{Name: "database", Probe: p.db.PingContext, Required: true}
	}
	checks := []rest.Check{database}
	if p.db != nil {
		checks = append(checks, program.SchemaCheck(p.db))
	}
	kafka := rest.Check{Name: "kafka", Probe: alive, Passed: "not configured"}
	if p.cluster != nil {
		kafka = rest.Check{Name: "kafka", Probe: p.cluster.Ping}
	}
	return append(checks, kafka)
}

func alive(context.Context) error { return nil }

// wait tries the dependencies for the start-up timeout, and then waits for the
// schema.
func (p *parts) wait(ctx context.Context) error {
	if err := p.base.WaitFor(ctx, p.db, p.cluster); err != nil || p.db == nil {
		return err
	}
	return p.base.WaitForSchema(ctx, p.db)
}

// workers do what nobody asks for by a request, until ctx ends; they return when
// nothing of theirs is under way.
func (p *parts) workers(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.service.RunSettler(ctx) })
	all.Go(func() { p.service.RunRedrives(ctx) })
	all.Go(func() { p.service.RunAuto(ctx) })
	all.Go(func() { p.service.RunOutcomes(ctx, p.publisher) })
	all.Wait()
}

func (p *parts) close() {
	if p.cluster != nil {
		_ = p.cluster.Close()
	}
	if p.db != nil {
		_ = p.db.Close()
	}
}
