package ingest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
)

// returnMatch is a message of a batch that was recognised as the return of an attempt.
type returnMatch struct {
	message   int // index of the message in the batch
	attempt   uuid.UUID
	redrive   uuid.UUID // redrive that made the attempt; uuid.Nil for none
	byContent bool
	claimed   bool // whether the attempt has no result yet; set only for returns that were recognised by their key and value
	confirmed bool // whether the message arrived in the dead-letter topic of its parent, or in one that is declared for its original topic
}

// returns finds the messages of a batch that are returns: dead letters of records that attempts have sent.
type returns struct{ db *conn.DB }

// withParents finds the returns among the messages of a batch. It returns the matches, and the messages with the
// returns as children of their parents. When there are returns, these messages are copies of those in the batch.
// withParents may run before the messages are stored, because attempts are deleted only together with their message.
func (s returns) withParents(ctx context.Context, batch repository.Batch, hashes []int64) ([]entity.Message, []returnMatch, error) {
	messages := batch.Messages
	declared := declarations(batch)
	children, err := s.returnsByHeaders(ctx, messages, declared)
	if err != nil {
		return nil, nil, err
	}
	if batch.ReturnWindow > 0 {
		found, err := s.returnsByContent(ctx, messages, hashes, batch.ReturnWindow, declared, children)
		if err != nil {
			return nil, nil, err
		}
		children = append(children, found...)
	}
	if len(children) == 0 {
		return messages, nil, nil
	}
	messages = slices.Clone(messages)
	back := make([]returnMatch, len(children))
	for i, c := range children {
		messages[c.message].Descend(&c.parent)
		back[i] = c.returnMatch
	}
	return messages, back, nil
}

// declarations returns a function that reports whether the configuration declares the dead-letter topic in which a
// message of the batch arrived for the message's original topic.
func declarations(batch repository.Batch) func(*entity.Message) bool {
	if batch.Declared == nil {
		return func(*entity.Message) bool { return false }
	}
	return batch.Declared
}

// child is a message that is a return, with the values that it inherits from its parent.
type child struct {
	returnMatch
	parent entity.Message // only the id and the root of the parent, and the retry count of the attempt
}

type childRow struct {
	Ord        int           `db:"ord"`
	Attempt    uuid.UUID     `db:"attempt_id"`
	Redrive    uuid.NullUUID `db:"redrive_id"`
	Parent     uuid.UUID     `db:"parent_id"`
	Root       uuid.NullUUID `db:"root_id"`
	RetryCount int           `db:"retry_count"`
	Claimed    bool          `db:"claimed"`
	Confirmed  bool          `db:"confirmed"`
}

func (r *childRow) child(message int, byContent bool) child {
	return child{
		returnMatch: returnMatch{message: message, attempt: r.Attempt, redrive: r.Redrive.UUID, byContent: byContent, claimed: r.Claimed, confirmed: r.Confirmed},
		parent:      entity.Message{ID: r.Parent, Root: r.Root.UUID, RetryCount: r.RetryCount},
	}
}

// isConfirmed is the SQL expression that reports whether the return s is confirmed: it arrived in the dead-letter topic
// of its parent p, or in a dead-letter topic that is declared for its original topic.
const isConfirmed = `(s.declared OR coalesce(p.dlq_topic_id = s.dlq_topic_id, false)) AS confirmed`

// ParentQuery checks whether the attempts exist that the headers of records name. Such an attempt must be an attempt on
// the message that the headers name, live or archived. It must have sent its record to the topic in which this record
// failed. An attempt that has no result yet is found as the claim of its message.
const ParentQuery = `
	WITH said AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int4[], $5::bool[])
			WITH ORDINALITY AS s (parent, attempt, topic, dlq_topic_id, declared, ord)
	), parent AS (
		SELECT id, root_id, retry_count, original_topic, claim_id, claim_topic, claim_redrive_id, dlq_topic_id
		FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[])
		UNION ALL
		SELECT m.* FROM dlq.archive_ids kept CROSS JOIN LATERAL (
			SELECT id, root_id, retry_count, original_topic, claim_id, claim_topic, claim_redrive_id, dlq_topic_id
			FROM dlq.dlq_messages_archive a WHERE a.id = kept.id AND a.archived_at = kept.archived_at OFFSET 0
		) m WHERE kept.id = ANY ($1::uuid[])
		UNION ALL
		SELECT id, root_id, 0, NULL, NULL, NULL, NULL, dlq_topic_id FROM dlq.archive_ids
		WHERE id = ANY ($1::uuid[]) AND object_id IS NOT NULL
	)
	SELECT s.ord, s.attempt AS attempt_id, p.id AS parent_id, p.root_id,
		coalesce(a.retry_count, p.retry_count) AS retry_count,
		CASE WHEN a.message_id IS NULL THEN p.claim_redrive_id ELSE a.redrive_id END AS redrive_id,
		` + isConfirmed + `
	FROM said s JOIN parent p ON p.id = s.parent
	LEFT JOIN dlq.attempts a ON a.message_id = s.parent AND a.attempt_id = s.attempt AND a.target_topic = s.topic
	WHERE a.message_id IS NOT NULL
	   OR p.claim_id = s.attempt AND coalesce(p.claim_topic, p.original_topic) = s.topic
	ORDER BY s.ord`

// returnsByHeaders finds the returns among the messages that have a Return. When no message has one, it sends no query.
func (s returns) returnsByHeaders(
	ctx context.Context, messages []entity.Message, isDeclared func(*entity.Message) bool,
) ([]child, error) {
	var said []int
	for i := range messages {
		if messages[i].Return != nil {
			said = append(said, i)
		}
	}
	if len(said) == 0 {
		return nil, nil
	}
	n := len(said)
	parents, attempts, topics := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 24)
	deadLetters, declared := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDBool, n, 1)
	for _, i := range said {
		parents.UUID(messages[i].Return.Parent)
		attempts.UUID(messages[i].Return.Attempt)
		topics.Text(messages[i].OriginalTopic)
		deadLetters.Int32(messages[i].Source.TopicID)
		declared.Bool(isDeclared(&messages[i]))
	}
	var found []childRow
	err := s.db.Select(ctx, &found, ParentQuery, parents.Arg(), attempts.Arg(), topics.Arg(), deadLetters.Arg(), declared.Arg())
	if err != nil {
		return nil, err
	}
	children := make([]child, len(found))
	for i := range found {
		children[i] = found[i].child(said[found[i].Ord-1], false)
	}
	return children, nil
}

// sentSame is the SQL condition that the attempt a was acknowledged within the last $1 microseconds, and sent a record
// with the hash of the record s to the same topic. $2 is the present time, or NULL for the database's clock. The
// condition uses now() and not clock_timestamp(), because an index needs a time that does not change during the
// statement.
const sentSame = `
	a.record_hash = s.record_hash AND a.to_status = 'RESOLVED' AND a.verdict = 'acknowledged' AND a.target_topic = s.topic
	AND a.ended_at >= coalesce($2::timestamptz, now()) - $1::bigint * interval '1 microsecond'`

// begunInWindow is the condition that the claim of the message m began within the last $1 microseconds; IS TRUE keeps
// PostgreSQL from using an index for it. claimed is the condition that m has such a claim; it begins with the predicate
// of the index idx_dlq_messages_claimed_hash, see claimQuery. editClaims joins each edit e with the claim whose attempt
// sends it; because of OFFSET 0, PostgreSQL finds the message by its primary key.
const (
	begunInWindow = `(m.last_retry_at >= coalesce($2::timestamptz, now()) - $1::bigint * interval '1 microsecond') IS TRUE`
	claimed       = `(m.status = 'RETRYING') IS TRUE AND m.claim_id IS NOT NULL AND ` + begunInWindow
	editClaims    = `dlq.edits e CROSS JOIN LATERAL (
			SELECT m.id, m.claim_id, m.claim_redrive_id, m.retry_count, m.last_retry_at, m.record_hash,
				coalesce(m.claim_topic, m.original_topic) AS topic
			FROM dlq.dlq_messages m WHERE m.id = e.message_id AND m.claim_id = e.attempt_id AND ` + begunInWindow + ` OFFSET 0
		) m`
)

// sentQuery runs for every batch. It returns the numbers of those records of the batch that attempts have sent, or are
// sending, according to their hash and topic. It makes one index look-up in dlq.attempts for each different record, and
// reads the index of claims once. It finds each attempt exactly once: as a claim or, after the attempt has ended, as a
// row of dlq.attempts.
const sentQuery = `
	SELECT s.ord FROM unnest($3::bigint[], $4::text[]) WITH ORDINALITY AS s (record_hash, topic, ord)
	CROSS JOIN LATERAL (SELECT 1 FROM dlq.attempts a WHERE ` + sentSame + ` LIMIT 1) a
	UNION ALL
	SELECT s.ord FROM (
		SELECT m.record_hash, coalesce(m.claim_topic, m.original_topic) AS topic FROM dlq.dlq_messages m
		WHERE m.record_hash = ANY ($3::bigint[]) AND ` + claimed + `
		UNION ALL
		SELECT e.record_hash, m.topic FROM ` + editClaims + `
		WHERE e.record_hash = ANY ($3::bigint[]) AND e.record_hash <> 0
	) c JOIN unnest($3::bigint[], $4::text[]) WITH ORDINALITY AS s (record_hash, topic, ord)
		ON s.record_hash = c.record_hash AND s.topic = c.topic`

// sentBytes is the condition that an attempt on the message m sent the key and the value of the record s; e is the edit
// of the attempt, if there is one. A value that a redrive's patch made is not stored. In this case the condition
// compares only the key, because the equal hash is sufficient for the value.
const sentBytes = `
	CASE WHEN e.set_key THEN e.key ELSE m.key END = s.key
	AND CASE WHEN e.patch IS NOT NULL THEN true WHEN e.set_value THEN e.value = s.value ELSE m.value = s.value END`

// sameQuery finds the attempts that sent one of the records that sentQuery returned. For each record it returns the
// latest attempts, but no more attempts than the batch contains messages with this record. An attempt must have sent
// the same bytes. If its return would be confirmed, it must have no confirmed return yet; otherwise it must have no
// unconfirmed return by content yet. When the message that was sent is in an archive object, the database cannot
// compare its bytes, and the equal hash is sufficient.
var sameQuery = `
	SELECT s.ord, c.attempt_id, c.redrive_id, c.retry_count, c.claimed, c.confirmed, c.parent_id, c.root_id
	FROM unnest($3::bigint[], $4::text[], $5::bytea[], $6::bytea[], $7::int4[], $9::int4[], $10::bool[])
		WITH ORDINALITY AS s (record_hash, topic, key, value, messages, dlq_topic_id, declared, ord)
	CROSS JOIN LATERAL (
		SELECT a.attempt_id, a.redrive_id, a.retry_count, a.claimed, p.id AS parent_id, p.root_id, a.sent_at, p.confirmed
		FROM (
			SELECT a.message_id, a.attempt_id, a.redrive_id, a.retry_count, false AS claimed, a.ended_at AS sent_at
			FROM dlq.attempts a WHERE ` + sentSame + `
			UNION ALL
			SELECT m.id, m.claim_id, m.claim_redrive_id, m.retry_count, true, m.last_retry_at
			FROM dlq.dlq_messages m
			WHERE m.record_hash = s.record_hash AND coalesce(m.claim_topic, m.original_topic) = s.topic AND ` + claimed + `
			  AND ` + messages.SentHashOf("m", "id", "claim_id") + ` = s.record_hash
			UNION ALL
			SELECT m.id, m.claim_id, m.claim_redrive_id, m.retry_count, true, m.last_retry_at
			FROM ` + editClaims + `
			WHERE e.record_hash = s.record_hash AND e.record_hash <> 0 AND m.topic = s.topic
			  AND m.record_hash IS DISTINCT FROM s.record_hash
		) a
		LEFT JOIN dlq.edits e ON e.message_id = a.message_id AND e.attempt_id = a.attempt_id
		CROSS JOIN LATERAL (
			SELECT p.id, p.root_id, ` + isConfirmed + ` FROM (
			SELECT id, root_id, dlq_topic_id FROM dlq.messages m WHERE m.id = a.message_id AND ` + sentBytes + `
			UNION ALL
			SELECT m.id, m.root_id, m.dlq_topic_id FROM dlq.archive_ids kept JOIN dlq.archived_messages m ON m.id = kept.id AND m.archived_at = kept.archived_at
			WHERE kept.id = a.message_id AND ` + sentBytes + `
			UNION ALL
			SELECT id, root_id, dlq_topic_id FROM dlq.archive_ids WHERE id = a.message_id AND object_id IS NOT NULL
			) p
		) p
		WHERE NOT a.attempt_id = ANY ($8::uuid[])
		  AND CASE WHEN p.confirmed THEN NOT EXISTS (SELECT FROM dlq.returns r WHERE r.attempt_id = a.attempt_id)
		           ELSE NOT EXISTS (SELECT FROM dlq.unconfirmed_returns r WHERE r.attempt_id = a.attempt_id AND r.by_content) END
		ORDER BY p.confirmed DESC, a.sent_at DESC, p.id DESC LIMIT s.messages
	) c
	ORDER BY s.ord, c.confirmed DESC, c.sent_at DESC, c.parent_id DESC`

// contentKey identifies messages of a batch that may be returns of the same attempts: their original topic, the hash of
// their record, and their dead-letter topic.
type contentKey struct {
	topic      string
	hash       int64
	deadLetter int32 // id of the messages' dead-letter topic
}

// returnsByContent finds the parents of messages whose headers name no attempt, because frameworks may drop the headers
// of dlq-manager. It matches at most one confirmed and one unconfirmed return to an attempt. The parameter other
// contains the returns that were found by headers; an attempt that has a confirmed return among them is not matched.
func (s returns) returnsByContent(
	ctx context.Context, messages []entity.Message, hashes []int64, window time.Duration, isDeclared func(*entity.Message) bool,
	other []child,
) ([]child, error) {
	alike, order := group(messages, hashes)
	if len(order) == 0 {
		return nil, nil
	}
	wanted, topics := codec.NewArray(codec.OIDInt8, len(order), 8), codec.NewArray(codec.OIDText, len(order), 24)
	for _, l := range order {
		wanted.Int64(l.hash)
		topics.Text(l.topic)
	}
	var sent []int
	err := s.db.Select(ctx, &sent, sentQuery, window.Microseconds(), s.db.Clock(), wanted.Arg(), topics.Arg())
	if err != nil || len(sent) == 0 {
		return nil, err
	}
	slices.Sort(sent)
	sent = slices.Compact(sent)
	same := sameArgs{window: window.Microseconds(), moment: s.db.Clock()}
	for _, ord := range sent {
		l := order[ord-1]
		same.add(l, messages, alike[l], isDeclared)
	}
	for _, c := range other {
		if c.confirmed {
			same.taken = append(same.taken, c.attempt)
		}
	}
	return s.match(ctx, same)
}

// group groups those messages that can be recognised by their content. alike contains the indexes of the messages with
// each contentKey, and order contains each contentKey once, in the order of the messages.
func group(messages []entity.Message, hashes []int64) (alike map[contentKey][]int, order []contentKey) {
	for i := range messages {
		m := &messages[i]
		if m.Return != nil || m.OriginalTopic == "" || hashes[i] == 0 {
			continue
		}
		l := contentKey{topic: m.OriginalTopic, hash: hashes[i], deadLetter: m.Source.TopicID}
		if alike == nil {
			alike = make(map[contentKey][]int)
		}
		if _, known := alike[l]; !known {
			order = append(order, l)
		}
		alike[l] = append(alike[l], i)
	}
	return alike, order
}

// sameArgs contains the arguments of sameQuery. For each contentKey, groups contains the indexes of its messages, all
// of which have equal records.
type sameArgs struct {
	window int64
	moment any
	like   []contentKey
	first  []*entity.Message
	groups [][]int
	// declared says, for each contentKey, whether the dead-letter topic of its messages is declared for their original
	// topic.
	declared []bool
	taken    []uuid.UUID // attempts that already have a confirmed return among the messages of this batch
}

// add adds those messages with the contentKey l whose record is equal to that of the first one. Other messages with the
// same hash are left out, because they are too rare to be worth another query.
func (a *sameArgs) add(l contentKey, messages []entity.Message, alike []int, isDeclared func(*entity.Message) bool) {
	first := &messages[alike[0]]
	a.declared = append(a.declared, isDeclared(first))
	a.like, a.first = append(a.like, l), append(a.first, first)
	a.groups = append(a.groups, slices.DeleteFunc(alike, func(i int) bool { return !sameRecord(first, &messages[i]) }))
}

func (a *sameArgs) args() []any {
	n := len(a.groups)
	hashes, topics, counts := codec.NewArray(codec.OIDInt8, n, 8), codec.NewArray(codec.OIDText, n, 24), codec.NewArray(codec.OIDInt4, n, 4)
	keys, values := codec.NewArray(codec.OIDBytea, n, 64), codec.NewArray(codec.OIDBytea, n, 1024)
	deadLetters, declared := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDBool, n, 1)
	for i, l := range a.like {
		deadLetters.Int32(l.deadLetter)
		declared.Bool(a.declared[i])
		hashes.Int64(l.hash)
		topics.Text(l.topic)
		keys.Bytes(a.first[i].Record.Key)
		values.Bytes(a.first[i].Record.Value)
		counts.Int32(int32(len(a.groups[i])))
	}
	return []any{
		a.window, a.moment, hashes.Arg(), topics.Arg(), keys.Arg(), values.Arg(), counts.Arg(), codec.UUIDArray(a.taken),
		deadLetters.Arg(), declared.Arg(),
	}
}

// match finds the attempts that sent the record of each contentKey. It assigns each attempt to the next message with
// this contentKey.
func (s returns) match(ctx context.Context, same sameArgs) ([]child, error) {
	var found []childRow
	if err := s.db.Select(ctx, &found, sameQuery, same.args()...); err != nil {
		return nil, err
	}
	// Equal messages in several dead-letter topics have different contentKeys, so the query may return the same attempt
	// for several contentKeys. The attempt is then assigned only once as confirmed and once as unconfirmed.
	type place struct {
		attempt   uuid.UUID
		confirmed bool
	}
	taken := make(map[place]bool, len(found))
	children := make([]child, 0, len(found))
	for i := range found {
		p := place{found[i].Attempt, found[i].Confirmed}
		if taken[p] {
			continue
		}
		taken[p] = true
		g := found[i].Ord - 1
		children = append(children, found[i].child(same.groups[g][0], true))
		same.groups[g] = same.groups[g][1:]
	}
	return children, nil
}

func sameRecord(a, b *entity.Message) bool {
	return bytes.Equal(a.Record.Key, b.Record.Key) && bytes.Equal(a.Record.Value, b.Record.Value)
}

// takenMeanwhile reports whether a batch was not stored because another batch has just stored a return of the same
// attempt. When the caller searches again, it finds a different attempt or none.
func takenMeanwhile(err error) bool {
	return conn.Violates(err, "23505", "returns_pkey") || conn.Violates(err, "23505", "idx_unconfirmed_returns_content")
}
