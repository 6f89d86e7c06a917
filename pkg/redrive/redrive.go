// Package redrive sends dead letters back: one message (package attempt), many (bulk), or those that are due, without
// an operator (auto). It joins these packages and holds their settings.
package redrive

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/auto"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/outcomes"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Stores are the parts of a store that attempts and redrives use. The store in memory, which is used without a
// database, implements only the first three.
type Stores struct {
	Attempts   attempt.Store
	Redrives   bulk.Store
	Due        auto.Store
	Selections bulk.Selections   // nil: a redrive can only retry all messages of a topic
	Outcomes   outcomes.Store    // nil: committed offsets are not read
	Progress   bulk.Progress     // nil: redrives do not ask Kafka about consumer groups
	Redirects  attempt.Redirects // nil: no topic is redirected
	AutoSends  auto.Sends        // nil: automatic retry does not know which messages failed again
}

// Publisher writes the records of messages to their original topics, or to the topics that their edits or redirects
// name.
type Publisher = attempt.Publisher

// Offsets reads the committed offsets of consumer groups from Kafka.
type Offsets = outcomes.Offsets

// Groups asks Kafka about consumer groups.
type Groups = bulk.Groups

// Schemas decodes and encodes payloads that have a schema in a registry.
type Schemas = bulk.Schemas

// Archive finds, restores and erases archived messages.
type Archive = bulk.Archive

// Service makes attempts and runs redrives. It is safe for concurrent use, and many processes may share one store.
type Service struct {
	*attempt.Retrier // carries out operators' requests for single messages
	*bulk.Redrives   // carries out operators' requests for redrives
	settler          *attempt.Settler
	runner           *bulk.Runner
	auto             *auto.Retrier
	outcomes         *outcomes.Tracker
}

// options holds the values that the options of New set.
type options struct {
	attempt attempt.Options
	tracing trace.TracerProvider
	schemas Schemas
	masks   *payload.Masks
	archive bulk.Archive
	groups  bulk.Groups
	replay  bulk.ReplayRemoves
}

// Option changes what New returns.
type Option func(*options)

// WithTracing makes spans of redrives' batches, of automatic batches and of settled claims, but not of polls that find
// no work.
func WithTracing(provider trace.TracerProvider) Option {
	return func(o *options) { o.tracing = provider }
}

// WithTopicLabels sets how metrics label a topic; without this option metrics use the topic's name.
func WithTopicLabels(label func(topic string) string) Option {
	return func(o *options) { o.attempt.Label = label }
}

// WithOrigins sets how original topics are judged. Without this option every original topic counts as declared.
func WithOrigins(judge attempt.Judge) Option { return func(o *options) { o.attempt.Judge = judge } }

// WithSchemas sets the source that decodes and encodes payloads with the schemas of a registry. With nil, or without
// this option, no payload has a schema.
func WithSchemas(s Schemas) Option { return func(o *options) { o.schemas = s } }

// WithMasks sets what the patches of those keep who may not see what is masked; see entity.RedriveOptions.KeepsMasked.
// Without this option nothing is masked.
func WithMasks(m *payload.Masks) Option { return func(o *options) { o.masks = m } }

// WithArchive lets redrives select archived messages. Without this option they select live messages only.
func WithArchive(a Archive) Option { return func(o *options) { o.archive = a } }

// WithGroups lets redrives ask Kafka about the consumer groups of the topics to which they send. Without this option a
// redrive learns from RunOutcomes alone what was consumed, and waits for every consumer group that a message names.
func WithGroups(g Groups) Option { return func(o *options) { o.groups = g } }

// WithReplayRemoves lets previews name the headers that replays lose. Without this option they name none.
func WithReplayRemoves(f bulk.ReplayRemoves) Option { return func(o *options) { o.replay = f } }

// New returns a Service whose metrics are in registry. cfg must be valid.
func New(cfg Config, stores Stores, publisher Publisher, registry prometheus.Registerer, log *zap.Logger, change ...Option) *Service {
	var o options
	for _, c := range change {
		c(&o)
	}
	o.attempt.Tracer = traces.Tracer(o.tracing, "github.com/dlq-manager/dlq-manager/pkg/redrive")
	o.attempt.Redirects = stores.Redirects
	parts := attempt.New(attempt.Config{
		ClaimExpiry: cfg.ClaimExpiry, SettleInterval: cfg.SettleInterval, StuckAfter: cfg.StuckAfter,
		Backoff: cfg.Auto.RetryBackoff(),
	}, stores.Attempts, publisher, registry, log, o.attempt)
	s := &Service{
		Retrier: parts.Retrier, settler: parts.Settler,
		auto: auto.New(cfg.Auto, stores.Due, stores.AutoSends, parts, registry, log, o.attempt.Tracer),
	}
	if stores.Progress == nil {
		o.groups = nil
	}
	s.Redrives, s.runner = bulk.New(bulk.Config{
		Workers: cfg.Workers, ClaimExpiry: cfg.ClaimExpiry, Schemas: o.schemas, Masks: o.masks, Archive: o.archive, Groups: o.groups, Progress: stores.Progress,
		MetadataGrace: cfg.MetadataGrace, ReplayRemoves: o.replay,
	},
		stores.Redrives, stores.Selections, parts, registry, log, o.attempt.Tracer)
	s.outcomes = outcomes.New(outcomes.Config{Interval: cfg.OutcomeInterval, Rules: cfg.ConsumerGroups}, stores.Outcomes, log)
	return s
}

// RunSettler settles abandoned claims until ctx ends; see attempt.Settler.Run.
func (s *Service) RunSettler(ctx context.Context) { s.settler.Run(ctx) }

// Settle settles all expired claims once; see attempt.Settler.Settle.
func (s *Service) Settle(ctx context.Context) error { return s.settler.Settle(ctx) }

// RunRedrives works on active redrives until ctx ends; see bulk.Runner.Run.
func (s *Service) RunRedrives(ctx context.Context) { s.runner.Run(ctx) }

// RunAuto retries due messages automatically until ctx ends; see auto.Retrier.Run.
func (s *Service) RunAuto(ctx context.Context) { s.auto.Run(ctx) }

// RunOutcomes reads committed offsets until ctx ends; see outcomes.Tracker.Run.
func (s *Service) RunOutcomes(ctx context.Context, offsets Offsets) { s.outcomes.Run(ctx, offsets) }
