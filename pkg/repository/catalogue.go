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

	// AnswerFrom says of which version documents must be, beside being of the
	// catalogue's, for searches of this Store to find them: while another process
	// makes them by other rules, they may say what this one must not tell. Without it
	// the catalogue's version is enough. It is to be called before any search.
	AnswerFrom(version int64)

	// Uncatalogued returns up to limit messages without a document of that version,
	// or without a group, oldest first, those of the archive behind the others, with
	// their bytes: no more messages than maxBytes allow in all, but the first always;
	// a value longer than maxValue is not loaded. For another version than the
	// catalogue's there are none. One that is stored by a transaction of more than
	// some seconds is returned some minutes later.
	Uncatalogued(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments keeps documents, each in place of one before; those of messages
	// that are gone, and of another version than the catalogue's, are not kept. Where
	// a document has a Fingerprint, and the message no group, that becomes its group.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// Unclassified returns up to limit messages of the live table that are in the group
	// entity.Unclassified of their dead-letter topic, with their headers and without
	// their values: oldest first within a topic, only of topics that may still create
	// groups in this hour, and no more than maxBytes allow in all, but the first always.
	Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error)

	// Classify moves messages from entity.Unclassified of their dead-letter topic into
	// groups that AdmitFingerprints knows. Messages that are gone, archived, or in
	// another group by now are left as they are.
	Classify(ctx context.Context, moves []Classification) error

	// Crowded reports whether the store has more urgent work than payloads: a redrive
	// sends, or messages come in by the hundred a second.
	Crowded(ctx context.Context) (bool, error)

	// CataloguedUntil is the moment until which every message of the live table was
	// found when Uncatalogued last looked, at most CatalogueSettles before that look;
	// the zero time when it never did. A message that a transaction stored which took
	// longer than that may still be missing.
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
