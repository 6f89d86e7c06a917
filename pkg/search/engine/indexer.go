package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Index is the search index of the store as the indexer worker uses it; repository.SearchIndex describes the methods.
type Index interface {
	AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)
	SetIndexVersion(version int64)
	Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error
	Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error)
	DeferDecoding(ctx context.Context, deferred []repository.DeferredDecoding) error
	ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error
	CountUndecoded(ctx context.Context) (int, error)
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)
	AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error)
	Classify(ctx context.Context, moves []repository.Classification) error
	IndexerStall(ctx context.Context) (repository.IndexerStall, error)
}

// Notes is what the store notes about the documents in the search engine; the store's package describes the methods.
type Notes interface {
	UseEngine(version, stored int64)
	BeginFilling(ctx context.Context, version int64) error
	EndFilling(ctx context.Context, version int64, idle bool) (ended bool, err error)
	NextWrite(ctx context.Context) (int64, error)
	EngineFacts(ctx context.Context, ids []uuid.UUID) ([]repository.EngineFacts, error)
	ForgetEngineChanges(ctx context.Context, changes []repository.EngineChange) error
}

// Stores are the parts of a store that an Indexer uses.
type Stores struct {
	Index   Index
	Notes   Notes
	Repairs Repairs
}

// Indexer is the search index of the store with its documents in the search engine. It has the promises of
// repository.SearchIndex. A document is written to the search engine first and then noted in the store, so that a
// message without a noted document is indexed again, whenever the process may end. The methods that write are not safe
// for concurrent use: one worker calls them.
type Indexer struct {
	Index
	notes   Notes
	repairs Repairs
	engine  *Engine
	writes  Writes
	metrics *metrics
	health  *health
	log     *zap.Logger
	now     func() time.Time

	number   int64      // number that the next writes of documents to the search engine carry
	failure  error      // why the search engine took no documents at the last try; nil when it did
	pinged   time.Time  // when the search engine was last asked whether it answers
	compared comparison // of the documents of the store and of the search engine
	tidied   bool       // whether the indexes of all other versions were deleted since the filling began
	upkeep   outage.Log // of comparisons and deletions
}

// NewIndexer returns an Indexer whose metrics are registered with registry.
func (e *Engine) NewIndexer(stores Stores, writes Writes, registry prometheus.Registerer, log *zap.Logger) *Indexer {
	m := newMetrics(registry)
	return &Indexer{
		Index: stores.Index, notes: stores.Notes, repairs: stores.Repairs, engine: e, writes: writes,
		metrics: m, health: &health{metrics: m, log: log}, log: log, now: time.Now,
	}
}

// SetIndexVersion implements repository.SearchIndex.
func (x *Indexer) SetIndexVersion(stored int64) {
	own := version(stored)
	x.engine.own.Store(&own)
	x.notes.UseEngine(own, stored)
}

// pingInterval is the time between two checks whether the search engine answers.
const pingInterval = 10 * time.Second

// AcquireIndexerLease implements repository.SearchIndex.
func (x *Indexer) AcquireIndexerLease(ctx context.Context, owner uuid.UUID, stored int64, lease time.Duration) (bool, error) {
	if x.now().Sub(x.pinged) >= pingInterval {
		x.pinged = x.now()
		x.health.report(ctx, cmp.Or(x.writes.Ping(ctx), x.failure))
	}
	if x.engine.own.Load() == nil {
		x.notes.UseEngine(version(stored), stored)
	}
	held, err := x.Index.AcquireIndexerLease(ctx, owner, version(stored), lease)
	if !held {
		x.compared, x.tidied, x.failure = comparison{}, false, nil
		x.metrics.changes.Set(0)
		x.metrics.serves.Set(0)
	}
	return held, err
}

// Unindexed implements repository.SearchIndex. Before that it gives the search engine all changes of messages.
func (x *Indexer) Unindexed(ctx context.Context, stored int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	v := version(stored)
	state, err := x.engine.state.EngineState(ctx)
	if err != nil || state.Version != v {
		return nil, err
	}
	x.metrics.serves.Set(yes(state.Serves))
	if x.number, err = x.notes.NextWrite(ctx); err != nil {
		return nil, err
	}
	if err := x.begin(ctx, state); err != nil {
		return nil, x.observed(ctx, err)
	}
	if err := x.update(ctx, v); err != nil {
		return nil, x.observed(ctx, err)
	}
	repaired := x.repair(ctx, v)
	messages, err := x.Index.Unindexed(ctx, v, limit, maxBytes, maxValue)
	if err != nil {
		return nil, err
	}
	idle := len(messages) == 0
	err = cmp.Or(repaired, x.end(ctx, v, state.Filled, idle))
	if idle {
		return nil, x.observed(ctx, err)
	}
	x.upkeep.Report(ctx, x.log, err, "the documents of the search engine cannot be compared, or old indexes not be deleted; retrying",
		"the documents of the search engine are compared again")
	return messages, nil
}

// begin makes the search engine empty before the first document of a version is stored: it may have documents of an
// earlier filling of this version, which did not follow the changes of their messages since then.
func (x *Indexer) begin(ctx context.Context, state repository.EngineState) error {
	if state.Begun {
		return nil
	}
	x.compared, x.tidied = comparison{}, false
	if err := x.writes.Clear(ctx, state.Version); err != nil {
		return err
	}
	return x.notes.BeginFilling(ctx, state.Version)
}

// observed keeps and reports whether the search engine answered: it did if err is nil, and did not if err is
// ErrEngineAway. It returns err.
func (x *Indexer) observed(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, repository.ErrEngineAway) {
		x.failure = err
		x.health.report(ctx, err)
	}
	return err
}

// end makes the search engine answer searches when it has the documents of all messages that existed when the filling
// began, and deletes the documents of other versions. Before that, all documents must have been compared: after begin, the
// store has notes of documents of an earlier filling.
func (x *Indexer) end(ctx context.Context, v int64, filled, idle bool) (err error) {
	if x.tidied || x.compared.at.IsZero() {
		return nil
	}
	if !filled {
		if filled, err = x.notes.EndFilling(ctx, v, idle); err != nil || !filled {
			return err
		}
	}
	err = x.writes.Tidy(ctx, v, true, x.now().AddDate(0, 0, -2))
	x.tidied = err == nil
	return err
}

const (
	// changesAtOnce is the number of changes that are written together.
	changesAtOnce = 500
	// maxUpdates is the number of such writes in one step, so that new messages do not wait for many changes.
	maxUpdates = 20
)

// update writes the changes that the search engine does not have yet. A change that is made meanwhile stays noted.
func (x *Indexer) update(ctx context.Context, v int64) error {
	for range maxUpdates {
		changes, err := x.engine.state.EngineChanges(ctx, changesAtOnce)
		x.metrics.changes.Set(float64(len(changes)))
		if err != nil || len(changes) == 0 {
			return err
		}
		ids := make([]uuid.UUID, 0, len(changes))
		for _, c := range changes {
			ids = append(ids, c.MessageID)
		}
		slices.SortFunc(ids, compare)
		refused, err := x.updateFacts(ctx, v, slices.Compact(ids))
		if err != nil {
			return err
		}
		done := slices.DeleteFunc(slices.Clone(changes), func(c repository.EngineChange) bool { return refused[c.MessageID] })
		if err := x.notes.ForgetEngineChanges(ctx, done); err != nil || len(done) < len(changes) {
			return err // another process has written these documents: see the changes again in the next step
		}
	}
	return nil
}

func (x *Indexer) updateFacts(ctx context.Context, v int64, ids []uuid.UUID) (refused map[uuid.UUID]bool, err error) {
	facts, err := x.notes.EngineFacts(ctx, ids)
	if err != nil {
		return nil, err
	}
	refused, lost, err := x.writes.Update(ctx, v, x.number, ids, facts)
	if err == nil && len(lost) > 0 { // some of the messages have no document in the search engine yet
		err = x.repairs.IndexAgain(ctx, v, lost)
	}
	return refused, err
}

// StoreDocuments implements repository.SearchIndex. While the store still answers searches, it stores the text and terms
// there too.
func (x *Indexer) StoreDocuments(ctx context.Context, stored int64, documents []entity.Document) error {
	v := version(stored)
	state, err := x.engine.state.EngineState(ctx)
	if err != nil || state.Version != v || len(documents) == 0 {
		return err
	}
	if x.number == 0 {
		if x.number, err = x.notes.NextWrite(ctx); err != nil {
			return err
		}
	}
	if err := x.begin(ctx, state); err != nil {
		return x.observed(ctx, err)
	}
	refused, err := x.write(ctx, v, documents)
	if err != nil {
		return x.observed(ctx, err)
	}
	kept := make([]entity.Document, 0, len(documents))
	for _, d := range documents {
		if refused[d.MessageID] {
			continue // another process has written a newer document of this message
		}
		if state.Serves {
			d.Text, d.Terms = "", nil
		}
		kept = append(kept, d)
	}
	if err := x.Index.StoreDocuments(ctx, v, kept); err != nil {
		return err
	}
	return x.observed(ctx, x.deleteGone(ctx, v, documents))
}

// write stores documents in the search engine. It skips the documents of messages that no longer exist.
func (x *Indexer) write(ctx context.Context, v int64, documents []entity.Document) (refused map[uuid.UUID]bool, err error) {
	known, err := x.factsOf(ctx, idsOf(documents))
	if err != nil {
		return nil, err
	}
	var written []opensearch.Document
	for _, d := range documents {
		f, exists := known[d.MessageID]
		if !exists {
			continue
		}
		if f.Group == uuid.Nil && d.Fingerprint != nil {
			f.Group = d.Fingerprint.ID()
		}
		written = append(written, opensearch.Document{EngineFacts: f, Text: d.Text, Terms: d.Terms, Fields: d.Fields})
	}
	return x.writes.Write(ctx, v, x.number, written)
}

// factsOf returns the facts of those of the messages that exist, by their ids.
func (x *Indexer) factsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]repository.EngineFacts, error) {
	facts, err := x.notes.EngineFacts(ctx, ids)
	known := make(map[uuid.UUID]repository.EngineFacts, len(facts))
	for _, f := range facts {
		known[f.ID] = f
	}
	return known, err
}

func idsOf(documents []entity.Document) []uuid.UUID {
	ids := make([]uuid.UUID, len(documents))
	for i, d := range documents {
		ids[i] = d.MessageID
	}
	return ids
}

// deleteGone deletes the documents of messages that were deleted before the store had noted their documents. Later
// deletions are noted as changes.
func (x *Indexer) deleteGone(ctx context.Context, v int64, documents []entity.Document) error {
	known, err := x.factsOf(ctx, idsOf(documents))
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(idsOf(documents), func(id uuid.UUID) bool {
		_, exists := known[id]
		return exists
	})
	if len(gone) == 0 {
		return nil
	}
	_, _, err = x.writes.Update(ctx, v, x.number, gone, nil)
	return err
}
