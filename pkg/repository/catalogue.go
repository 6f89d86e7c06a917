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

	// Uncatalogued returns up to limit messages without a document of that version,
	// or without a group, oldest first, those of the archive behind the others, with
	// their bytes: no more messages than maxBytes allow in all, but the first always;
	// a value longer than maxValue is not loaded.
	Uncatalogued(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments keeps documents, each in place of one before; those of messages
	// that are gone are not kept. Where a document has a Fingerprint, and the message
	// no group, that becomes its group.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// CataloguedUntil is the moment until which every message of the live table was
	// found when Uncatalogued last looked; the zero time when it never did.
	CataloguedUntil(ctx context.Context) (time.Time, error)
}
