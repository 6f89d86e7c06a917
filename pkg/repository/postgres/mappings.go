package postgres

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Mapping implements repository.Mappings.
func (s *Store) Mapping(ctx context.Context) (entity.Mapping, error) {
	return entity.Mapping{}, errUnbuilt
}

// ReplaceMapping implements repository.Mappings.
func (s *Store) ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.Cause) (entity.Mapping, error) {
	return entity.Mapping{}, errUnbuilt
}

// Unmapped implements repository.Mappings.
func (s *Store) Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]repository.UnmappedTopic, error) {
	return nil, errUnbuilt
}

// Record implements repository.Audit.
func (s *Store) Record(ctx context.Context, entry entity.AuditEntry) error {
	return errUnbuilt
}

// PerformedOn implements repository.Audit.
func (s *Store) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	return nil, errUnbuilt
}
