package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/search"
)

// searched is a database with messages whose search index is, or will be, in OpenSearch.
type searched struct {
	*testing.T
	db     *sqlx.DB
	store  *Store
	engine *engineStore
	random *rand.Rand
	group  uuid.UUID
}

// searchedOrders stores random messages of two days, some of them archived. A quarter of the messages has no original
// topic; the others are of three topics.
func searchedOrders(t *testing.T, address string, seed uint64, messages int) *searched {
	t.Helper()
	s := &searched{T: t, db: postgrestest.Open(t), random: rand.New(rand.NewPCG(seed, 30)), group: uuid.New()}
	s.store = New(s.db)
	s.engine = openEngine(t, address, s.store)
	storeOrders(t, s.store, messages, func(int) any { return randomOrder(s.random) })
	exec(t, s.db, fmt.Sprintf(`UPDATE dlq.dlq_messages SET original_topic = (ARRAY['orders', 'orders.eu', 'payments', ''])[1 + dlq_offset %% 4],
		status = (ARRAY['PENDING', 'DEAD', 'RESOLVED'])[1 + dlq_offset %% 3], error_class = 'E' || dlq_offset %% 5,
		group_id = CASE WHEN dlq_offset %% 2 = 0 THEN '%s'::uuid ELSE gen_random_uuid() END,
		created_at = created_at - dlq_offset %% 2 * interval '1 day', error_message = 'stock service ' || dlq_offset %% 7 || ' is "down"'`, s.group))
	for _, id := range postgrestest.All[uuid.UUID](t, s.db, `SELECT id FROM dlq.dlq_messages WHERE dlq_offset % 10 = 9`) {
		archive(t, s.db, id)
	}
	return s
}

// worker returns an indexer that fills the given search index. The indexer leaves the values at the paths in masks out
// of documents.
func (s *searched) worker(index search.Store, masks ...string) *search.Worker {
	s.Helper()
	cfg := search.DefaultConfig()
	cfg.Batch, cfg.Interval = 400, 10*time.Millisecond
	rules := check.Must(payload.NewMasks(payload.MaskConfig{Payload: masks}))(s)
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(s)
	failure := func(m entity.Message) (class, message, stack string) { return m.Failure.Class, m.ErrorMessage, "" }
	hidden := func(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }
	return search.New(cfg, index, failure, maker, rules, hidden, prometheus.NewRegistry(), zap.NewNop(), search.WithFields())
}

// run runs the indexer w until the function done returns true. It fails the test after two minutes.
func (s *searched) run(w *search.Worker, done func() bool) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	until(s.T, "the worker is done", done)
}

// pick returns the number short, or the number long when the environment variable DLQ_TEST_LONG is 1.
func pick(short, long int) int {
	if os.Getenv("DLQ_TEST_LONG") == "1" {
		return long
	}
	return short
}

// until calls the function done every 20 ms until done returns true. It fails the test after two minutes.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// index runs an indexer until OpenSearch has a document for every message, has all changes of messages, and answers the
// searches.
func (s *searched) index(masks ...string) {
	s.Helper()
	w := s.worker(s.engine.index, masks...)
	before := check.Must(s.store.NextWrite(s.Context()))(s)
	s.run(w, func() bool { // the worker has made a step, nothing is left, and facets count all messages
		return s.complete() && postgrestest.Get[bool](s.T, s.db, `SELECT (SELECT last_value FROM dlq.search_writes) > $1
			AND coalesce(found_until > (SELECT max(created_at) + interval '2 ms' FROM dlq.dlq_messages), false) FROM dlq.search_index`, before)
	})
}

func (s *searched) complete() bool {
	return postgrestest.Get[bool](s.T, s.db, `SELECT engine = 'opensearch' AND served_version IS NULL AND NOT EXISTS (SELECT FROM dlq.search_changes)
		AND (SELECT count(*) FROM dlq.message_documents d WHERE d.version = i.version)
			= (SELECT count(*) FROM dlq.dlq_messages) + (SELECT count(*) FROM dlq.dlq_messages_archive) FROM dlq.search_index i`)
}

// wantAlike checks that OpenSearch has exactly the documents that it should have according to the database, by
// comparing the sums of short ranges, which together have all documents.
func (s *searched) wantAlike() {
	s.Helper()
	all := check.Must(s.store.EngineSum(s.Context(), s.version(), repository.EngineRange{}))(s).Documents
	for r := check.Must(s.store.EngineRange(s.Context(), time.Time{}, 10))(s); ; r = check.Must(s.store.EngineRange(s.Context(), r.From, 10))(s) {
		want := check.Must(s.store.EngineSum(s.Context(), s.version(), r))(s)
		have := check.Must(s.engine.client.Sum(s.Context(), s.version(), r))(s)
		check.Same(s, have, want, "documents of the range %v", r)
		if all -= want.Documents; r.From.IsZero() {
			check.Same(s, all, 0, "documents of no range")
			return
		}
	}
}

// version returns the version of the documents in OpenSearch.
func (s *searched) version() int64 {
	s.Helper()
	return check.Must(s.store.EngineState(s.Context()))(s).Version
}

// filter returns a random filter with a condition that needs the search index.
func (s *searched) filter(conditions ...int) entity.Filter {
	pick := func(values ...string) string { return values[s.random.IntN(len(values))] }
	patterns := func(list ...string) entity.TopicPatterns {
		return check.Must(entity.ParseTopicPatterns("topics", list...))(s)
	}
	var f entity.Filter
	set := []func(){
		func() {
			f.Words = append(f.Words, pick("stock", `"down"`, "service 3", "1.14.2", "c-", "STOCK", "no such word"))
		},
		func() {
			f.Fields = []entity.FieldMatch{{Path: "$.build", Values: payload.ParseScalars(pick("1.14.1", "1.14.2"))}}
		},
		func() { f.Fields = append(f.Fields, entity.FieldMatch{Path: pick("$.customer", "$.items[*].sku")}) },
		func() { f.Key = []byte(pick("order-1", "order-22", "order-77")) },
		func() { f.Headers = []entity.HeaderMatch{{Name: "kafka_dlt-header-1"}} },
		func() { f.Statuses = []entity.Status{entity.Status(pick("PENDING", "DEAD")), entity.Resolved} },
		func() { f.Topic = pick("orders", "orders.dlq.v1", "payments", "unknown") },
		func() { f.Topics = patterns(pick("orders*", "pay*", "^o.*$")) },
		func() { f.ErrorClass = pick("E1", "E3", "E9") },
		func() { f.Group = s.group },
		func() { f.UnknownOrigin = true },
		func() { f.CreatedAfter = time.Now().Add(-time.Duration(s.random.IntN(48)) * time.Hour) },
		func() { f.CreatedBefore = time.Now().Add(-time.Duration(s.random.IntN(36)) * time.Hour) },
		func() { p := patterns(pick("orders*", "payments", "*", "none")); f.Visible = &p },
		func() { f.Dialect = "spring-dlt" },
	}
	set[s.random.IntN(5)]()
	for range s.random.IntN(4) {
		if at := s.random.IntN(len(set)); len(conditions) == 0 || slices.Contains(conditions, at) {
			set[at]()
		}
	}
	return f
}

type searcher interface {
	repository.Searcher
	PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error)
}

// answers returns, as one text, what the given store answers for the filter f: the list of messages read page by page,
// the export, the count, and the preview of a redrive.
func (s *searched) answers(store searcher, f entity.Filter, archived, ascending bool, page int) string {
	s.Helper()
	q := repository.SearchQuery{Filter: f, Archived: archived, Sort: repository.Sort{Ascending: ascending}, Limit: page, NoValues: page%2 == 0}
	var listed []string
	var exported []uuid.UUID
	for more := true; more; {
		found := check.Must(store.Search(s.Context(), q))(s)
		for _, m := range found.Messages {
			listed = append(listed, fmt.Sprint(m.ID, m.Record.State, len(m.Record.Value)))
		}
		switch {
		case found.Next != repository.Cursor{}:
			q.After = found.Next
		case len(found.Messages) == page:
			last := found.Messages[page-1]
			q.After = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		default:
			more = false
		}
	}
	check.NoError(s, store.Export(s.Context(), repository.ExportQuery{Filter: f, Archived: archived, Limit: 10_000, Parts: &repository.RecordParts{}},
		func(m *entity.Message) error { exported = append(exported, m.ID); return nil }))
	count := check.Must(store.CountMatching(s.Context(), repository.CountQuery{Filter: f, Archived: archived, How: repository.CountExact}))(s)
	preview := check.Must(store.PreviewRedrive(s.Context(), repository.NewRedrive{
		ID: uuid.New(), Action: entity.RedriveDelete, Selection: entity.Selection{Filter: f}, BatchSize: 100,
	}))(s)
	for i := range preview {
		preview[i].Sample = uuid.Nil
	}
	return fmt.Sprintf("listed %v\nexported %v\ncount %+v\npreview %+v", listed, exported, count, preview)
}

// TestSearchEngine_AnswersAsPostgreSQL switches a database to OpenSearch. To random filters, OpenSearch must give the
// same answers as the documents that the database stored before.
func TestSearchEngine_AnswersAsPostgreSQL(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, seed, 1200)
	inDatabase := `SELECT count(*) FROM dlq.message_documents d WHERE text <> '' AND d.version = (SELECT version FROM dlq.search_index)`
	s.run(s.worker(s.store), func() bool { return postgrestest.Get[int](t, s.db, inDatabase) == 1200 })

	w := s.worker(s.engine.index)
	found := func() int64 {
		word := repository.CountQuery{Filter: entity.Filter{Words: []string{"stock"}}, How: repository.CountExact}
		return check.Must(s.engine.CountMatching(t.Context(), word))(t).Messages
	}
	check.Same(t, found(), 1080, "messages that the database finds before the switch")
	s.run(w, func() bool {
		check.Same(t, found(), 1080, "messages that are found during the switch")
		return s.complete()
	})
	s.wantAlike()
	check.Same(t, postgrestest.Get[int](t, s.db, inDatabase), 1200, "documents with text that the database had to keep for its searches")
	for range pick(30, 200) {
		f, archived, ascending, page := s.filter(), s.random.IntN(4) == 0, s.random.IntN(2) == 0, 50+s.random.IntN(300)
		want := s.answers(s.store, f, archived, ascending, page)
		got := s.answers(s.engine, f, archived, ascending, page)
		check.Require(t, got == want, "seed %d, filter %+v, archived %v: OpenSearch answers\n%s\nwant\n%s", seed, f, archived, got, want)
	}

	newer := entity.NewMessage("orders", "stock of new words", time.Now())
	insert(t, s.db, newer)
	s.index()
	check.Same(t, postgrestest.Get[string](t, s.db, `SELECT text FROM dlq.message_documents WHERE message_id = $1`, newer.ID), "", "text in the database after the switch")
	check.Same(t, found(), 1081, "messages that are found after the switch")

	back := New(s.db)
	s.run(s.worker(back), func() bool { return postgrestest.Get[int](t, s.db, inDatabase) == 1201 })
	f := s.filter()
	check.Same(t, s.answers(engineOn(t, s.engine.address, s.engine.prefix, back), f, false, false, 100), s.answers(back, f, false, false, 100), "answers after the way back")
}

// TestSearchEngine_CountsFacetsAsTheRecords compares facets that OpenSearch counts with facets that are counted by
// reading records.
func TestSearchEngine_CountsFacetsAsTheRecords(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, seed, 1200)
	s.index()
	counter := search.NewFacetCounter(s.engine.searches, nil, nil)
	facets := s.engine.engine.NewFacets(refused{}, s.store)
	by := []repository.FacetKey{
		{Path: "$.customer"},
		{Path: "$.build"},
		{Path: "$.items[*].sku"},
		{Path: "$.none"},
		{Header: "kafka_dlt-header-3"},
		{Field: repository.FacetRecordKey},
		{Field: repository.FacetTopic},
		{Field: repository.FacetErrorClass},
		{Field: repository.FacetConsumerGroup},
		{Field: repository.FacetDialect},
		{Field: repository.FacetErrorGroup},
	}
	for i := range pick(25, 200) {
		f := s.filter(0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14)
		switch i {
		case 0:
			f = entity.Filter{}
		case 1:
			f = entity.Filter{ConsumerGroup: "billing"}
		case 2:
			f = entity.Filter{ErrorClass: "E1"}
		}
		q := repository.FacetQuery{Filter: f, By: by, Limit: 1 + s.random.IntN(20)}
		want := check.Must(counter.Facets(t.Context(), q))(t)
		got := check.Must(facets.Facets(t.Context(), q))(t)
		got.Before = time.Time{}
		for _, list := range [][]repository.Facet{want.Facets, got.Facets} {
			for n := range list {
				list[n].Values = slices.DeleteFunc(list[n].Values, func(v repository.FacetValue) bool {
					return q.Limit < int(list[n].Distinct) && v.Messages == list[n].Values[len(list[n].Values)-1].Messages // when several values have this number of messages, any of them may be the last one that is shown
				})
				slices.SortFunc(list[n].Values, func(a, b repository.FacetValue) int {
					return 2*(int(b.Messages)-int(a.Messages)) + slices.Compare([]string{string(a.Kind), a.Text}, []string{string(b.Kind), b.Text})
				})
			}
		}
		check.Require(t, fmt.Sprintf("%+v", got) == fmt.Sprintf("%+v", want), "seed %d, filter %+v: facets are\n%+v\nwant\n%+v", seed, f, got, want)
	}
}

// refused takes the place of the Facets that read records. Its method returns an error, so that the test fails when
// records are read to count facets.
type refused struct{}

func (refused) Facets(context.Context, repository.FacetQuery) (repository.Facets, error) {
	return repository.Facets{}, errors.New("the records were read")
}

// TestSearchEngine_EstimatesManyValues: when a facet has too many different values to be counted exactly, their number
// is an estimate; the number of messages that is shown with the most frequent value is exact. This is true also for keys
// whose values are in one slot.
func TestSearchEngine_EstimatesManyValues(t *testing.T) {
	t.Parallel()
	s := &searched{T: t, db: postgrestest.Open(t)}
	s.store = New(s.db)
	s.engine = openEngine(t, stacktest.OpenSearch(t).Address, s.store)
	const messages, common = 3500, 100
	twin := twinOf("$.order")
	storeOrders(t, s.store, messages, func(n int) any {
		return map[string]any{"order": max(n, common), "alone": max(n, common), strings.TrimPrefix(twin, "$."): n / 3}
	})
	s.index()
	facets := s.engine.engine.NewFacets(refused{}, s.store)
	by := []repository.FacetKey{{Path: "$.alone"}, {Path: "$.order"}, {Path: twin}}
	found := check.Must(facets.Facets(t.Context(), repository.FacetQuery{By: by, Limit: 3}))(t)
	check.True(t, found.All && found.Counted == messages, "got %+v", found)
	for i, f := range found.Facets[:2] {
		check.True(t, !f.Exact && f.Missing == 0, "%s: got %+v", by[i].Path, f)
		check.True(t, f.Distinct > (messages-common)*98/100 && f.Distinct < (messages-common)*102/100,
			"%s: %d distinct values, want about %d", by[i].Path, f.Distinct, messages-common)
		check.Same(t, f.Values[0], repository.FacetValue{Kind: repository.NumberValue, Text: fmt.Sprint(common), Messages: common + 1}, "most frequent value")
	}
	check.True(t, found.Facets[2].Exact && found.Facets[2].Distinct == (messages+2)/3, "%s: got %+v", twin, found.Facets[2])
}

// twinOf returns a path whose values OpenSearch has in the same field as those of another path.
func twinOf(path string) string {
	slot := func(key string) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		return h.Sum32() % 512
	}
	for n := 0; ; n++ {
		if twin := fmt.Sprintf("$.twin%d", n); slot(twin) == slot(path) {
			return twin
		}
	}
}

// TestSearchEngine_HasNoMaskedWords: after a mask was configured, neither a search nor a facet finds a masked value in
// OpenSearch, and the older index, which contains the value, is deleted.
func TestSearchEngine_HasNoMaskedWords(t *testing.T) {
	t.Parallel()
	s := &searched{T: t, db: postgrestest.Open(t)}
	s.store = New(s.db)
	s.engine = openEngine(t, stacktest.OpenSearch(t).Address, s.store)
	storeOrders(t, s.store, 3, func(n int) any { return map[string]any{"card": fmt.Sprintf("secret-%d", n), "sku": "open"} })
	by := func(word string) int {
		return len(check.Must(s.engine.Search(t.Context(), repository.SearchQuery{Filter: entity.Filter{Words: []string{word}}, Limit: 10}))(t).Messages)
	}
	s.index()
	check.Same(t, []int{by("secret"), by("open")}, []int{3, 3}, "messages found without a mask")
	s.index("$.card")
	check.Same(t, []int{by("secret"), by("open")}, []int{0, 3}, "messages found with a mask")
	facets := s.engine.engine.NewFacets(refused{}, s.store)
	found := check.Must(facets.Facets(t.Context(), repository.FacetQuery{By: []repository.FacetKey{{Path: "$.card"}, {Path: "$.sku"}}, Limit: 10}))(t)
	check.True(t, found.Facets[0].Distinct == 0 && found.Facets[1].Distinct == 1, "got %+v, want no value of the masked path", found)
	s.run(s.worker(s.engine.index, "$.card"), func() bool { return len(s.indexes()) == 1 })
}

// TestSearchEngine_FollowsChanges: after a message was mapped, assigned to an error group, archived, restored, deleted
// or erased, searches show the change at once. OpenSearch contains the change after the indexer's next step.
func TestSearchEngine_FollowsChanges(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, 1, 40)
	s.index()
	pick := func(where string) uuid.UUID {
		return postgrestest.Get[uuid.UUID](t, s.db, `SELECT id FROM dlq.dlq_messages WHERE `+where+` ORDER BY dlq_offset LIMIT 1`)
	}
	finds := func(f entity.Filter, archived bool, id uuid.UUID) bool {
		f.Words = []string{"stock"}
		found := check.Must(s.engine.Search(t.Context(), repository.SearchQuery{Filter: f, Archived: archived, Limit: 100}))(t)
		return slices.ContainsFunc(found.Messages, func(m entity.Message) bool { return m.ID == id })
	}
	both := func(what string, check func() bool) {
		t.Helper()
		if !check() {
			t.Errorf("%s: wrong before the next step of the indexer", what)
		}
		s.index()
		if !check() {
			t.Errorf("%s: wrong after it", what)
		}
		s.wantAlike()
	}
	visible := check.Must(entity.ParseTopicPatterns("topics", "mapped"))(t)
	unnamed := check.Must(entity.ParseTopicPatterns("topics", "orders.dlq.v1"))(t)

	mapped := pick(`original_topic = '' AND status = 'PENDING'`)
	check.True(t, finds(entity.Filter{Visible: &unnamed}, false, mapped), "a message without an original topic is not visible by its dead-letter topic")
	changed := check.Must(s.store.Change(t.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: []uuid.UUID{mapped}, OriginalTopic: "mapped", OverHeader: true,
	}, entity.By("alice")))(t)
	check.Same(t, len(changed), 1, "mapped messages")
	both("mapped", func() bool {
		return finds(entity.Filter{Topic: "mapped"}, false, mapped) && finds(entity.Filter{Visible: &visible}, false, mapped) &&
			!finds(entity.Filter{UnknownOrigin: true}, false, mapped) && !finds(entity.Filter{Visible: &unnamed}, false, mapped)
	})

	moved, group := pick(`original_topic = 'orders'`), uuid.New()
	exec(t, s.db, `UPDATE dlq.dlq_messages SET group_id = $2 WHERE id = $1`, moved, group)
	both("in another error group", func() bool { return finds(entity.Filter{Group: group}, false, moved) })

	archived := pick(`status = 'DEAD'`)
	archive(t, s.db, archived)
	both("archived", func() bool { return finds(entity.Filter{}, true, archived) && !finds(entity.Filter{}, false, archived) })
	check.Must(s.store.Restore(t.Context(), archived, entity.By("alice")))(t)
	both("restored", func() bool { return !finds(entity.Filter{}, true, archived) && finds(entity.Filter{}, false, archived) })

	check.NoError(t, s.store.Delete(t.Context(), archived, entity.By("alice")))
	both("deleted", func() bool { return !finds(entity.Filter{}, false, archived) })
	check.Same(t, s.stored(archived), 0, "documents of the deleted message")
	erased := postgrestest.Get[uuid.UUID](t, s.db, `SELECT id FROM dlq.dlq_messages_archive LIMIT 1`)
	check.Same(t, s.stored(erased), 1, "documents of the archived message")
	check.Must(s.store.Erase(t.Context(), erased, entity.By("alice")))(t)
	both("erased", func() bool { return !finds(entity.Filter{}, true, erased) })
	check.Same(t, s.stored(erased), 0, "documents of the erased message")
}

// stored returns the number of documents of the message with this id in OpenSearch.
func (s *searched) stored(id uuid.UUID) int {
	s.Helper()
	n := 0
	for _, d := range check.Must(s.engine.client.Documents(s.Context(), s.version(), repository.EngineRange{}, uuid.Nil, 10_000))(s) {
		if d.ID == id {
			n++
		}
	}
	return n
}

// TestSearchEngine_LateWritesLose: when a process is late and writes an old document of a message, OpenSearch keeps the
// newer document of the message.
func TestSearchEngine_LateWritesLose(t *testing.T) {
	t.Parallel()
	client := openEngine(t, stacktest.OpenSearch(t).Address, New(postgrestest.Open(t))).client
	id, at := uuid.New(), time.Now().UTC()
	write := func(number int64, text string) bool {
		t.Helper()
		refused := check.Must(client.Write(t.Context(), 1, number, []opensearch.Document{{EngineFacts: repository.EngineFacts{ID: id, CreatedAt: at}, Text: text}}))(t)
		return !refused[id]
	}
	finds := func(word string) bool {
		q := opensearch.Query{Filter: entity.Filter{Words: []string{word}}, AnyState: true}
		return len(check.Must(client.Find(t.Context(), 1, q, opensearch.Page{Limit: 1}))(t)) == 1
	}
	check.True(t, write(7, "newer") && write(7, "newer again") && !write(6, "late"), "a late write was not refused, or another one was")
	check.True(t, finds("newer again") && !finds("late"), "the late document was stored")
}

// TestSearchEngine_RepairsItself: the indexer notices an index of OpenSearch that was deleted, a document that is
// missing, and a document without a message, and repairs each of them.
func TestSearchEngine_RepairsItself(t *testing.T) {
	t.Parallel()
	s := searchedOrders(t, stacktest.OpenSearch(t).Address, 2, 60)
	s.index()
	version, indexes := s.version(), s.indexes()
	check.Same(t, len(indexes), 2, "days")
	all := check.Must(s.engine.client.Documents(t.Context(), version, repository.EngineRange{}, uuid.Nil, 100))(t)
	lost := slices.MaxFunc(all, func(a, b repository.Cursor) int { return a.CreatedAt.Compare(b.CreatedAt) })
	stray := opensearch.Document{EngineFacts: repository.EngineFacts{ID: uuid.New(), CreatedAt: lost.CreatedAt}, Text: "stray"}
	check.NoError(t, s.engine.client.Delete(t.Context(), version, 1<<40, []repository.Cursor{lost}))
	check.Must(s.engine.client.Write(t.Context(), version, 1, []opensearch.Document{stray}))(t)
	s.request("DELETE", "/"+indexes[0])                                                       // archived messages are of this day
	exec(t, s.db, `UPDATE dlq.search_index SET archive_walked = now(), archive_mark = now()`) // as after a while

	again := engineOn(t, s.engine.address, s.engine.prefix, s.store) // a process that starts
	exec(t, s.db, `SELECT setval('dlq.search_writes', $1)`, int64(1)<<41)
	s.engine = again
	s.run(s.worker(again.index), func() bool {
		return s.complete() && len(s.indexes()) == 2 && s.stored(lost.ID) == 1 && s.stored(stray.ID) == 0
	})
	s.wantAlike()
	found := check.Must(again.Search(t.Context(), repository.SearchQuery{Filter: entity.Filter{Words: []string{"stock"}}, Limit: 100}))(t)
	check.Same(t, len(found.Messages), 54, "live messages")
}

// TestFaultSearchEngine: while OpenSearch is down, searches that need OpenSearch fail with a reason, and all other
// searches work. While its indexes are read-only, searches still find what is indexed. Afterwards the indexer stores
// everything that is missing.
func TestFaultSearchEngine(t *testing.T) {
	t.Parallel()
	node := check.Must(stack.StartOpenSearch(t.Context()))(t)
	t.Cleanup(func() { check.NoError(t, node.Stop()) })
	s := searchedOrders(t, node.Address, rand.Uint64(), 100)
	w := s.worker(s.engine.index)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	word := repository.SearchQuery{Filter: entity.Filter{Words: []string{"stock"}}, Limit: 10}
	more := func() {
		for range 20 {
			insert(t, s.db, entity.NewMessage("orders", "stock service is away", time.Now()))
		}
	}
	for range pick(1, 10) {
		until(t, "all is indexed", s.complete)
		s.wantAlike()

		check.NoError(t, node.Kill())
		_, err := s.engine.Search(t.Context(), word)
		check.True(t, errors.Is(err, repository.ErrEngineAway) && errors.Is(err, entity.ErrUnavailable), "a search of a killed engine = %v", err)
		plain := check.Must(s.engine.Search(t.Context(), repository.SearchQuery{Filter: entity.Filter{Topic: "orders"}, Limit: 10}))(t)
		check.Same(t, len(plain.Messages), 10, "messages by another filter")
		more()
		deleted := plain.Messages[0].ID
		check.NoError(t, s.store.Delete(t.Context(), deleted, entity.By("alice")))
		check.NoError(t, node.Restart(t.Context()))
		until(t, "all is indexed after a kill", s.complete)
		s.wantAlike()
		check.Same(t, s.stored(deleted), 0, "documents of a message that was deleted meanwhile")

		s.request("PUT", "/_all/_settings", `{"index.blocks.read_only_allow_delete": true}`)
		more()
		check.Same(t, len(check.Must(s.engine.Search(t.Context(), word))(t).Messages), 10, "messages of a read-only index")
		check.True(t, !s.complete(), "documents were stored in a read-only index")
		s.request("PUT", "/_all/_settings", `{"index.blocks.read_only_allow_delete": null}`)
		until(t, "all is indexed after the disk was full", s.complete)
		s.wantAlike()
	}
}
