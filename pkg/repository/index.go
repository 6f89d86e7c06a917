package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// SearchIndex is the search index for free text, keys, headers and fields. It is built after messages are stored: a
// worker reads messages without an indexed document of the present version and stores documents. An archived message
// keeps its document; a deleted or purged one loses it.
type SearchIndex interface {
	// AcquireIndexerLease acquires the indexer lease for owner, unless another worker holds it, and sets the version that
	// searches answer from: documents of other versions are no longer found.
	AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)

	// SetIndexVersion limits searches of this Store to documents of that version, in addition to the version of the index:
	// another process may index under rules that mask less. Call it before any search; without it, only the version
	// of the index applies.
	SetIndexVersion(version int64)

	// Unindexed returns up to limit messages without a document of that version, or without an error group, with
	// their bytes, oldest first, archived ones last. Together they have at most maxBytes, but at least one message is
	// returned; a value longer than maxValue is not loaded. If version is not that of the index, it returns none.
	// Messages of a transaction that took more than some seconds are returned some minutes later.
	Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments stores documents and replaces earlier ones of the same messages. It skips documents of messages
	// that no longer exist and documents of another version than that of the index. If a document has a Fingerprint
	// and the message has no error group, that fingerprint becomes its group.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// Undecoded returns up to limit messages of DeferDecoding that are due, live or archived, with their bytes, the longest
	// due first. Together they have at most maxBytes, but at least one is returned; a value longer than maxValue is not
	// loaded.
	Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// DeferDecoding stores which documents lack the payload or the key, because a schema could not be read, and when the
	// messages are due again. The time doubles when a message is deferred again.
	DeferDecoding(ctx context.Context, deferred []DeferredDecoding) error

	// ForgetUndecoded takes back DeferDecoding. Unknown ids are ignored.
	ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error

	// CountUndecoded returns the number of messages of DeferDecoding, at most 1,000,000.
	CountUndecoded(ctx context.Context) (int, error)

	// Unclassified returns up to limit live messages of the group entity.Unclassified of their dead-letter topic,
	// with headers, without values, oldest first within a topic. Only topics that may still create error groups in
	// this hour are included. The messages together have at most maxBytes, but at least one is returned.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)

	// Classify moves messages from entity.Unclassified of their dead-letter topic into error groups that
	// AdmitFingerprints has created or knows. It skips messages that are deleted, archived, or already in another
	// group.
	Classify(ctx context.Context, moves []Classification) error

	// UnderLoad reports whether the store is under load: a redrive is sending, or messages arrive at hundreds per
	// second.
	UnderLoad(ctx context.Context) (bool, error)

	// IndexedUntil returns the time up to which the last call of Unindexed saw every live message, at the
	// latest IndexSettles before that call; the zero time when it was never called. Messages of a longer transaction
	// may be missing.
	IndexedUntil(ctx context.Context) (time.Time, error)

	// IndexerStall reports whether an open transaction keeps the indexer from knowing that it has seen all older
	// messages.
	IndexerStall(ctx context.Context) (IndexerStall, error)
}

// Classification assigns a message of DLQTopic to an error group.
type Classification struct {
	MessageID uuid.UUID
	DLQTopic  string
	Group     uuid.UUID
}

// IndexSettles is how long storing a message may take before the indexer may see it late.
const IndexSettles = time.Second

// IndexerStall is how long the indexer has waited for the oldest open transaction, and its holder. Other new
// messages are indexed meanwhile; the messages of that transaction are found late. The zero value: the indexer waits
// for none.
type IndexerStall struct {
	Age    time.Duration
	Holder string // for people; "" when the store does not report it
}

// DeferredDecoding is a message whose schema could not be read.
type DeferredDecoding struct {
	MessageID uuid.UUID
	First     time.Duration // until the message is due the first time, in whole seconds
	Longest   time.Duration // between two tries
}
