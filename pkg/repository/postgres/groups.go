package postgres

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// NoteFingerprints implements repository.Groups.
func (s *Store) NoteFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error {
	return errUnbuilt
}

// ErrorGroups implements repository.Groups.
func (s *Store) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	return nil, errUnbuilt
}

// ErrorGroup implements repository.Groups.
func (s *Store) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	return entity.ErrorGroup{}, errUnbuilt
}

// AnnotateGroup implements repository.Groups.
func (s *Store) AnnotateGroup(ctx context.Context, id uuid.UUID, a repository.Annotation, cause entity.Cause) error {
	return errUnbuilt
}

// TopicSummaries implements repository.Topics.
func (s *Store) TopicSummaries(ctx context.Context, visible *entity.TopicPatterns) ([]repository.TopicSummary, error) {
	return nil, errUnbuilt
}

// IngestPositions implements repository.Topics.
func (s *Store) IngestPositions(ctx context.Context) ([]repository.IngestPosition, error) {
	return nil, errUnbuilt
}
