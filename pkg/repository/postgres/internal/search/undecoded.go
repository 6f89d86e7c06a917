package search

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// undecodedQuery returns the messages that could not be decoded for the search index and are due for another try. It
// deletes the rows of messages that no longer exist.
var undecodedQuery = `
	WITH due AS MATERIALIZED (
		SELECT message_id AS id, due_at FROM dlq.undecoded_messages
		WHERE due_at <= coalesce($4::timestamptz, clock_timestamp()) ORDER BY due_at LIMIT $1
	), known AS MATERIALIZED (
		SELECT d.id, false AS archived, NULL::timestamptz AS at, d.due_at FROM due d
		WHERE EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.id)
		UNION ALL
		SELECT d.id, true, kept.archived_at, d.due_at FROM due d JOIN dlq.archive_ids kept ON kept.id = d.id
	), gone AS (
		DELETE FROM dlq.undecoded_messages WHERE message_id = ANY (ARRAY(SELECT id FROM due EXCEPT SELECT id FROM known))
	), picked AS MATERIALIZED (
		SELECT id, archived, at, row_number() OVER (ORDER BY due_at, id) AS ord FROM known
	), ` + chosenMessages(2, 3) + `
	SELECT * FROM (
		` + pendingOf("dlq.messages", "NOT k.archived", 3) + `
		UNION ALL
		` + pendingOf("dlq.archived_messages", "k.archived AND m.archived_at = k.at", 3) + `
	) both_tables ORDER BY ord`

// Undecoded implements repository.SearchIndex.
func (s *Indexer) Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	var found []pendingRow
	if err := s.db.Select(ctx, &found, undecodedQuery, limit, maxBytes, maxValue, s.db.Clock()); err != nil {
		return nil, conn.Translate("find messages to decode", err)
	}
	return pendingMessages("find messages to decode", found)
}

// deferDecodingQuery sets when decoding a message is tried again. The pause doubles with every try. $2 and $3 are the
// first and the longest pause of each message in seconds.
const deferDecodingQuery = `
	INSERT INTO dlq.undecoded_messages AS u (message_id, due_at)
	SELECT x.id, coalesce($4::timestamptz, clock_timestamp()) + x.first * interval '1 second'
	FROM unnest($1::uuid[], $2::int[], $3::int[]) AS x (id, first, longest) ORDER BY x.id
	ON CONFLICT (message_id) DO UPDATE SET tries = least(u.tries + 1, 30),
		due_at = coalesce($4::timestamptz, clock_timestamp()) + interval '1 second' * (
			SELECT least(x.longest, x.first * 2 ^ least(u.tries, 20))
			FROM unnest($1::uuid[], $2::int[], $3::int[]) AS x (id, first, longest) WHERE x.id = u.message_id)`

// DeferDecoding implements repository.SearchIndex.
func (s *Indexer) DeferDecoding(ctx context.Context, deferred []repository.DeferredDecoding) error {
	ids := make([]uuid.UUID, len(deferred))
	first, longest := codec.NewArray(codec.OIDInt4, len(deferred), 4), codec.NewArray(codec.OIDInt4, len(deferred), 4)
	for i, d := range deferred {
		ids[i] = d.MessageID
		first.Int32(int32(d.First.Seconds()))
		longest.Int32(int32(d.Longest.Seconds()))
	}
	err := s.db.Exec(ctx, deferDecodingQuery, codec.UUIDArray(ids), first.Arg(), longest.Arg(), s.db.Clock())
	return conn.Translate("defer the decoding of messages", err)
}

// ForgetUndecoded implements repository.SearchIndex.
func (s *Indexer) ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error {
	err := s.db.Exec(ctx, `DELETE FROM dlq.undecoded_messages WHERE message_id = ANY ($1::uuid[])`, codec.UUIDArray(ids))
	return conn.Translate("forget decoded messages", err)
}

// CountUndecoded implements repository.SearchIndex.
func (s *Indexer) CountUndecoded(ctx context.Context) (int, error) {
	var count []int
	err := s.db.Select(ctx, &count, `SELECT count(*) FROM (SELECT FROM dlq.undecoded_messages LIMIT 1000000) first_rows`)
	if err != nil || len(count) == 0 {
		return 0, conn.Translate("count undecoded messages", err)
	}
	return count[0], nil
}
