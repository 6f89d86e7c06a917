// Package postgres is the store for production, in PostgreSQL. Each change of a message or a redrive is atomic, so a
// crash leaves no change half done. Open makes connections; migrations create the schema.
//
// Store joins the packages below internal, each of which contains the statements for one part of the contract:
//
//   - conn: connections, credentials, prepared statements, errors of the driver
//   - codec: arrays, headers and rows
//   - audit: what other statements write to the audit trail and read from it
//   - messages: claim, finish, read, change, archive
//   - ingest: incoming records, their returns, quarantine, payloads
//   - search: filters, scopes of topics, pages, counts, exports, the search index
//   - objects: the manifest of the archive's objects, and the moves of messages to objects and back
//   - redrives: selections, redrives, batches, results
//   - insight: error groups, topics, activity, audit trail, keys, notifications, mapping, redirects, runs of the archiver
//   - replica: reads that a streaming replica may answer
package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/objects"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/redrives"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/replica"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Store implements the repository in PostgreSQL. It is safe for concurrent use; callers wait for each other only by
// locks in the database.
type Store struct {
	db     *conn.DB
	scopes *search.Scopes

	*ingest.Ingester
	*ingest.Positions
	*ingest.Quarantine
	*ingest.Payloads
	*ingest.Shares
	*messages.Attempts
	*messages.Schedule
	*messages.Messages
	*messages.Outcomes
	*messages.AutoSends
	*messages.Archive
	*search.Searcher
	*search.Indexer
	*redrives.Lifecycle
	*redrives.Batches
	*redrives.Results
	*redrives.Bounds
	*audit.Operations
	*insight.Groups
	*insight.Topics
	*insight.Activity
	*insight.Audit
	*insight.Keys
	*insight.Notifications
	*insight.Mappings
	*insight.SavedViews
	*insight.RedirectStore
	*insight.Runs
	*insight.Bookkeeping
}

var (
	_ repository.Repository = (*Store)(nil)
	_ repository.Shares     = (*Store)(nil)
)

// Option changes how a Store works.
type Option func(*options)

type options struct {
	now          func() time.Time
	payloadMode  PayloadMode
	payloadLimit int
}

// WithClock replaces the database's clock, for tests. Programs use the database's clock, so that several processes
// cannot disagree about an expiry because of their clocks.
func WithClock(now func() time.Time) Option {
	return func(o *options) { o.now = now }
}

// PayloadMode says when the column payload of a message is filled; see WithPayload.
type PayloadMode = ingest.PayloadMode

// WithPayload sets when the column payload is filled, and the maximum size in bytes of a value that is copied to the
// column. When the maximum is 0, no value is copied. The default is ingest.PayloadBackground and
// ingest.DefaultPayloadLimit.
func WithPayload(mode PayloadMode, maxBytes int) Option {
	return func(o *options) { o.payloadMode, o.payloadLimit = mode, maxBytes }
}

// New returns a Store for a database whose schema has been migrated; Open returns such a db. The Store never closes db.
func New(db *sqlx.DB, with ...Option) *Store {
	o := options{payloadMode: ingest.PayloadBackground, payloadLimit: ingest.DefaultPayloadLimit}
	for _, change := range with {
		change(&o)
	}
	d := conn.New(db, o.now)
	reader := messages.New(d)
	archive := messages.NewArchive(d, reader)
	ingester := ingest.New(d, archive, o.payloadMode, o.payloadLimit)
	scopes := search.NewScopes(d)
	lifecycle := redrives.NewLifecycle(d, scopes)
	groups := insight.NewGroups(d)
	return &Store{
		db:            d,
		scopes:        scopes,
		Ingester:      ingester,
		Positions:     ingest.NewPositions(d),
		Quarantine:    ingest.NewQuarantine(d, ingester),
		Payloads:      ingest.NewPayloads(d),
		Shares:        ingest.NewShares(d, o.payloadMode, o.payloadLimit),
		Attempts:      messages.NewAttempts(d),
		Schedule:      messages.NewSchedule(d),
		Messages:      reader,
		Outcomes:      messages.NewOutcomes(d),
		AutoSends:     messages.NewAutoSends(d),
		Archive:       archive,
		Searcher:      search.New(d, scopes),
		Indexer:       search.NewIndexer(d, scopes, groups),
		Lifecycle:     lifecycle,
		Batches:       redrives.NewBatches(d, lifecycle),
		Results:       redrives.NewResults(d, lifecycle),
		Bounds:        redrives.NewBounds(d, lifecycle),
		Operations:    audit.New(d),
		Groups:        groups,
		Topics:        insight.NewTopics(d, scopes),
		Activity:      insight.NewActivity(d, lifecycle),
		Audit:         insight.NewAudit(d, groups),
		Keys:          insight.NewKeys(d),
		Notifications: insight.NewNotifications(d),
		Mappings:      insight.NewMappings(d),
		SavedViews:    insight.NewSavedViews(d),
		RedirectStore: insight.NewRedirectStore(d),
		Runs:          insight.NewRuns(d),
		Bookkeeping:   insight.NewBookkeeping(d),
	}
}

// Reads are those reads of a Store that a replica of its database may answer; see replica.Reads.
type Reads = replica.Reads

// NewReads returns Reads that read from the store's database or from its replica; the parameter at contains the
// settings of the replica, see Config.Replica. The replica is used while its data is not older than maxLag. The caller
// must run and close the Reads.
func (s *Store) NewReads(
	at Config, maxLag time.Duration, registry prometheus.Registerer, log *zap.Logger, with ...OpenOption,
) (*Reads, error) {
	primary := replica.Readers{
		Searcher: s.Searcher, Indexer: s.Indexer, Messages: s.Messages, Groups: s.Groups, Topics: s.Topics, Activity: s.Activity, Audit: s.Audit,
	}
	return replica.New(primary, s.db, s.scopes, at, maxLag, registry, log, with...)
}

// Ping returns nil when the database answers a query.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return conn.Translate("ping", s.db.Pool.GetContext(ctx, &one, "SELECT 1"))
}

// Config says where the database is, and how to sign in.
type Config = conn.Config

// DefaultConfig returns settings for a small pool without TLS. Host, Name and User have no default.
func DefaultConfig() Config { return conn.DefaultConfig() }

// OpenOption changes the connections of the pool that Open returns.
type OpenOption = conn.OpenOption

// WithTracing makes a span for each statement that belongs to a recorded trace; see conn.WithTracing.
func WithTracing(provider trace.TracerProvider) OpenOption { return conn.WithTracing(provider) }

// Open returns a pool of connections to the database. It opens no connection; see conn.Open.
func Open(cfg Config, with ...OpenOption) (*sqlx.DB, error) { return conn.Open(cfg, with...) }

// WaitReady tries to reach the database until it answers or the timeout has passed; see conn.WaitReady.
func WaitReady(ctx context.Context, db *sqlx.DB, timeout time.Duration) error {
	return conn.WaitReady(ctx, db, timeout)
}

// Sessions stores what replicas of the API share: the keys that sign cursors, and ended sessions.
type Sessions = insight.Sessions

// NewSessions returns Sessions that are stored in db, whose schema must have been migrated; Open returns such a db.
func NewSessions(db *sqlx.DB) *Sessions { return insight.NewSessions(db) }

// Drafts stores the contents of forms that the console shows again, for all replicas of the API.
type Drafts = insight.Drafts

// NewDrafts returns Drafts that are stored in db, whose schema must have been migrated; Open returns such a db. A draft
// can be read for the time in the parameter life.
func NewDrafts(db *sqlx.DB, life time.Duration) *Drafts { return insight.NewDrafts(db, life) }

// Objects reads and changes the manifest of the archive's objects.
type Objects struct {
	*objects.Mover
	*objects.Rewriter
	*objects.Reader
}

// NewObjects returns Objects that are stored in db, whose schema must have been migrated; Open returns such a db.
func NewObjects(db *sqlx.DB, with ...Option) *Objects {
	o := options{}
	for _, change := range with {
		change(&o)
	}
	d := conn.New(db, o.now)
	return &Objects{objects.NewMover(d), objects.NewRewriter(d), objects.NewReader(d, messages.New(d))}
}
