package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/heartbeat"
	"github.com/dlq-manager/dlq-manager/pkg/notify"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
	"github.com/dlq-manager/dlq-manager/pkg/schema"
	"github.com/dlq-manager/dlq-manager/pkg/search"
	"github.com/dlq-manager/dlq-manager/pkg/sharegroup"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// parts holds the components of the program. The components open no connection before build has returned.
type parts struct {
	base    program.Base
	db      *sqlx.DB        // nil when the store is in memory
	reads   *postgres.Reads // nil when no replica is configured
	cluster *broker.Cluster // nil without Kafka
	labels  *telemetry.TopicLabels
	topics  *topics             // nil without Kafka
	shares  *sharegroup.Watcher // nil without Kafka
	service *redrive.Service
	heart   *heartbeat.Heart // nil when no heartbeats are sent

	bucket tier.Bucket // nil when no object store is used

	// The next four fields are nil without a database.
	search *searching
	finder *search.Worker
	filler *search.PayloadFiller
	teller *notify.Notifier

	publisher publisher
	server    *rest.Server

	authenticator auth.Authenticator
	sessions      *auth.Sessions
	signer        *auth.Signer
}

func build(base program.Base) (*parts, error) {
	p := &parts{base: base, labels: telemetry.NewTopicLabels()}
	store, err := p.buildStore()
	if err != nil {
		return nil, err
	}
	if p.publisher, err = p.buildPublisher(); err != nil {
		p.close()
		return nil, err
	}
	if err := p.buildServer(store); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) buildServer(store repository.Core) error {
	base, cfg := p.base, p.base.Config
	decoder, err := p.decoder()
	if err != nil {
		return err
	}
	masks, err := payload.NewMasks(cfg.Masking)
	if err != nil {
		return err
	}
	maker, err := fingerprint.New(cfg.Groups)
	if err != nil {
		return err
	}
	if err := p.buildAuth(); err != nil {
		return err
	}
	with, err := buildSchemas(cfg.Schemas, masks, base)
	if err != nil {
		return err
	}
	derived := decoder.Masking(masks)
	mapping := noMapping
	if full, ok := store.(*postgres.Store); ok {
		mapping = full.Mapping
		failure := func(m entity.Message) (class, message, stack string) {
			return m.Failure.Class, m.ErrorMessage, decoder.StackTraceOf(m)
		}
		if p.search, err = p.buildSearching(full, derived.Fields()); err != nil {
			return err
		}
		p.finder = search.New(cfg.Search, p.search.index, failure, maker, masks, derived.Of, base.Registry, base.Log, p.search.options(with)...)
		with.rest = append(with.rest, p.search.facets(search.NewFacetCounter(p.search.facet, with.index, masks), full))
		if err := p.buildReports(full, heartbeats(cfg.Heartbeat, maker), derived.Fields().Group(), derived.Fields().ConsumerGroup); err != nil {
			return err
		}
	}
	judge, err := newJudge(cfg, decoder, p.declaration(), mapping)
	if err != nil {
		return err
	}
	warnUndeclaredAuto(cfg, base.Log)
	stores, redrives := restStores(store, p.reads), redriveStores(store)
	if full, ok := store.(*postgres.Store); ok {
		p.search.use(&stores, &redrives, full)
	}
	archived, err := p.useTier(&stores, store)
	if err != nil {
		return err
	}
	var groups redrive.Groups // nil: without Kafka there are no consumer groups
	if p.cluster != nil {
		groups = p.publisher
	}
	p.service = redrive.New(cfg.Redrive, redrives, p.publisher, base.Registry, base.Log, redrive.WithTracing(base.Tracing.Provider()),
		redrive.WithTopicLabels(p.labels.Label), redrive.WithOrigins(judge.Standing), redrive.WithSchemas(with.redrive), redrive.WithMasks(masks),
		redrive.WithArchive(archived), redrive.WithGroups(groups), redrive.WithReplayRemoves(decoder.ReplayRemoves))
	options := []rest.Option{
		rest.WithDialects(decoder), rest.WithFetcher(p.publisher), rest.WithInspector(p.publisher), rest.WithTargets(p.publisher),
		rest.WithMasks(masks), rest.WithDerivedMasks(derived), rest.WithOrigins(judge),
		rest.WithAuth(p.authenticator, cfg.Auth.Mode), rest.WithSigner(p.signer), rest.WithTracing(base.Tracing.Provider()),
	}
	options = append(options, with.rest...)
	if p.reads != nil {
		options = append(options, rest.WithReplica(p.reads))
	}
	if p.topics != nil {
		options = append(options, rest.WithTopics(p.topics), rest.WithShareGroups(shareGroups{p.shares}))
	}
	p.server = rest.New(cfg.Server, stores, p.service, p.checks(), base.Registry, base.Log, options...)
	base.Registry.MustRegister(newAuthDisabled(cfg.Auth.Mode))
	p.buildHeart(store)
	return p.mountConsole()
}

// decoding contains what the search index, redrives and the REST server need to decode records with their schemas. It
// is zero when no schema registry is configured.
type decoding struct {
	index   search.Schemas
	redrive redrive.Schemas
	rest    []rest.Option
}

func buildSchemas(cfg schema.Config, masks *payload.Masks, base program.Base) (decoding, error) {
	decoder, err := schema.New(cfg, base.Registry)
	if err != nil || decoder == nil {
		return decoding{}, err
	}
	decoder.WatchMasks(masks, base.Registry, base.Log)
	return decoding{decoder, decoder, []rest.Option{rest.WithSchemas(decoder)}}, nil
}

// buildReports creates the collectors of metrics, the notifier and the filler of payloads, which all read from the
// database. The parameter masked says whether the texts of error groups are masked, and maskedConsumers whether the
// names of consumer groups are masked.
func (p *parts) buildReports(store *postgres.Store, quiet notify.Quiet, masked, maskedConsumers bool) error {
	base := p.base
	p.filler = search.NewPayloadFiller(base.Config.Search, store, base.Registry, base.Log)
	base.Registry.MustRegister(newStateCollector(store, p.labels), newGroupsCollector(store, quiet.Groups, base.Log),
		newArchiveCollector(store, base.Log))
	if p.shares != nil {
		base.Registry.MustRegister(newSharesCollector(store, p.shares.Snapshot, p.cluster, p.labels, maskedConsumers, base.Log))
	}
	var err error
	p.teller, err = notify.New(base.Config.Notify, store, base.Registry, base.Log, notify.WithQuiet(quiet), notify.WithMaskedGroups(masked))
	return err
}

// decoder returns a decoder with the same configuration as that of the ingester. Without a kafka section, it returns
// the default decoder.
func (p *parts) decoder() (*deadletter.Decoder, error) {
	kafka := p.base.Config.Kafka
	if kafka == nil {
		kafka = program.DefaultConfig().Kafka
	}
	_, decoder, err := kafka.DeadLetters(p.reserved())
	return decoder, err
}

func (p *parts) buildStore() (repository.Core, error) {
	if p.base.Config.Database == nil {
		p.base.Log.Warn("no database is configured: messages are kept in memory and lost at exit")
		return memory.New(time.Now), nil
	}
	db, err := p.base.OpenDatabase()
	if err != nil {
		return nil, err
	}
	p.db = db
	store := p.base.Store(db)
	if p.reads, err = p.base.OpenReads(store); err != nil {
		p.close()
		return nil, err
	}
	return store, nil
}

// reserved returns a function that reports whether a topic is for dead letters of share groups; nil without Kafka.
func (p *parts) reserved() func(topic string) bool {
	if p.shares == nil {
		return nil
	}
	return p.shares.IsReserved
}

// declaration returns a function that reports whether the share groups of a dead-letter topic declare an original
// topic, which means that they read it; nil without Kafka.
func (p *parts) declaration() func(dlqTopic, original string) entity.Declaration {
	if p.shares == nil {
		return nil
	}
	return p.shares.Declaration
}

// publisher sends records, reports their outcomes, and describes the topics of the cluster.
type publisher interface {
	redrive.Publisher
	redrive.Groups
	rest.Fetcher
	rest.Inspector
	rest.Targets
}

func (p *parts) buildPublisher() (publisher, error) {
	cfg := p.base.Config
	if !cfg.HasKafka() {
		settings := republisher.DefaultConfig()
		settings.RepublishRequired = new(cfg.RepublishRequired())
		p.labels.SetAny()
		p.base.Log.Warn("no kafka is configured: a retry resolves a message without sending anything")
		return republisher.NewDisabled(settings, p.base.Log), nil
	}
	var err error
	if p.cluster, err = p.base.OpenKafka(); err != nil {
		return nil, err
	}
	shareTopics, err := cfg.Kafka.DeadLetter.ShareTopics()
	if err != nil {
		return nil, err
	}
	p.shares = sharegroup.NewWatcher(p.cluster, shareTopics, p.base.Log)
	patterns, decoder, err := cfg.Kafka.DeadLetters(p.shares.IsReserved)
	if err != nil {
		return nil, err
	}
	p.topics = newTopics()
	producer := p.cluster.NewProducer(broker.ProducerConfig{Timeout: cfg.Kafka.Republish.Timeout})
	pointers, err := cfg.Kafka.DeadLetter.Pointers()
	if err != nil {
		return nil, err
	}
	made, err := republisher.New(cfg.Kafka.Republish, patterns.Or(p.shares.IsReserved), p.cluster, producer,
		republisher.WithDecoder(decoder), republisher.WithPointers(pointers.Or(p.shares.IsDeadLetterTopic)),
		republisher.WithShareGroups(p.shares.IsShareGroup), republisher.WithTracing(p.base.Tracing.Provider()))
	if err == nil {
		p.topics.inspector = made
	}
	return made, err
}

// checks returns the readiness checks. The checks show the state of Kafka, but Kafka never makes the API unready: reads
// work without it, and a retry that cannot be sent returns an error.
func (p *parts) checks() []rest.Check {
	database := rest.Check{Name: "database", Probe: alive, Passed: "in memory"}
	if p.db != nil {
		database = rest.Check{Name: "database", Probe: p.db.PingContext, Required: true}
	}
	checks := []rest.Check{database}
	if p.db != nil {
		checks = append(checks, program.SchemaCheck(p.db))
	}
	checks = append(append(checks, p.bucketCheck()...), p.search.checks()...)
	if p.cluster == nil {
		return append(checks, rest.Check{Name: "kafka", Probe: alive, Passed: "not configured"})
	}
	return append(checks, rest.Check{Name: "kafka", Probe: p.cluster.Ping}, rest.Check{
		Name: "ingester", Public: func(error) bool { return true },
		Probe: func(ctx context.Context) error {
			group := p.base.Config.Kafka.ConsumerGroup
			states, err := p.cluster.GroupStates(ctx)
			// the consumer group does not exist, or Kafka does not let the API's user describe it
			if err == nil && states[group] == "" {
				err = p.cluster.CheckDescribe(ctx, group)
			}
			return ingesterFault(states, err, group)
		},
	})
}

var (
	errNoIngester      = errors.New("not running")
	errUnknownIngester = errors.New("not known")
)

// ingesterFault returns an error when the states of consumer groups show that no ingester runs, or when the states
// could not be read. The texts of these errors are public: GET /readyz shows them to any client.
func ingesterFault(states map[string]string, err error, group string) error {
	if err != nil {
		return errUnknownIngester
	}
	switch states[group] {
	case "", "Empty", "Dead":
		return errNoIngester
	default:
		return nil
	}
}

func alive(context.Context) error { return nil }

// wait waits for the dependencies, for at most the start-up timeout. With a database, it then waits for the schema and
// the signing keys, without a limit.
func (p *parts) wait(ctx context.Context) error {
	if err := p.base.WaitFor(ctx, p.db, p.cluster); err != nil || p.db == nil {
		return err
	}
	if err := p.base.WaitForSchema(ctx, p.db); err != nil {
		return err
	}
	return p.shareSigningKeys(ctx)
}

// workers runs all background work until ctx ends, and returns when this work has stopped.
func (p *parts) workers(ctx context.Context) {
	var all sync.WaitGroup
	if p.cluster != nil {
		all.Go(func() { p.shares.Run(ctx) })
		all.Go(func() { p.topics.watch(ctx, p.cluster, p.labels.SetTopics) })
	}
	all.Go(func() { p.service.RunSettler(ctx) })
	all.Go(func() { p.service.RunRedrives(ctx) })
	all.Go(func() { p.service.RunAuto(ctx) })
	all.Go(func() { p.service.RunOutcomes(ctx, p.publisher) })
	if p.db != nil {
		all.Go(func() { p.finder.Run(ctx) })
		all.Go(func() { p.filler.Run(ctx) })
		all.Go(func() { p.teller.Run(ctx) })
	}
	if p.reads != nil {
		all.Go(func() { p.reads.Run(ctx) })
	}
	if p.heart != nil {
		all.Go(func() { p.heart.Run(ctx) })
	}
	all.Wait()
}

func (p *parts) close() {
	if p.cluster != nil {
		_ = p.cluster.Close()
	}
	if p.db != nil {
		_ = p.db.Close()
	}
	if p.reads != nil {
		_ = p.reads.Close()
	}
}
