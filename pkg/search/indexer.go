// Package search fills the search index, and counts the values of messages for facets. The indexer, which is a Worker,
// reads messages that have no document of the present version, and stores a document for each of them. If a message has
// no error group, the indexer also gives it one. This happens after messages were stored, so that ingest does not wait
// for it. Searches do not use this package, because the store runs them. Facets count only values that have terms in
// documents.
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
	// lease is the duration of the indexer lease. When the worker that holds it dies, another worker takes over within
	// this time and one pause between polls.
	lease = 30 * time.Second
	// renewal is the time between two renewals of the lease.
	renewal = lease / 3
	// maxWait is the longest pause between two polls for messages, and between two tries while the store is
	// unavailable, unless Config.Interval is longer.
	maxWait = 2 * time.Second
	// maxValue is the maximum size in bytes of a value that is indexed. The document of a message with a larger value
	// contains nothing of the value.
	maxValue = 1 << 20
	// maxBytes is the maximum size in bytes of the records that are in memory at once.
	maxBytes = 16 << 20
	// asking is the interval at which the worker asks whether an open transaction delays the index (a stall).
	// stallTimeout is how long a stall may last before the worker logs a warning, and silence is the time between two
	// warnings.
	asking       = time.Minute
	stallTimeout = 10 * time.Minute
	silence      = time.Hour
)

// Store has the methods of the repository that the worker calls; package repository describes them.
type Store interface {
	// AcquireIndexerLease gives the indexer lease to owner, unless another worker holds it, and sets the version of the
	// index.
	AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)
	// SetIndexVersion limits the searches of this process to documents of that version.
	SetIndexVersion(version int64)
	// Unindexed returns messages that have no document of that version, or no error group.
	Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)
	// StoreDocuments stores documents and replaces earlier documents of the same messages.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error
	// Undecoded returns messages that DeferDecoding stored and that are due.
	Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error)
	// DeferDecoding stores for which messages a schema could not be read, so that their documents are incomplete, and
	// when to decode these messages again.
	DeferDecoding(ctx context.Context, deferred []repository.DeferredDecoding) error
	// ForgetUndecoded deletes what DeferDecoding stored for these messages.
	ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error
	// CountUndecoded returns the number of messages that DeferDecoding stored.
	CountUndecoded(ctx context.Context) (int, error)
	// Unclassified returns messages of the group entity.Unclassified that may get an error group of their own now.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)
	// AdmitFingerprints creates error groups within the limits of the dead-letter topics, and returns the failures for
	// which it refused to create one.
	AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error)
	// Classify moves messages from the group entity.Unclassified to their own error groups.
	Classify(ctx context.Context, moves []repository.Classification) error
	// IndexerStall returns for how long the indexer has waited for an open transaction, and which process holds that
	// transaction open.
	IndexerStall(ctx context.Context) (repository.IndexerStall, error)
}

// Worker indexes messages. Any number of workers may run on one store, in any number of processes. Only the worker that
// holds the indexer lease works; all others wait to take over.
type Worker struct {
	cfg     Config
	store   Store
	decode  func(entity.Message) (class, message, stack string)
	maker   *fingerprint.Fingerprinter
	masks   *payload.Masks
	hidden  func(*entity.Message) entity.MaskedFields
	schemas Schemas // nil when nothing is decoded
	fields  bool    // whether documents get the fields that facets count
	load    LoadReporter
	metrics *metrics
	log     *zap.Logger

	owner   uuid.UUID
	version int64

	// The following fields are used only by Run.
	held   time.Time // last renewal of the lease; zero when this worker does not hold it
	first  uuid.UUID // id of the first message of the previous batch
	outage outage.Log
	pace   pace

	classified    time.Time // when classify last found no message that it could move
	asked, warned time.Time // times of the last check for a stall, and of the last warning about a stall
}

// New returns a worker. decode returns the error class, error message and stack trace of a message, from which the
// worker makes its fingerprint; it is called only for messages without an error group of their own. hidden reports
// which fields of a message come from masked headers; the worker leaves them out of the document. The worker registers
// its metrics with registry. As soon as New is called, searches of the store use only documents that were made with cfg
// and masks.
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

// Option changes the worker that New returns.
type Option func(*Worker)

// WithSchemas makes the worker decode keys and values that have a schema in a registry. Without this option they are
// indexed as they are stored.
func WithSchemas(s Schemas) Option { return func(w *Worker) { w.schemas = s } }

// WithLoad makes the worker work without pauses while messages wait and the store is not under load. Without this
// option the worker works at most half of the time.
func WithLoad(store LoadReporter) Option { return func(w *Worker) { w.load = store } }

// Run works until ctx ends, and then gives up the lease, so that another worker takes over at once. It must not run
// twice at the same time. When the store becomes unavailable, Run logs that once, and tries again until the store
// answers.
func (w *Worker) Run(ctx context.Context) {
	defer w.release(ctx)
	for rest := w.cfg.Interval; ctx.Err() == nil; {
		began := time.Now()
		worked, more, err := w.step(ctx)
		w.outage.Report(ctx, w.log, err, "messages cannot be indexed; searches do not find new ones; retrying", "messages are indexed again")
		switch {
		case more && !worked: // schemas that cannot be read now
			rest = min(time.Since(began), maxWait)
		case more:
			rest = min(w.pace.rest(ctx, w.load, time.Since(began)), maxWait)
		case worked:
			rest = w.cfg.Interval
		default:
			rest = min(max(2*rest, w.cfg.Interval), max(maxWait, w.cfg.Interval))
		}
		wait.Sleep(ctx, rest)
	}
}

// step indexes one batch of messages. worked reports whether the step has done anything, and more reports whether
// further messages wait.
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
	// The store returns the same message first again when the stored document does not count for it. The loop must then
	// pause, because it would otherwise index that message for ever without a pause.
	again := messages[0].ID == w.first
	w.first = messages[0].ID
	return !again, !again && (len(messages) > w.cfg.Batch/2 || bytes > maxBytes/2), nil
}

// watch sets metrics once a minute, and logs a warning when a transaction of the store stays open for long. The
// messages that this transaction stores are not lost, but searches find them late. Until it ends, each poll of the
// worker costs more.
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

// hold renews the lease when a renewal is due, and reports whether this worker holds the lease.
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

// keep stores documents. When the store rejects one of them, keep stores that document without its text and terms.
// Searches then do not find its message, but they find all others.
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

// release ends the lease if this worker holds it.
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

// classifyInterval is how long classify waits before it looks for unclassified messages again, after it has found none
// that it could move.
const classifyInterval = 10 * time.Second

// classify moves messages from the group entity.Unclassified to error groups of their own, as far as the limits of
// their dead-letter topics allow. It reports whether it has moved any message.
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

// classifications returns, for each message whose failure was admitted, the error group to which it is moved.
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
