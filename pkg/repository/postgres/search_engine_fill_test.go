package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/search"
	"github.com/dlq-manager/dlq-manager/pkg/search/engine"
)

// flooded is a search index that finds a new message at every poll.
type flooded struct {
	*engine.Indexer
	store func()
	idle  int // number of polls that found no message
}

func (f *flooded) Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	f.store()
	messages, err := f.Indexer.Unindexed(ctx, version, 50, maxBytes, maxValue)
	if err == nil && len(messages) == 0 {
		f.idle++
	}
	return messages, err
}

// TestSearchEngine_IsFilledDuringIngest: while new messages arrive all the time, OpenSearch takes over from PostgreSQL, and
// a new version of the index from an old one, as soon as the messages that existed at the beginning are indexed, and not
// earlier.
func TestSearchEngine_IsFilledDuringIngest(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, rand.Uint64(), 400)
	for _, masks := range [][]string{nil, {"$.card"}} {
		began := postgrestest.Get[time.Time](t, s.db, `SELECT now()`)
		busy := &flooded{Indexer: s.engine.index, store: func() { insert(t, s.db, entity.NewMessage("orders", "one more", time.Now())) }}
		filled := func() bool {
			var found struct {
				Filled  bool
				Waiting int
			}
			check.NoError(t, s.db.Get(&found, `SELECT filled AND served_version IS NULL AND filling_since > $1 AS filled, (
					SELECT count(*) FROM (SELECT id, created_at FROM dlq.dlq_messages UNION ALL SELECT id, created_at FROM dlq.dlq_messages_archive) m
					WHERE m.created_at < $1 AND NOT EXISTS (SELECT FROM dlq.message_documents d WHERE d.message_id = m.id AND d.version = i.version)
				) AS waiting FROM dlq.search_index i`, began))
			check.Require(t, !found.Filled || found.Waiting == 0, "the filling ended while %d messages waited that existed when it began", found.Waiting)
			return found.Filled && len(s.aliases()) == 1
		}
		s.run(s.worker(busy, masks...), filled)
		check.Same(t, busy.idle, 0, "polls that found no message")
	}
}

// aliases returns the versions of which OpenSearch has indexes.
func (s *searched) aliases() map[string]bool {
	s.Helper()
	found := map[string]bool{}
	for _, name := range s.indexes() {
		found[name[:len(s.engine.prefix)+17]] = true
	}
	return found
}

// TestSearchEngine_AVersionThatComesBackBeginsEmpty: when another version of the documents replaces one and is replaced by it
// before it was filled, OpenSearch has no old document of the time before.
func TestSearchEngine_AVersionThatComesBackBeginsEmpty(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, 3, 40)
	s.index()
	mapped := postgrestest.Get[uuid.UUID](t, s.db, `SELECT id FROM dlq.dlq_messages WHERE original_topic = '' AND status = 'PENDING' LIMIT 1`)
	changed := check.Must(s.store.Change(t.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: []uuid.UUID{mapped}, OriginalTopic: "mapped", OverHeader: true,
	}, entity.By("alice")))(t)
	check.Same(t, len(changed), 1, "mapped messages")

	const other = 7
	short := engineOn(t, s.engine.address, s.engine.prefix, New(s.db))
	short.SetIndexVersion(other)
	check.True(t, check.Must(short.AcquireIndexerLease(t.Context(), uuid.New(), other, 0))(t), "the lease was not acquired")
	check.Must(short.Unindexed(t.Context(), other, 10, 1<<20, 1<<20))(t)
	check.Same(t, postgrestest.Get[int](t, s.db, `SELECT count(*) FROM dlq.search_changes`), 0, "changes that the other version does not have")

	s.index()
	s.wantAlike()
	f := entity.Filter{Topic: "mapped", Words: []string{"stock"}}
	found := check.Must(s.engine.Search(t.Context(), repository.SearchQuery{Filter: f, Limit: 10}))(t)
	check.Same(t, len(found.Messages), 1, "messages of the topic to which one was mapped")
}

// TestSearchEngine_FacetsFollowChanges: a facet never counts messages that do not match now, such as erased ones, and
// messages that are mapped to a topic that the caller may not see, although their documents in OpenSearch do.
func TestSearchEngine_FacetsFollowChanges(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, 4, 200)
	s.index()
	counter := search.NewFacetCounter(s.engine.searches, nil, nil)
	limit := postgrestest.Get[time.Time](t, s.db, `SELECT max(created_at) + interval '1 ms' FROM dlq.dlq_messages`)
	mine := check.Must(entity.ParseTopicPatterns("topics", "orders"))(t)
	same := func(what string, records engine.FacetCounter, key repository.FacetKey) {
		t.Helper()
		for _, f := range []entity.Filter{{}, {Visible: &mine}, {Topic: "mapped"}, {Words: []string{"stock"}}, {Words: []string{"stock"}, Topic: "orders"}} {
			f.CreatedBefore = limit
			q := repository.FacetQuery{Filter: f, By: []repository.FacetKey{key}, Limit: 100}
			want := check.Must(counter.Facets(t.Context(), q))(t)
			got := check.Must(s.engine.engine.NewFacets(records, s.store).Facets(t.Context(), q))(t)
			check.Same(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want), "%s: facet of the filter %+v", what, f)
		}
	}
	topic, value := repository.FacetKey{Field: repository.FacetTopic}, repository.FacetKey{Header: "kafka_dlt-header-3"}
	key := repository.FacetKey{Field: repository.FacetRecordKey}
	same("before the changes", refused{}, topic)

	one := func(where string) uuid.UUID {
		return postgrestest.Get[uuid.UUID](t, s.db, `SELECT id FROM dlq.dlq_messages WHERE `+where+` ORDER BY dlq_offset LIMIT 1`)
	}
	check.NoError(t, s.store.Delete(t.Context(), one(`original_topic = 'orders' AND status = 'DEAD'`), entity.By("alice")))
	archive(t, s.db, one(`original_topic = 'orders' AND status = 'RESOLVED'`))
	same("with messages that are gone", refused{}, topic)
	same("with messages that are gone", refused{}, key)

	exec(t, s.db, `UPDATE dlq.dlq_messages SET original_topic = 'mapped' WHERE id = $1`, one(`original_topic = 'orders'`))
	same("with a mapped message", refused{}, key)
	same("with a mapped message", refused{}, value)
	same("with a mapped message", counter, topic)

	exec(t, s.db, `INSERT INTO dlq.search_changes (message_id) SELECT gen_random_uuid() FROM generate_series(1, 1001)`)
	same("with more changes than a query names", counter, key)
}

// TestSearchEngine_FacetsSayUntilWhen: a facet names the time until which messages are indexed, and does not claim to
// have counted later ones. When the index is late, messages are read.
func TestSearchEngine_FacetsSayUntilWhen(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, 5, 20)
	s.index()
	until := check.Must(s.store.IndexedUntil(t.Context()))(t)
	late := entity.NewMessage("orders", "stock is late", until.Add(time.Millisecond))
	insert(t, s.db, late)
	q := repository.FacetQuery{By: []repository.FacetKey{{Field: repository.FacetTopic}}, Limit: 10}
	found := check.Must(s.engine.engine.NewFacets(refused{}, s.store).Facets(t.Context(), q))(t)
	check.True(t, found.Counted == 18 && found.All && !found.Before.IsZero() && !found.Before.After(late.CreatedAt), "got %+v, want 18 messages until %s", found, until)

	exec(t, s.db, `UPDATE dlq.search_index SET found_until = now() - interval '2 minutes'`)
	read := search.NewFacetCounter(s.engine.searches, nil, nil)
	found = check.Must(s.engine.engine.NewFacets(read, s.store).Facets(t.Context(), q))(t)
	check.True(t, found.Counted == 19 && found.Before.IsZero(), "got %+v, want all 19 messages", found)
}

// TestSearchEngine_EstimatesCountWhatMatches: an estimate does not count documents without the field of the filter, and
// documents that lack it because it is masked are not counted without the store.
func TestSearchEngine_EstimatesCountWhatMatches(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, 6, 50)
	exec(t, s.db, `UPDATE dlq.dlq_messages SET error_class = NULL WHERE dlq_offset % 2 = 0`)
	s.index()
	q := repository.CountQuery{Filter: entity.Filter{ErrorClass: "E1", Words: []string{"stock"}}, How: repository.CountEstimate}
	count := check.Must(s.engine.CountMatching(t.Context(), q))(t)
	check.Same(t, count, repository.MatchCount{Messages: 5}, "estimate")
	masked := engine.New(s.engine.client, s.store, entity.MaskedFields{ErrorClass: true}).NewSearches(s.store)
	count = check.Must(masked.CountMatching(t.Context(), q))(t)
	check.Same(t, count, repository.MatchCount{Messages: 5, Exact: true}, "count of a masked field")
}
