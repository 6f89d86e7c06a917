package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// SearchIndex is the search index for free text, keys, headers and fields. Messages are indexed after they were stored:
// a worker reads the messages that have no document of the present version, and stores documents for them. An archived
// message keeps its document until it moves to an object. The document of a deleted or purged message is deleted too.
type SearchIndex interface {
	// AcquireIndexerLease gives the indexer lease to owner, unless another worker holds it, and sets the version of the
	// index. From then on searches do not find documents of other versions.
	AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)

	// SetIndexVersion limits searches of this Store to documents of that version, in addition to the version of the
	// index, because another process, with rules that mask less, may fill the index. Call it before any search. Without
	// this call only the version of the index applies.
	SetIndexVersion(version int64)

	// Unindexed returns up to limit messages that have no document of that version, or no error group, with key, value
	// and the first headers (as in Get). Live messages come before archived ones, and older messages before newer ones.
	// Together the messages have at most maxBytes bytes, but at least one message is returned; a value longer than
	// maxValue is not loaded. If version is not that of the index, Unindexed returns no messages. Messages that a
	// transaction of more than ten seconds stored may be returned only some minutes later.
	Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments stores documents and replaces earlier ones of the same messages. It skips documents of messages
	// that no longer exist and documents of another version than that of the index. If a document has a Fingerprint and
	// its message has no error group, the message is assigned to the error group of that fingerprint.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// Undecoded returns up to limit of the messages that DeferDecoding stored and that are due, live or archived, with
	// key, value and the first headers (as in Get); the message that has been due longest comes first. Together the
	// messages have at most maxBytes bytes, but at least one message is returned; a value longer than maxValue is not
	// loaded.
	Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// DeferDecoding stores that the documents of some messages lack the payload or the key, because a schema could not
	// be read, and when these messages are tried again. Each time a message is deferred again, the time until its next
	// try doubles.
	DeferDecoding(ctx context.Context, deferred []DeferredDecoding) error

	// ForgetUndecoded deletes what DeferDecoding stored for these messages. Other ids are ignored.
	ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error

	// CountUndecoded returns the number of messages for which DeferDecoding has stored something, but at most
	// 1,000,000.
	CountUndecoded(ctx context.Context) (int, error)

	// Unclassified returns up to limit live messages that belong to the group entity.Unclassified of their dead-letter
	// topic. They have their keys and headers but not their values, and are ordered by topic; within a topic, the
	// oldest come first. Only messages of topics that may still create error groups in this hour are returned. Together
	// the messages have at most maxBytes bytes, but at least one message is returned.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)

	// Classify moves messages from the group entity.Unclassified of their dead-letter topic to error groups that
	// AdmitFingerprints has admitted. It skips messages that were deleted, archived, or moved to another group
	// meanwhile.
	Classify(ctx context.Context, moves []Classification) error

	// UnderLoad reports whether the store is under load: a redrive that is not limited to a low rate is sending, or
	// messages arrive at hundreds per second.
	UnderLoad(ctx context.Context) (bool, error)

	// IndexedUntil returns the time before which every stored live message was found by the last call of Unindexed.
	// This time is at least IndexSettles before that call; it is zero when Unindexed was never called. Messages
	// that were stored by a transaction which took longer than IndexSettles may still be missing.
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

// IndexSettles is the time that a transaction may take to store messages. The indexer may find the messages of a longer
// transaction late.
const IndexSettles = time.Second

// IndexerStall says how long the indexer has waited for the oldest open transaction, and which process holds it. During
// this time the indexer indexes other new messages. It finds the messages of that transaction when the transaction has
// ended. The zero value means that the indexer does not wait.
type IndexerStall struct {
	Age    time.Duration
	Holder string // a description for people; "" when the store does not know it
}

// DeferredDecoding is a message whose schema could not be read.
type DeferredDecoding struct {
	MessageID uuid.UUID
	First     time.Duration // time until the first new try, in whole seconds
	Longest   time.Duration // maximum time between two tries, in whole seconds
}
