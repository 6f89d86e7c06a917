package repository

import (
	"context"
	"fmt"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Mappings is the list of rules that say where dead letters belong.
type Mappings interface {
	// Mapping returns the rules.
	Mapping(ctx context.Context) (entity.Mapping, error)

	// ReplaceMapping sets the rules if they are still those of version expected, else
	// it is a *entity.MappingConflictError. The change is in the audit trail, from
	// version to version, with RulesText of the new rules as its LastError: those
	// before are in the entry before.
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

// maxRulesText is how much of the rules the audit trail keeps, in bytes.
const maxRulesText = 8 << 10

// RulesText is rules as the audit trail shows them, one a line, and cut off where
// they are too long for it.
func RulesText(rules []entity.TopicRule) string {
	var text strings.Builder
	for i, r := range rules {
		line := r.Pattern + " -> " + r.Original + "\n"
		if text.Len()+len(line) > maxRulesText {
			fmt.Fprintf(&text, "... and %d more", len(rules)-i)
			break
		}
		text.WriteString(line)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
