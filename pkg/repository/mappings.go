package repository

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Mappings is the list of rules that say where dead letters belong.
type Mappings interface {
	// Mapping returns the rules.
	Mapping(ctx context.Context) (entity.Mapping, error)

	// ReplaceMapping sets the rules if they are still those of version expected, else
	// it is a *entity.MappingConflictError. The change is in the audit trail.
	ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.Cause) (entity.Mapping, error)

	// Unmapped returns the visible dead-letter topics that have messages of unknown
	// origin, the most of them first.
	Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]UnmappedTopic, error)
}

// UnmappedTopic is a dead-letter topic with messages of unknown origin; "" for
// rows that were put in by SQL.
type UnmappedTopic struct {
	DLQTopic string
	Messages int64
}
