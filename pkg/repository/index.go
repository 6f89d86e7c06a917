package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// SearchIndex is the search index for free text, keys, headers and fields. It is filled after messages are stored: a
// worker reads the messages that have no document of the present version and stores their documents. An archived
// message keeps its document. The document of a deleted or purged message is deleted too.
type SearchIndex interface {
	// AcquireIndexerLease gives the indexer lease to owner, unless another worker holds it, and sets the version of the
	// index. From then on searches do not find documents of other versions.
	AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)

	// SetIndexVersion limits searches of this Store to documents of that version, in addition to the version of the
	// index, because another process may fill the index with rules that mask less. Call it before any search. Without
	// this call only the version of the index applies.
	SetIndexVersion(version int64)

	// Unindexed returns up to limit messages that have no document of that version, or no error group. The messages
	// have their bytes; the oldest come first, archived messages last. Together they have at most maxBytes, but at
	// least one message is returned; a value longer than maxValue is not loaded. If version is not that of the index,
	// Unindexed returns no messages. When a transaction took more than some seconds to store messages, they are
	// returned some minutes later.
	Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments stores documents and replaces earlier ones of the same messages. It skips documents of messages
	// that no longer exist and documents of another version than that of the index. If a document has a Fingerprint
	// and the message has no error group, that fingerprint becomes its group.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// Undecoded returns up to limit of the messages that DeferDecoding stored and that are due, live or archived, with
	// their bytes; the message that has been due longest comes first. Together they have at most maxBytes, but at least
	// one message is returned; a value longer than maxValue is not loaded.
	Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// DeferDecoding stores which documents lack the payload or the key because a schema could not be read, and when to
	// try these messages again. Each time a message is deferred again, the time until its next try doubles.
	DeferDecoding(ctx context.Context, deferred []DeferredDecoding) error

	// ForgetUndecoded deletes what DeferDecoding stored for these messages. Unknown ids are ignored.
	ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error

	// CountUndecoded returns the number of messages that DeferDecoding stored, at most 1,000,000.
	CountUndecoded(ctx context.Context) (int, error)

	// Unclassified returns up to limit live messages of the group entity.Unclassified of their dead-letter topic, with
	// headers, without values, the oldest of each topic first. Only messages of topics that may still create error
	// groups in this hour are returned. Together they have at most maxBytes, but at least one is returned.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)

	// Classify moves messages from the group entity.Unclassified of their dead-letter topic to error groups that
	// AdmitFingerprints has admitted. It skips messages that were deleted, archived, or moved to another group
	// meanwhile.
	Classify(ctx context.Context, moves []Classification) error

	// UnderLoad reports whether the store is under load: a redrive is sending, or messages arrive at hundreds per
	// second.
	UnderLoad(ctx context.Context) (bool, error)

	// IndexedUntil returns a time: the last call of Unindexed found every live message that was stored before that time.
	// This time is at least IndexSettles before that call. It is zero when Unindexed was never called. Messages that a
	// longer transaction stores may be missing.
	IndexedUntil(ctx context.Context) (time.Time, error)

	// IndexerStall reports whether a transaction has been open for so long that the indexer cannot be sure to have
	// found all older messages.
	IndexerStall(ctx context.Context) (IndexerStall, error)
}

// Classification assigns a message of DLQTopic to an error group.
type Classification struct {
	MessageID uuid.UUID
	DLQTopic  string
	Group     uuid.UUID
}

// IndexSettles is the time that storing a message may take. When storing takes longer, the indexer may find the message
// late.
const IndexSettles = time.Second

// IndexerStall says how long the indexer has waited for the oldest open transaction, and which process holds it.
// Meanwhile the indexer indexes other new messages; it finds the messages of that transaction after the transaction has
// ended. The zero value means that the indexer does not wait.
type IndexerStall struct {
	Age    time.Duration
	Holder string // a description for people; "" when the store does not know it
}

// DeferredDecoding is a message whose schema could not be read.
type DeferredDecoding struct {
	MessageID uuid.UUID
	First     time.Duration // time until the first new try, in whole seconds
	Longest   time.Duration // maximum time between two tries
}
