package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Search implements repository.Searcher.
func (s *Store) Search(ctx context.Context, q repository.SearchQuery) ([]entity.Message, error) {
	return nil, errUnbuilt
}

// CountMatching implements repository.Searcher.
func (s *Store) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	return repository.MatchCount{}, errUnbuilt
}

// Export implements repository.Searcher.
func (s *Store) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	return errUnbuilt
}

// GetArchived implements repository.Archive.
func (s *Store) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return entity.Message{}, errUnbuilt
}

// Restore implements repository.Archive.
func (s *Store) Restore(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	return entity.Message{}, errUnbuilt
}

// HoldCatalogue implements repository.Catalogue.
func (s *Store) HoldCatalogue(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
	return false, errUnbuilt
}

// Uncatalogued implements repository.Catalogue.
func (s *Store) Uncatalogued(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	return nil, errUnbuilt
}

// StoreDocuments implements repository.Catalogue.
func (s *Store) StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error {
	return errUnbuilt
}

// CataloguedUntil implements repository.Catalogue.
func (s *Store) CataloguedUntil(ctx context.Context) (time.Time, error) {
	return time.Time{}, errUnbuilt
}
