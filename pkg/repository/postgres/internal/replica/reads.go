package replica

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/redrives"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Reads are those reads of a store that a streaming replica of its database may answer. Nothing is decided by what they
// return. Contexts without repository.WithReading read from the database itself, and so does a read that the replica
// cannot answer.
type Reads struct {
	follower           *follower
	primary, secondary Readers // secondary reads from the replica
}

// Readers have the statements of Reads.
type Readers struct {
	*search.Searcher
	*search.Indexer
	*messages.Messages
	*insight.Groups
	*insight.Topics
	*insight.Activity
	*insight.Audit
}

// New returns the Reads of a database, whose own reads are in primary, and of its replica, which is used while its data
// is not older than maxLag. Both use the index version of scopes. Run must run.
func New(
	primary Readers, db, replica *conn.DB, scopes *search.Scopes, maxLag time.Duration, registry prometheus.Registerer, log *zap.Logger,
) *Reads {
	scopes = scopes.On(replica)
	groups := insight.NewGroups(replica)
	return &Reads{
		follower: newFollower(db, replica, maxLag, registry, log),
		primary:  primary,
		secondary: Readers{
			search.New(replica, scopes), search.NewIndexer(replica, scopes, groups), messages.New(replica), groups,
			insight.NewTopics(replica, scopes), insight.NewActivity(replica, redrives.NewLifecycle(replica, scopes)), insight.NewAudit(replica, groups),
		},
	}
}

// Run follows the replica until ctx ends.
func (r *Reads) Run(ctx context.Context) { r.follower.run(ctx) }

// WriteMark returns a mark for repository.WithReading: a read with this mark sees all changes that were made before the
// call.
func (r *Reads) WriteMark(ctx context.Context) (string, error) { return r.follower.writeMark(ctx) }

// CheckMark returns an error for a text that WriteMark does not return.
func (r *Reads) CheckMark(mark string) error {
	_, err := parseLSN(mark)
	return err
}

// answer runs a read on the replica, or on the database when the replica may not answer it or fails.
func answer[T any](ctx context.Context, r *Reads, read func(Readers) (T, error)) (T, error) {
	reading := repository.ReadingOf(ctx)
	if !r.follower.serves(ctx, reading) {
		return read(r.primary)
	}
	found, err := read(r.secondary)
	if r.follower.answered(ctx, reading, err) {
		return read(r.primary)
	}
	return found, err
}

// Search implements repository.Searcher.
func (r *Reads) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	return answer(ctx, r, func(from Readers) (repository.SearchPage, error) { return from.Search(ctx, q) })
}

// CountMatching implements repository.Searcher.
func (r *Reads) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	return answer(ctx, r, func(from Readers) (repository.MatchCount, error) { return from.CountMatching(ctx, q) })
}

// Export implements repository.Searcher. The database does not repeat an export that has yielded a message.
func (r *Reads) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	begun := false
	var broken error
	_, err := answer(ctx, r, func(from Readers) (struct{}, error) {
		err := from.Export(ctx, q, func(m *entity.Message) error { begun = true; return yield(m) })
		if begun {
			broken, err = err, nil
		}
		return struct{}{}, err
	})
	return cmp.Or(broken, err)
}

// IndexedUntil implements repository.SearchIndex.
func (r *Reads) IndexedUntil(ctx context.Context) (time.Time, error) {
	return answer(ctx, r, func(from Readers) (time.Time, error) { return from.IndexedUntil(ctx) })
}

// List implements repository.Reader.
func (r *Reads) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	return answer(ctx, r, func(from Readers) (repository.List, error) { return from.List(ctx, topic, page) })
}

// ErrorGroups implements repository.Groups.
func (r *Reads) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	return answer(ctx, r, func(from Readers) ([]repository.ListedGroup, error) { return from.ErrorGroups(ctx, q) })
}

// ErrorGroup implements repository.Groups.
func (r *Reads) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	return answer(ctx, r, func(from Readers) (entity.ErrorGroup, error) { return from.ErrorGroup(ctx, id, visible, trend) })
}

// Arrivals implements repository.Activity.
func (r *Reads) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	return answer(ctx, r, func(from Readers) (repository.Arrivals, error) { return from.Arrivals(ctx, q) })
}

// TopicSummaries implements repository.Topics.
func (r *Reads) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	return answer(ctx, r, func(from Readers) ([]repository.TopicSummary, error) { return from.TopicSummaries(ctx, q) })
}

// Trail implements repository.Audit.
func (r *Reads) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	return answer(ctx, r, func(from Readers) ([]entity.AuditEntry, error) { return from.Trail(ctx, q) })
}
