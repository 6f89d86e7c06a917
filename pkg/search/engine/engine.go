package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Documents is the search engine as searches use it; package opensearch describes the methods.
type Documents interface {
	Find(ctx context.Context, version int64, q opensearch.Query, p opensearch.Page) ([]repository.Cursor, error)
	FindAll(ctx context.Context, version int64, q opensearch.Query, p opensearch.Page, yield func([]repository.Cursor) error) error
	Count(ctx context.Context, version int64, q opensearch.Query) (int64, error)
	Facets(ctx context.Context, version int64, q opensearch.Query, by []repository.FacetKey, limit int) (repository.Facets, error)
}

// Writes is the search engine as the indexer uses it; package opensearch describes the methods.
type Writes interface {
	Write(ctx context.Context, version, number int64, documents []opensearch.Document) (refused map[uuid.UUID]bool, err error)
	Update(ctx context.Context, version, number int64, ids []uuid.UUID, facts []repository.EngineFacts) (refused map[uuid.UUID]bool, lost []uuid.UUID, err error)
	Delete(ctx context.Context, version, number int64, documents []repository.Cursor) error
	Sum(ctx context.Context, version int64, r repository.EngineRange) (repository.EngineSum, error)
	Documents(ctx context.Context, version int64, r repository.EngineRange, after uuid.UUID, limit int) ([]repository.Cursor, error)
	Clear(ctx context.Context, version int64) error
	Tidy(ctx context.Context, version int64, others bool, before time.Time) error
	Forget()
	Ping(ctx context.Context) error
}

// State is what the store knows about the documents in the search engine; the store's package describes the methods.
type State interface {
	EngineState(ctx context.Context) (repository.EngineState, error)
	EngineChanges(ctx context.Context, limit int) ([]repository.EngineChange, error)
	EngineScope(ctx context.Context, f entity.Filter, archived bool) (repository.EngineScope, error)
}

// Engine joins the search engine with the store. It is safe for concurrent use.
type Engine struct {
	documents Documents
	state     State
	masked    entity.MaskedFields   // fields that no document has
	own       atomic.Pointer[int64] // version of the documents that this process uses; nil: that of the search index
}

// New returns an Engine whose documents lack the masked fields.
func New(documents Documents, state State, masked entity.MaskedFields) *Engine {
	return &Engine{documents: documents, state: state, masked: masked}
}

// canTell reports whether documents have all fields for which a filter asks, so that a document without one of them does
// not match.
func (e *Engine) canTell(f entity.Filter) bool {
	return (f.ErrorClass == "" || !e.masked.ErrorClass) && (f.ConsumerGroup == "" || !e.masked.ConsumerGroup)
}

// format is the version of what OpenSearch has of a document. It must be increased when that changes.
const format = 2

// version returns the version of the documents in the search engine, for the version that they would have in the store.
// They differ because the rows of the store then have neither text nor terms.
func version(stored int64) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "opensearch %d %d", format, stored))
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any 64 bits will do
}

// maxChanged is the number of changes that the search engine does not have yet up to which a search names the changed
// messages. With more of them it ignores what may change.
const maxChanged = 1000

// question is a search of the search engine.
type question struct {
	opensearch.Query
	state   repository.EngineState
	nothing bool // the search finds no message
}

// ask prepares a search. serves is false when the store has to answer.
func (e *Engine) ask(ctx context.Context, f entity.Filter, archived bool) (q question, serves bool, err error) {
	if !f.NeedsSearchIndex() {
		return q, false, nil
	}
	return e.askAlways(ctx, f, archived)
}

// askAlways prepares a search also when the store could answer it.
func (e *Engine) askAlways(ctx context.Context, f entity.Filter, archived bool) (q question, serves bool, err error) {
	if q.state, err = e.state.EngineState(ctx); err != nil || !q.state.Serves {
		return q, false, err
	}
	if own := e.own.Load(); own != nil && *own != q.state.Version {
		q.nothing = true // a program with another configuration fills the search index
		return q, true, nil
	}
	q.Filter, q.Archived = f, archived
	if q.Scope, err = e.state.EngineScope(ctx, f, archived); err != nil {
		return q, true, err
	}
	changes, err := e.state.EngineChanges(ctx, maxChanged+1)
	if err != nil {
		return q, true, err
	}
	q.AnyState = len(changes) > maxChanged
	for _, c := range changes {
		q.Changed = append(q.Changed, c.MessageID)
	}
	if q.AnyState {
		q.Changed = nil
	}
	return q, true, nil
}

// joined returns the filter with which the store decides about found messages: without the conditions that the search
// engine has decided, and with the times of the found messages, so that the store need not read others.
func joined(f entity.Filter, found []repository.Cursor) entity.Filter {
	f = withoutDocuments(f)
	f.MessageIDs = make([]uuid.UUID, len(found))
	first, last := found[0].CreatedAt, found[0].CreatedAt
	for i, c := range found {
		f.MessageIDs[i] = c.ID
		if c.CreatedAt.Before(first) {
			first = c.CreatedAt
		}
		if c.CreatedAt.After(last) {
			last = c.CreatedAt
		}
	}
	if f.CreatedAfter.Before(first) {
		f.CreatedAfter = first
	}
	if end := last.Add(time.Microsecond); f.CreatedBefore.IsZero() || f.CreatedBefore.After(end) {
		f.CreatedBefore = end
	}
	return f
}

// withoutDocuments returns the filter without the conditions on documents.
func withoutDocuments(f entity.Filter) entity.Filter {
	f.Key, f.Headers, f.Fields, f.Words = nil, nil, nil, nil
	return f
}

// metrics of the search engine.
type metrics struct {
	up       prometheus.Gauge
	serves   prometheus.Gauge
	changes  prometheus.Gauge
	repaired prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	return &metrics{
		up: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_search_engine_up",
			Help: "1 when the search engine answered the last request of this process's indexer, else 0.",
		}),
		serves: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_search_engine_serves",
			Help: "1 when the search engine answers searches, 0 while the database does; 0 in processes without the indexer lease.",
		}),
		changes: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_search_engine_changes",
			Help: "Changes of messages that the search engine does not have yet, at most 1000; 0 in processes without the indexer lease.",
		}),
		repaired: build.NewCounter(prometheus.CounterOpts{
			Name: "dlq_search_engine_repaired_documents_total",
			Help: "Documents that the search engine had lost, or had without a message.",
		}),
	}
}

// yes is the value of a gauge that says yes or no.
func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// health reports whether the search engine answers.
type health struct {
	metrics *metrics
	log     *zap.Logger
	outage  outage.Log
}

func (h *health) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	h.metrics.up.Set(yes(err == nil))
	h.outage.Report(ctx, h.log, err, "the search engine does not answer; searches by text, key, header and field fail", "the search engine answers again")
}
