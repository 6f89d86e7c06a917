package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Catalogue is what free text, keys, headers and fields are searched in. It is
// made behind the messages: a worker reads those without a document of the present
// version and stores documents. A message that is archived keeps its document, one
// that is deleted or purged loses it.
type Catalogue interface {
	// HoldCatalogue makes owner the one worker, for as long as lease, if nobody else
	// is, and sets the version that searches answer from: documents of another one
	// are not found any more.
	HoldCatalogue(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error)

	// AnswerFrom limits searches of this Store to documents of a version, besides being of
	// the catalogue's: another process may make them by rules that mask less. It is called
	// before any search; without it the catalogue's version is enough.
	AnswerFrom(version int64)

	// Uncatalogued returns up to limit messages without a document of that version, or
	// without a group, with their bytes, oldest first, archived ones last: no more than
	// maxBytes allow, but one at least; a value longer than maxValue is not loaded. For
	// another version than the catalogue's there are none. What a transaction of more than
	// some seconds stored is returned some minutes later.
	Uncatalogued(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments keeps documents, each in place of one before; those of messages
	// that are gone, and of another version than the catalogue's, are not kept. Where
	// a document has a Fingerprint, and the message no group, that becomes its group.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// Unclassified returns up to limit live messages of the group entity.Unclassified of
	// their dead-letter topic, with headers, without values: oldest first within a topic,
	// only of topics that may still create groups in this hour, no more than maxBytes
	// allow, but one at least.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)

	// Classify moves messages from entity.Unclassified of their dead-letter topic into
	// groups that AdmitFingerprints knows. Messages that are gone, archived, or in
	// another group by now are left as they are.
	Classify(ctx context.Context, moves []Classification) error

	// Crowded reports whether the store has more urgent work than payloads: a redrive
	// sends, or messages come in by the hundred a second.
	Crowded(ctx context.Context) (bool, error)

	// CataloguedUntil is the moment until which Uncatalogued found every live message when
	// it last looked, at most CatalogueSettles before that; the zero time when it never
	// did. What a longer transaction stored may be missing.
	CataloguedUntil(ctx context.Context) (time.Time, error)

	// CatalogueStall says whether a transaction that is not over keeps the catalogue
	// from being sure of what lies behind it.
	CatalogueStall(ctx context.Context) (CatalogueStall, error)
}

// Classification is the error group that a message of DLQTopic belongs to.
type Classification struct {
	MessageID uuid.UUID
	DLQTopic  string
	Group     uuid.UUID
}

// CatalogueSettles is how long messages may be on their way into the store.
const CatalogueSettles = time.Second

// CatalogueStall is how long the catalogue has waited for the oldest transaction,
// and which that is. New messages are found meanwhile; those that it stores itself
// are found late. The zero value: it waits for none.
type CatalogueStall struct {
	Age    time.Duration
	Holder string // for people; "" when the store does not tell
}
