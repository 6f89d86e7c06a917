package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// parentQuery proves returns: the attempt that a record names must be one of the
// message that it names, live or archived, and have gone to the topic in which
// the record failed. An attempt without a result is still a claim.
const parentQuery = `
	WITH said AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) WITH ORDINALITY AS s (parent, attempt, topic, ord)
	), parent AS (
		SELECT id, root_id, retry_count, original_topic, claim_id, claim_topic
		FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[])
		UNION ALL
		SELECT id, root_id, retry_count, original_topic, claim_id, claim_topic
		FROM dlq.dlq_messages_archive WHERE id = ANY ($1::uuid[])
	)
	SELECT s.ord, p.id, p.root_id, coalesce(a.retry_count, p.retry_count) AS retry_count
	FROM said s JOIN parent p ON p.id = s.parent
	LEFT JOIN dlq.attempts a ON a.message_id = s.parent AND a.attempt_id = s.attempt AND a.target_topic = s.topic
	WHERE a.message_id IS NOT NULL
	   OR p.claim_id = s.attempt AND coalesce(p.claim_topic, p.original_topic) = s.topic`

// withParents returns messages with those made children whose return can be
// proven. It is asked before they are stored: an attempt that exists does not
// cease to. A batch without returns, the usual one, asks nothing and is returned
// as it is; else the messages are copied, for they are the caller's.
func (s *Store) withParents(ctx context.Context, messages []entity.Message) ([]entity.Message, error) {
	var said []int
	for i := range messages {
		if messages[i].Return != nil {
			said = append(said, i)
		}
	}
	if len(said) == 0 {
		return messages, nil
	}
	messages = slices.Clone(messages)
	n := len(said)
	parents, attempts, topics := newColumn(oidUUID, n, 16), newColumn(oidUUID, n, 16), newColumn(oidText, n, 24)
	for _, i := range said {
		parents.uuid(messages[i].Return.Parent)
		attempts.uuid(messages[i].Return.Attempt)
		topics.text(messages[i].OriginalTopic)
	}
	var found []struct {
		Ord        int           `db:"ord"`
		ID         uuid.UUID     `db:"id"`
		Root       uuid.NullUUID `db:"root_id"`
		RetryCount int           `db:"retry_count"`
	}
	if err := s.selectRows(ctx, &found, parentQuery, parents.arg(), attempts.arg(), topics.arg()); err != nil {
		return nil, err
	}
	for _, f := range found {
		parent := entity.Message{ID: f.ID, Root: f.Root.UUID, RetryCount: f.RetryCount}
		messages[said[f.Ord-1]].Descend(&parent)
	}
	return messages, nil
}
