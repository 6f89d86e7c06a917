package postgres

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
)

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
	m := entity.Mapping{Version: r.Version, UpdatedAt: moment(r.UpdatedAt), UpdatedBy: r.UpdatedBy.String}
	for _, rule := range rules {
		m.Rules = append(m.Rules, entity.TopicRule(rule))
	}
	return m, nil
}

// Mapping implements repository.Mappings.
func (s *Store) Mapping(ctx context.Context) (entity.Mapping, error) {
	var found []mappingRow
	if err := s.selectRows(ctx, &found, `SELECT version, rules, updated_at, updated_by FROM dlq.topic_mapping`); err != nil {
		return entity.Mapping{}, translate("read the mapping", err)
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

// replaceQuery records the rules with their version in the audit trail: the previous rules are in the entry of the
// previous version.
const replaceQuery = `
	WITH changed AS (
		UPDATE dlq.topic_mapping SET version = version + 1, rules = $8::jsonb,
			updated_at = coalesce($2::timestamptz, clock_timestamp()), updated_by = $3
		WHERE version = $1
		RETURNING *
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, last_error,
			actor, reason, request_id, trace_id, operation_id)
		SELECT updated_at, 'replace', 'mapping', '00000000-0000-0000-0000-000000000000', version - 1, version, $9::text,
			` + causeFrom3 + `
		FROM changed
	)
	SELECT version, rules, updated_at, updated_by FROM changed`

// replacedQuery searches by the operation, which has one entry: the operation of a redrive replaces no mapping.
const replacedQuery = `SELECT EXISTS (SELECT FROM dlq.audit WHERE operation_id = $1::uuid AND action = 'replace')`

// ReplaceMapping implements repository.Mappings.
func (s *Store) ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.Cause) (entity.Mapping, error) {
	kept := make([]ruleJSON, len(rules))
	for i, r := range rules {
		kept[i] = ruleJSON{Pattern: clean(r.Pattern), Original: clean(r.Original)}
	}
	text, err := pack(kept)
	if err != nil {
		return entity.Mapping{}, fmt.Errorf("replace the mapping: %w", err)
	}
	cause = withOperation(cause)
	args := append([]any{expected, s.clock()}, causeArgs(cause)...)
	var found []mappingRow
	if err := s.selectRows(ctx, &found, replaceQuery, append(args, text, clean(repository.RulesText(rules)))...); err != nil {
		return entity.Mapping{}, translate("replace the mapping", err)
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

// replacedBefore handles a change that found another version: the same operation may have made that version.
func (s *Store) replacedBefore(ctx context.Context, operation uuid.UUID) (entity.Mapping, error) {
	var before []bool
	if err := s.selectRows(ctx, &before, replacedQuery, operation); err != nil {
		return entity.Mapping{}, translate("replace the mapping", err)
	}
	m, err := s.Mapping(ctx)
	if err != nil || len(before) > 0 && before[0] {
		return m, err
	}
	return entity.Mapping{}, &entity.MappingConflictError{Version: m.Version}
}

// Unmapped implements repository.Mappings, ties by name.
func (s *Store) Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]repository.UnmappedTopic, error) {
	var found []struct {
		Topic    string `db:"name"`
		Messages int64  `db:"messages"`
	}
	if err := s.selectRows(ctx, &found, `
		SELECT coalesce(t.name, '') AS name, sum(c.messages)::bigint AS messages
		FROM dlq.message_counters c LEFT JOIN dlq.topics t ON t.id = c.dlq_topic_id
		WHERE c.original_topic = '' GROUP BY 1 HAVING sum(c.messages) > 0`); err != nil {
		return nil, translate("list topics without an original", err)
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

// mapQuery sets the original topic of messages, $8, as the statements of operate change their status. A message that
// already has it from an operator is returned and not changed. The consumer groups that failed on the messages are
// recorded for the topic, as those of incoming records are: their offsets give the outcomes of records that are sent
// there.
var mapQuery = `
	WITH held AS MATERIALIZED (
		SELECT id, original_topic AS was, (original_topic = $8::text AND origin_confidence = 'operator') IS TRUE AS same,
			(original_topic <> $8::text AND origin_confidence = 'header') IS TRUE AS elsewhere
		FROM dlq.dlq_messages
		WHERE id = ANY ($1::uuid[])
		  AND (status IN ('PENDING', 'DEAD') AND ($9::bool OR origin_confidence IS DISTINCT FROM 'header')) IS TRUE
		  AND ` + leaseFrom10 + `
		ORDER BY id FOR NO KEY UPDATE
	), changed AS (
		UPDATE dlq.dlq_messages m SET original_topic = $8, origin_confidence = 'operator',
			original_partition = CASE WHEN NOT held.elsewhere THEN m.original_partition END,
			original_offset = CASE WHEN NOT held.elsewhere THEN m.original_offset END,
			updated_at = coalesce($2::timestamptz, clock_timestamp())
		FROM held WHERE m.id = held.id AND NOT held.same
		RETURNING m.*
	), given AS MATERIALIZED (
		SELECT DISTINCT $8::text AS topic, consumer_group FROM changed WHERE consumer_group <> ''
	), noted AS (` + noteGiven + `
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id)
		SELECT m.updated_at, 'map', 'message', m.id, h.was, m.original_topic, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + causeFrom3 + `
		FROM changed m JOIN held h ON h.id = m.id
	)
	SELECT id FROM held`

// mapMessages is Change with entity.RedriveMap.
func (s *Store) mapMessages(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error) {
	if !entity.ValidTopic(c.OriginalTopic) {
		return nil, fmt.Errorf("map messages: original topic %q: %w", c.OriginalTopic, entity.ErrInvalid)
	}
	cause = withOperation(cause)
	var changed []row
	args := slices.Concat([]any{uuids(c.IDs), s.clock()}, causeArgs(cause), []any{c.OriginalTopic, c.OverHeader}, leaseArgs(c.Lease))
	if err := s.selectRows(ctx, &changed, mapQuery, args...); err != nil {
		return nil, translate("map messages", err)
	}
	found := make([]uuid.UUID, len(changed))
	for i, f := range changed {
		found[i] = f.ID.UUID
	}
	if rest := without(c.IDs, changed); len(rest) > 0 {
		again, err := s.performedOn(ctx, cause.Operation, entity.ActionMap, rest)
		if err != nil {
			return nil, translate("map messages", err)
		}
		found = append(found, again...)
	}
	return found, nil
}
