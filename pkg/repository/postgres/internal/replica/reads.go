package replica

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
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
	pools              []*sqlx.DB
	primary, secondary Readers // secondary reads from the replica
}

// New returns Reads that read from the database with primary, or from the replica at the address in at. They use the
// replica while its data is not older than maxLag. Searches of both servers use the index version of scopes. The caller
// must call Run.
func New(
	primary Readers, db *conn.DB, scopes *search.Scopes, at conn.Config, maxLag time.Duration,
	registry prometheus.Registerer, log *zap.Logger, options ...conn.OpenOption,
) (*Reads, error) {
	pool, err := conn.Open(at, options...)
	if err != nil {
		return nil, err
	}
	// The calls of follower.look get a pool with one connection, because reads may use all connections of the other
	// pool for a long time. The connection has a short lifetime, so that these calls reach each server when read_host
	// leads to several.
	at.MaxOpenConns, at.MaxIdleConns, at.ConnMaxLifetime = 1, 1, lookLifetime
	looks, err := conn.Open(at)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	replica := conn.New(pool, nil)
	scopes = scopes.On(replica)
	groups := insight.NewGroups(replica)
	return &Reads{
		follower: newFollower(db, conn.New(looks, nil), maxLag, registry, log),
		pools:    []*sqlx.DB{pool, looks},
		primary:  primary,
		secondary: Readers{
			search.New(replica, scopes), search.NewIndexer(replica, scopes, groups), messages.New(replica), groups,
			insight.NewTopics(replica, scopes), insight.NewActivity(replica, redrives.NewLifecycle(replica, scopes)), insight.NewAudit(replica, groups),
			true,
		},
	}, nil
}

// lookLifetime is the time after which the calls of follower.look use a new connection.
const lookLifetime = 10 * time.Second

// Close closes the connections to the replica.
func (r *Reads) Close() error {
	var errs []error
	for _, pool := range r.pools {
		errs = append(errs, pool.Close())
	}
	return errors.Join(errs...)
}

// Run finds out again and again, until ctx ends, how much of the database's log the replica has replayed.
func (r *Reads) Run(ctx context.Context) { r.follower.run(ctx) }

// WriteMark returns a mark for repository.WithReading: a read with this mark sees all changes that were made before the
// call.
func (r *Reads) WriteMark(ctx context.Context) (string, error) { return r.follower.writeMark(ctx) }

// CheckMark returns an error when the text cannot be a result of WriteMark.
func (r *Reads) CheckMark(mark string) error {
	_, err := conn.ParseLSN(mark)
	return err
}

// answer runs a read on the replica, or on the database when the replica may not answer it or fails.
func answer[T any](ctx context.Context, r *Reads, read func(context.Context, Readers) (T, error)) (found T, err error) {
	reading := repository.ReadingOf(ctx)
	bound, ok, err := r.follower.serves(ctx, reading)
	if err != nil {
		return found, err
	}
	if ok {
		if found, err = read(bound, r.secondary); err != nil {
			var none T
			if err := r.follower.failed(ctx, reading, err); err != nil {
				return none, err
			}
		} else if reading.TakeReplica() {
			r.follower.reads.WithLabelValues(byReplica).Inc()
			return found, nil
		}
	}
	return read(ctx, r.primary)
}

// Search implements repository.Searcher.
func (r *Reads) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) (repository.SearchPage, error) { return from.Search(ctx, q) })
}

// CountMatching implements repository.Searcher.
func (r *Reads) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) (repository.MatchCount, error) {
		return from.CountMatching(ctx, q)
	})
}

// Export implements repository.Searcher. When the replica ends an export, the database continues it after the last
// message, unless all messages must come from one snapshot.
func (r *Reads) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	e := export{query: q, yield: yield}
	_, err := answer(ctx, r, func(ctx context.Context, from Readers) (struct{}, error) {
		return struct{}{}, e.run(ctx, from)
	})
	if errors.Is(err, repository.ErrReadAgain) && e.yielded > 0 && !q.OneSnapshot {
		err = e.run(ctx, r.primary)
	}
	return cmp.Or(e.refused, err)
}

// IndexedUntil implements repository.SearchIndex.
func (r *Reads) IndexedUntil(ctx context.Context) (time.Time, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) (time.Time, error) { return from.IndexedUntil(ctx) })
}

// List implements repository.Reader.
func (r *Reads) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) (repository.List, error) { return from.List(ctx, topic, page) })
}

// ErrorGroups implements repository.Groups.
func (r *Reads) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) ([]repository.ListedGroup, error) {
		return from.ErrorGroups(ctx, q)
	})
}

// ErrorGroup implements repository.Groups.
func (r *Reads) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) (entity.ErrorGroup, error) {
		return from.ErrorGroup(ctx, id, visible, trend)
	})
}

// Arrivals implements repository.Activity.
func (r *Reads) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) (repository.Arrivals, error) { return from.Arrivals(ctx, q) })
}

// TopicSummaries implements repository.Topics.
func (r *Reads) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) ([]repository.TopicSummary, error) {
		return from.TopicSummaries(ctx, q)
	})
}

// Trail implements repository.Audit.
func (r *Reads) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	return answer(ctx, r, func(ctx context.Context, from Readers) ([]entity.AuditEntry, error) { return from.Trail(ctx, q) })
}
