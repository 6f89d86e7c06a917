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
	// oldest first, or without a group, with their bytes as far as maxBytes go in
	// all; a value longer than maxValue is not loaded.
	Uncatalogued(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error)

	// StoreDocuments keeps documents, each in place of one before. Where a document
	// has a Fingerprint, and the message no group, that becomes its group.
	StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error

	// CataloguedUntil is the moment until which every message is found; the zero
	// time when nothing is.
	CataloguedUntil(ctx context.Context) (time.Time, error)
}
