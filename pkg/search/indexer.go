// Package search builds the search index: it reads messages without a document of the present version and stores one
// for each, with an error group where the message has none. It runs after messages are stored, so that ingest does
// not wait for it; the store answers the searches.
package search

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// lease is how long a worker holds the indexer lease. When it dies another worker takes over after that time.
	lease = 30 * time.Second
	// renewal is how long after a renewal the lease is renewed again.
	renewal = lease / 3
	// maxWait is the longest pause between two polls for work, and between two tries while the store is unavailable.
	maxWait = 2 * time.Second
	// maxValue is the maximum size in bytes of a value that is indexed.
	maxValue = 1 << 20
	// maxBytes is how many bytes of records are in memory at once.
	maxBytes = 16 << 20
	// asking is the interval at which the worker checks for a stall; stallTimeout is how long a stall may last before a
	// warning, and silence is the time between two warnings.
	asking       = time.Minute
	stallTimeout = 10 * time.Minute
	silence      = time.Hour
)

// Store has the methods of the repository that the worker calls.
type Store interface {
	// AcquireIndexerLease acquires the indexer lease for owner, unless another worker holds it, and sets the version that
	// searches answer from.
	AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)
	// SetIndexVersion limits the searches of this process to documents of that version.
	SetIndexVersion(version int64)
	// Unindexed returns messages without a document of that version, or without an error group.
	Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)
	// StoreDocuments stores documents and replaces earlier ones.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error
	// Undecoded returns messages of DeferDecoding that are due.
	Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error)
	// DeferDecoding stores which documents are not complete, because a schema could not be read.
	DeferDecoding(ctx context.Context, deferred []repository.DeferredDecoding) error
	// ForgetUndecoded takes back DeferDecoding.
	ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error
	// CountUndecoded returns the number of messages of DeferDecoding.
	CountUndecoded(ctx context.Context) (int, error)
	// Unclassified returns messages of entity.Unclassified that may get an error group of their own.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)
	// AdmitFingerprints creates error groups within the limits of dead-letter topics, and returns the failures that
	// it refused.
	AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error)
	// Classify moves messages out of entity.Unclassified.
	Classify(ctx context.Context, moves []repository.Classification) error
	// IndexerStall reports whether an open transaction holds up the index.
	IndexerStall(ctx context.Context) (repository.IndexerStall, error)
}

// Worker indexes messages. Any number of workers may run against one store, in any number of processes; one of them
// works, the others wait to take over.
type Worker struct {
	cfg     Config
	store   Store
	decode  func(entity.Message) (class, message, stack string)
	maker   *fingerprint.Fingerprinter
	masks   *payload.Masks
	hidden  func(*entity.Message) entity.MaskedFields
	schemas Schemas // nil: nothing is decoded
	metrics *metrics
	log     *zap.Logger

	owner   uuid.UUID
	version int64

	// Only Run uses the following fields.
	held   time.Time // last renewal of the lease; zero when another worker has it
	first  uuid.UUID // first message of the previous batch
	outage outage.Log

	classified    time.Time // when the last query for unclassified messages found none
	asked, warned time.Time // last check for a stall, and last warning about one
}

// New returns a worker. decode reads the input of a message's error group, and is called only for messages without
// an error group. hidden reports which fields of a message come from masked headers: they are left out of its text.
// The metrics are registered with registry. From then on the searches of the store use only documents that match
// cfg and masks.
func New(cfg Config, store Store, decode func(entity.Message) (class, message, stack string), maker *fingerprint.Fingerprinter,
	masks *payload.Masks, hidden func(*entity.Message) entity.MaskedFields, registry prometheus.Registerer, log *zap.Logger, options ...Option,
) *Worker {
	w := &Worker{
		cfg: cfg, store: store, decode: decode, maker: maker, masks: masks, hidden: hidden, metrics: newMetrics(registry), log: log,
		owner: uuid.New(),
	}
	for _, change := range options {
		change(w)
	}
	var decoding uint64
	if w.schemas != nil {
		decoding = w.schemas.Version()
	}
	w.version = version(cfg, masks, decoding)
	store.SetIndexVersion(w.version)
	return w
}

// Option changes what New returns.
type Option func(*Worker)

// WithSchemas sets what decodes keys and values that have a schema in a registry. Without it they are bytes.
func WithSchemas(s Schemas) Option { return func(w *Worker) { w.schemas = s } }

// Run works until ctx ends, and then releases the lease so that another worker takes over at once. It must not run
// twice at a time. When the store becomes unavailable it logs that once, and retries until the store is back.
func (w *Worker) Run(ctx context.Context) {
	defer w.release(ctx)
	for rest := w.cfg.Interval; ctx.Err() == nil; {
		began := time.Now()
		worked, more, err := w.step(ctx)
		w.outage.Report(ctx, w.log, err, "messages cannot be indexed; searches do not find new ones; retrying", "messages are indexed again")
		switch {
		case more:
			rest = min(time.Since(began), maxWait) // at most half of the time while there is more to do
		case worked:
			rest = w.cfg.Interval
		default:
			rest = min(max(2*rest, w.cfg.Interval), max(maxWait, w.cfg.Interval))
		}
		wait.Sleep(ctx, rest)
	}
}

// step indexes one batch. more reports that further messages wait.
func (w *Worker) step(ctx context.Context) (worked, more bool, err error) {
	if ok, err := w.hold(ctx); err != nil || !ok {
		w.metrics.lag.Set(0)
		w.metrics.markAge.Set(0)
		return false, false, err
	}
	if err := w.watch(ctx); err != nil {
		return false, false, err
	}
	messages, err := w.store.Unindexed(ctx, w.version, w.cfg.Batch, maxBytes, maxValue)
	if err != nil {
		return false, false, err
	}
	if len(messages) == 0 {
		w.metrics.lag.Set(0)
		w.first = uuid.Nil
		decoded, more, err := w.decodeAgain(ctx)
		if err != nil {
			return false, false, err
		}
		worked, err = w.classify(ctx)
		return worked || decoded, more, err
	}
	w.metrics.lag.Set(max(0, time.Since(oldest(messages)).Seconds()))
	var bytes int64
	for i := range messages {
		bytes += int64(len(messages[i].Record.Value))
	}
	if _, err := w.index(ctx, messages); err != nil {
		return false, false, err
	}
	if _, _, err := w.decodeAgain(ctx); err != nil {
		return true, false, err
	}
	if _, err := w.classify(ctx); err != nil {
		return true, false, err
	}
	// A message that is returned again must wait, or the loop would never pause.
	again := messages[0].ID == w.first
	w.first = messages[0].ID
	return !again, !again && (len(messages) > w.cfg.Batch/2 || bytes > maxBytes/2), nil
}

// watch warns about a transaction that stays open: no message is lost, but its messages are found late, and each poll
// costs more.
func (w *Worker) watch(ctx context.Context) error {
	if time.Since(w.asked) < asking {
		return nil
	}
	stall, err := w.store.IndexerStall(ctx)
	if err != nil {
		return err
	}
	w.asked = time.Now()
	w.metrics.markAge.Set(stall.Age.Seconds())
	if err := w.countUndecoded(ctx); err != nil {
		return err
	}
	if stall.Age > stallTimeout && time.Since(w.warned) >= silence {
		w.warned = w.asked
		w.log.Warn("an open transaction delays the search index; the messages that it stores are found late",
			zap.Duration("for", stall.Age), zap.String("holder", stall.Holder))
	}
	return nil
}

// hold renews the lease when it is due, and reports whether this worker has it.
func (w *Worker) hold(ctx context.Context) (bool, error) {
	if !w.held.IsZero() && time.Since(w.held) < renewal {
		return true, nil
	}
	began := time.Now()
	w.held = time.Time{}
	ok, err := w.store.AcquireIndexerLease(ctx, w.owner, w.version, lease)
	if ok && err == nil {
		w.held = began
	}
	return ok && err == nil, err
}

// keep stores documents. If the store rejects one, it is stored without its content: that message is then not found,
// but all others are.
func (w *Worker) keep(ctx context.Context, documents []entity.Document) error {
	err := w.store.StoreDocuments(ctx, w.version, documents)
	switch half := len(documents) / 2; {
	case err == nil:
		w.metrics.documents.Add(float64(len(documents)))
		return nil
	case !errors.Is(err, entity.ErrInvalid):
		return err
	case half > 0:
		if err := w.keep(ctx, documents[:half]); err != nil {
			return err
		}
		return w.keep(ctx, documents[half:])
	case documents[0].Text == "" && documents[0].Terms == nil:
		return err
	}
	w.log.Warn("message cannot be indexed; searches do not find it", zap.Stringer("message_id", documents[0].MessageID), zap.Error(err))
	return w.keep(ctx, []entity.Document{{MessageID: documents[0].MessageID, CreatedAt: documents[0].CreatedAt, Fingerprint: documents[0].Fingerprint}})
}

// release ends the lease, if this worker has it.
func (w *Worker) release(ctx context.Context) {
	if w.held.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWait)
	defer cancel()
	if _, err := w.store.AcquireIndexerLease(ctx, w.owner, w.version, 0); err != nil {
		w.log.Debug("the indexer lease was not released and will expire", zap.Error(err))
	}
	w.held = time.Time{}
}

func oldest(messages []entity.Message) time.Time {
	first := messages[0].CreatedAt
	for i := range messages {
		if messages[i].CreatedAt.Before(first) {
			first = messages[i].CreatedAt
		}
	}
	return first
}

const (
	// loadAge is how long an answer about the load of the store is used.
	loadAge = time.Second
	// longestRest limits the pause of a filler whose steps take long.
	longestRest = 10 * time.Second
)

// loadReporter reports whether the store is under load.
type loadReporter interface {
	UnderLoad(ctx context.Context) (bool, error)
}

// pace slows the PayloadFiller down during redrives and heavy ingest: it then pauses for as long as it works.
type pace struct {
	asked     time.Time // when the store was last asked
	underLoad bool
}

// rest returns the pause after a step of that duration when there is more to do. A store that does not answer counts
// as under load.
func (p *pace) rest(ctx context.Context, store loadReporter, took time.Duration) time.Duration {
	if now := time.Now(); p.asked.IsZero() || now.Sub(p.asked) >= loadAge {
		underLoad, err := store.UnderLoad(ctx)
		p.asked, p.underLoad = now, underLoad || err != nil
	}
	if !p.underLoad {
		return 0
	}
	return min(took, longestRest)
}

// classifyInterval is the time between two queries for unclassified messages when the last one found none.
const classifyInterval = 10 * time.Second

// classify moves messages from entity.Unclassified to error groups of their own, as far as the limits of their
// dead-letter topics allow. It reports whether it moved any.
func (w *Worker) classify(ctx context.Context) (moved bool, err error) {
	if time.Since(w.classified) < classifyInterval {
		return false, nil
	}
	messages, err := w.store.Unclassified(ctx, w.cfg.Batch, maxBytes)
	if err != nil {
		return false, err
	}
	failures := make([]repository.TopicFailure, len(messages))
	for i := range messages {
		failures[i] = repository.TopicFailure{DLQTopic: messages[i].Source.Topic, Fingerprint: w.maker.Fingerprint(w.decode(messages[i]))}
	}
	refused, err := w.store.AdmitFingerprints(ctx, failures)
	if err != nil {
		return false, err
	}
	moves := classifications(messages, failures, refused)
	if len(moves) == 0 {
		w.classified = time.Now()
		return false, nil
	}
	return true, w.store.Classify(ctx, moves)
}

// classifications returns the error groups of the messages whose failure was admitted.
func classifications(messages []entity.Message, failures, refused []repository.TopicFailure) []repository.Classification {
	type key struct {
		topic string
		group uuid.UUID
	}
	isRefused := map[key]bool{}
	for _, f := range refused {
		isRefused[key{f.DLQTopic, f.ID()}] = true
	}
	var moves []repository.Classification
	for i, f := range failures {
		if id := f.ID(); !isRefused[key{f.DLQTopic, id}] {
			moves = append(moves, repository.Classification{MessageID: messages[i].ID, DLQTopic: f.DLQTopic, Group: id})
		}
	}
	return moves
}
