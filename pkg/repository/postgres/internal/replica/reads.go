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

// Reads are the reads of a store that a streaming replica of its database may answer. Their results are only
// shown; the store makes no decisions with them. The database itself answers reads whose context is not from
// repository.WithReading, and reads that the replica cannot answer.
type Reads struct {
	follower           *follower
	primary, secondary Readers // secondary reads from the replica
}

// Readers contains the statements of Reads, for the database or for its replica.
type Readers struct {
	*search.Searcher
	*search.Indexer
	*messages.Messages
	*insight.Groups
	*insight.Topics
	*insight.Activity
	*insight.Audit
}

// New returns Reads for a database and its replica. The parameter primary reads from the database itself. The replica
// is used while its data are not older than maxLag. Both use the index version that is set in scopes. The replica is
// used only while Run is running.
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

// Run finds out, until ctx ends, which changes the replica has.
func (r *Reads) Run(ctx context.Context) { r.follower.run(ctx) }

// WriteMark returns a mark for repository.WithReading: a read with this mark sees all changes that were made before the
// call.
func (r *Reads) WriteMark(ctx context.Context) (string, error) { return r.follower.writeMark(ctx) }

// CheckMark returns an error when the text cannot be a result of WriteMark.
func (r *Reads) CheckMark(mark string) error {
	_, err := parseLSN(mark)
	return err
}

// answer runs a read on the replica; when the replica may not answer the read or fails, it runs the read on the
// database.
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

// Export implements repository.Searcher. When the replica fails after an export has yielded a message, the export is
// not repeated on the database.
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
