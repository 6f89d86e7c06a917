package postgres

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest"
	"github.com/dlq-manager/dlq-manager/pkg/search/engine"
)

// inPostgres is another name for the type Store. A struct that embedded the type as Store would have a field Store,
// which hides the method Store.
type inPostgres = Store

// engineStore is a store on PostgreSQL whose search index is in OpenSearch.
type engineStore struct {
	*inPostgres
	index      *engine.Indexer
	searches   *engine.Searches
	selections *engine.Selections
	engine     *engine.Engine
	client     *opensearch.Client

	address, prefix string
}

func (s *engineStore) AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
	return s.index.AcquireIndexerLease(ctx, owner, version, lease)
}

func (s *engineStore) SetIndexVersion(version int64) { s.index.SetIndexVersion(version) }

func (s *engineStore) Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	return s.index.Unindexed(ctx, version, limit, maxBytes, maxValue)
}

func (s *engineStore) StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error {
	return s.index.StoreDocuments(ctx, version, documents)
}

func (s *engineStore) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	return s.searches.Search(ctx, q)
}

func (s *engineStore) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	return s.searches.CountMatching(ctx, q)
}

func (s *engineStore) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	return s.searches.Export(ctx, q, yield)
}

func (s *engineStore) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	return s.selections.CreateRedrive(ctx, n)
}

func (s *engineStore) PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error) {
	return s.selections.PreviewRedrive(ctx, n)
}

func (s *engineStore) Overlaps(ctx context.Context, n repository.NewRedrive) ([]entity.Overlap, error) {
	return s.selections.Overlaps(ctx, n)
}

// openEngine returns an engineStore that keeps the search index of the given store on the OpenSearch node at the given
// address, in indexes that no other test uses.
func openEngine(t *testing.T, address string, store *Store) *engineStore {
	t.Helper()
	prefix := "t" + strings.ReplaceAll(uuid.NewString(), "-", "")
	t.Cleanup(func() {
		for _, path := range []string{"/" + prefix + "-*", "/_index_template/" + prefix + "-*"} {
			request := check.Must(http.NewRequestWithContext(context.Background(), http.MethodDelete, address+path, nil))(t)
			if answer, err := http.DefaultClient.Do(request); err == nil {
				_ = answer.Body.Close()
			}
		}
	})
	return engineOn(t, address, prefix, store)
}

func engineOn(t *testing.T, address, prefix string, store *Store) *engineStore {
	t.Helper()
	cfg := opensearch.DefaultConfig()
	cfg.URL, cfg.IndexPrefix, cfg.Timeout = []string{address}, prefix, time.Minute
	check.NoError(t, cfg.Validate())
	client := check.Must(opensearch.New(cfg))(t)
	e := engine.New(client, store, entity.MaskedFields{})
	return &engineStore{
		inPostgres: store, index: e.NewIndexer(engine.Stores{Index: store, Notes: store, Repairs: store}, client, prometheus.NewRegistry(), zap.NewNop()), searches: e.NewSearches(store),
		selections: e.NewSelections(store), engine: e, client: client, address: address, prefix: prefix,
	}
}

// request sends a request to OpenSearch, and returns the body of the answer. It fails the test when the answer is an
// error.
func (s *searched) request(method, path string, body ...string) string {
	s.Helper()
	request := check.Must(http.NewRequestWithContext(s.Context(), method, s.engine.address+path, strings.NewReader(strings.Join(body, ""))))(s)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	check.NoError(s, err)
	defer answer.Body.Close()
	text := string(check.Must(io.ReadAll(answer.Body))(s))
	check.Require(s, answer.StatusCode < 300, "%s %s: %s %s", method, path, answer.Status, text)
	return text
}

// indexes returns the names of the indexes that the store under test has in OpenSearch.
func (s *searched) indexes() []string {
	s.Helper()
	return strings.Fields(s.request(http.MethodGet, "/_cat/indices/"+s.engine.prefix+"-*?h=index&s=index"))
}

// TestSearchEngine tests what the contract says about the search index, with the index in OpenSearch.
func TestSearchEngine(t *testing.T) {
	t.Parallel()
	role := login(t, "dlq_rw")
	node := stacktest.OpenSearch(t)
	repositorytest.RunSearch(t, func(t *testing.T, clock *repositorytest.Clock) repositorytest.Fixture {
		at := postgrestest.URL(t)
		admin := check.Must(sqlx.Connect("postgres", at))(t)
		t.Cleanup(func() { _ = admin.Close() })
		cfg := configOf(t, at)
		cfg.User, cfg.Password, cfg.MaxOpenConns = role, "p", 12
		return repositorytest.Fixture{
			Repository: openEngine(t, node.Address, New(openConfig(t, cfg), WithClock(clock.Now))),
			Insert:     func(t *testing.T, m entity.Message) { insert(t, admin, m) },
			Archive:    func(t *testing.T, id uuid.UUID) { archive(t, admin, id) },
		}
	})
}
