package insight

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Mappings implements repository.Mappings.
type Mappings struct{ db *conn.DB }

// NewMappings returns Mappings that send their statements to db.
func NewMappings(db *conn.DB) *Mappings { return &Mappings{db} }

type mappingRow struct {
	Version   int64          `db:"version"`
	Rules     []byte         `db:"rules"`
	UpdatedAt sql.NullTime   `db:"updated_at"`
	UpdatedBy sql.NullString `db:"updated_by"`
}

type ruleJSON struct {
	Pattern  string `json:"pattern"`
	Original string `json:"original"`
}

func (r *mappingRow) mapping() (entity.Mapping, error) {
	var rules []ruleJSON
	if err := json.Unmarshal(r.Rules, &rules); err != nil {
		return entity.Mapping{}, fmt.Errorf("rules of the mapping: %w", err)
	}
	m := entity.Mapping{Version: r.Version, UpdatedAt: codec.TimeOf(r.UpdatedAt), UpdatedBy: r.UpdatedBy.String}
	for _, rule := range rules {
		m.Rules = append(m.Rules, entity.TopicRule(rule))
	}
	return m, nil
}

// Mapping implements repository.Mappings.
func (s *Mappings) Mapping(ctx context.Context) (entity.Mapping, error) {
	var found []mappingRow
	if err := s.db.Select(ctx, &found, `SELECT version, rules, updated_at, updated_by FROM dlq.topic_mapping`); err != nil {
		return entity.Mapping{}, conn.Translate("read the mapping", err)
	}
	if len(found) == 0 {
		return entity.Mapping{}, nil
	}
	m, err := found[0].mapping()
	if err != nil {
		return entity.Mapping{}, fmt.Errorf("read the mapping: %w", err)
	}
	return m, nil
}

// replaceQuery replaces the rules of the mapping, and writes the new rules with their version to the audit trail. It
// need not write the previous rules, because the audit entry of the previous version contains them.
const replaceQuery = `
	WITH changed AS (
		UPDATE dlq.topic_mapping SET version = version + 1, rules = $8::jsonb,
			updated_at = coalesce($2::timestamptz, clock_timestamp()), updated_by = $3
		WHERE version = $1
		RETURNING *
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT updated_at, 'replace', 'mapping', '00000000-0000-0000-0000-000000000000', version - 1, version, $9::text,
			` + audit.CauseFrom3 + `
		FROM changed
	)
	SELECT version, rules, updated_at, updated_by FROM changed`

// replacedQuery searches the audit trail by the operation. This is fast, because an operation that replaced the mapping
// has only one audit entry; only operations of redrives have many.
const replacedQuery = `SELECT EXISTS (SELECT FROM dlq.audit WHERE operation_id = $1::uuid AND action = 'replace')`

// ReplaceMapping implements repository.Mappings.
func (s *Mappings) ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.AuditInfo) (entity.Mapping, error) {
	kept := make([]ruleJSON, len(rules))
	for i, r := range rules {
		kept[i] = ruleJSON{Pattern: codec.Clean(r.Pattern), Original: codec.Clean(r.Original)}
	}
	text, err := codec.Pack(kept)
	if err != nil {
		return entity.Mapping{}, fmt.Errorf("replace the mapping: %w", err)
	}
	cause = audit.WithOperation(cause)
	args := append([]any{expected, s.db.Clock()}, audit.CauseArgs(cause)...)
	var found []mappingRow
	if err := s.db.Select(ctx, &found, replaceQuery, append(args, text, codec.Clean(repository.RulesText(rules)))...); err != nil {
		return entity.Mapping{}, conn.Translate("replace the mapping", err)
	}
	if len(found) > 0 {
		m, err := found[0].mapping()
		if err != nil {
			return entity.Mapping{}, fmt.Errorf("replace the mapping: %w", err)
		}
		return m, nil
	}
	return s.replacedBefore(ctx, cause.Operation)
}

// replacedBefore is called when the mapping was not replaced because it has another version than the caller expected.
// When the same operation has made that version, the driver has sent the statement twice, and replacedBefore returns
// the present mapping. Otherwise it returns an error.
func (s *Mappings) replacedBefore(ctx context.Context, operation uuid.UUID) (entity.Mapping, error) {
	var before []bool
	if err := s.db.Select(ctx, &before, replacedQuery, operation); err != nil {
		return entity.Mapping{}, conn.Translate("replace the mapping", err)
	}
	m, err := s.Mapping(ctx)
	if err != nil || len(before) > 0 && before[0] {
		return m, err
	}
	return entity.Mapping{}, &entity.MappingConflictError{Version: m.Version}
}

// Unmapped implements repository.Mappings. Topics with the same number of messages are ordered by name.
func (s *Mappings) Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]repository.UnmappedTopic, error) {
	var found []struct {
		Topic    string `db:"name"`
		Messages int64  `db:"messages"`
	}
	if err := s.db.Select(ctx, &found, `
		SELECT coalesce(t.name, '') AS name, sum(c.messages)::bigint AS messages
		FROM dlq.message_counters c LEFT JOIN dlq.topics t ON t.id = c.dlq_topic_id
		WHERE c.original_topic = '' GROUP BY 1 HAVING sum(c.messages) > 0`); err != nil {
		return nil, conn.Translate("list topics without an original", err)
	}
	var topics []repository.UnmappedTopic
	for _, f := range found {
		if visible == nil || visible.Match(f.Topic) {
			topics = append(topics, repository.UnmappedTopic{DLQTopic: f.Topic, Messages: f.Messages})
		}
	}
	slices.SortFunc(topics, func(a, b repository.UnmappedTopic) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.DLQTopic, b.DLQTopic))
	})
	return topics, nil
}
