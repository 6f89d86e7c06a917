package search

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// The values of the column engine of dlq.search_index, which says which engine has the search index.
const (
	postgresEngine = "postgres"
	otherEngine    = "opensearch"
)

// engineOf names the engine in which an Indexer stores its documents. While a search engine is being filled, served is
// the version of the documents in the database, with which the database still answers searches.
type engineOf struct {
	name   string
	served sql.NullInt64
}

// UseEngine makes the Indexer fill the search engine outside of the database: documents of the given version are stored
// in that engine, and the database stores only for which messages it has one. served is the version that documents in
// the database would have. Until EndFilling reports true, searches of the database find documents of both versions.
// UseEngine must be called before any other method.
func (s *Indexer) UseEngine(version, served int64) {
	s.engine = engineOf{otherEngine, sql.NullInt64{Int64: served, Valid: true}}
	s.scopes.version.Store(&[]int64{version, served})
}

// EngineState returns the state of the search index; its version is 0 before the first call of AcquireIndexerLease.
func (s *Indexer) EngineState(ctx context.Context) (repository.EngineState, error) {
	var found []struct {
		Version sql.NullInt64 `db:"version"`
		Serves  bool          `db:"serves"`
		Begun   bool          `db:"begun"`
		Filled  bool          `db:"filled"`
		Until   sql.NullTime  `db:"found_until"`
	}
	err := s.db.Select(ctx, &found, `SELECT version, engine <> $1 AND served_version IS NULL AS serves, filling_since IS NOT NULL AS begun, filled, found_until
		FROM dlq.search_index`, postgresEngine)
	if err != nil || len(found) == 0 {
		return repository.EngineState{}, conn.Translate("read the state of the search index", err)
	}
	f := found[0]
	return repository.EngineState{Version: f.Version.Int64, Serves: f.Serves, Begun: f.Begun, Filled: f.Filled, Until: codec.TimeOf(f.Until)}, nil
}

// BeginFilling notes that the engine has no documents of an earlier filling of that version, and from when on it is filled.
func (s *Indexer) BeginFilling(ctx context.Context, version int64) error {
	err := s.db.Exec(ctx, `UPDATE dlq.search_index SET filling_since = coalesce($2::timestamptz, clock_timestamp())
		WHERE version = $1 AND filling_since IS NULL`, version, s.db.Clock())
	return conn.Translate("begin to fill the search engine", err)
}

// endFillingQuery ends a filling when $2 says that no message waits, or when no message waits that was created before the
// filling began. found_until is the time of the first waiting message, except of archived and of some late ones.
const endFillingQuery = `
	UPDATE dlq.search_index k SET filled = true, served_version = NULL
	WHERE version = $1 AND NOT filled AND filling_since IS NOT NULL AND ($2 OR found_until >= filling_since
		AND NOT EXISTS (
			SELECT FROM dlq.dlq_messages_archive m
			WHERE m.archived_at >= k.archive_walked AND m.created_at < k.filling_since AND isfinite(m.created_at)
			  AND (SELECT d.version FROM dlq.message_documents d WHERE ` + documentOfM + `) IS DISTINCT FROM $1)
		AND NOT EXISTS (
			SELECT FROM dlq.late_messages l JOIN dlq.dlq_messages m ON m.id = l.message_id
			WHERE m.created_at < k.filling_since AND isfinite(m.created_at)
			  AND (SELECT d.version FROM dlq.message_documents d WHERE ` + documentOfM + `) IS DISTINCT FROM $1))
	RETURNING true`

// EndFilling makes the engine answer all further searches, if the messages that existed when BeginFilling was called have
// their documents. idle says that the last call of Unindexed found no message. The result reports whether this call ended the filling.
func (s *Indexer) EndFilling(ctx context.Context, version int64, idle bool) (ended bool, err error) {
	var found []bool
	err = s.db.Select(ctx, &found, endFillingQuery, version, idle)
	return len(found) > 0, conn.Translate("end the filling of the search engine", err)
}

// NextWrite returns the number of the next write to the search engine. It is higher than all numbers that were returned
// before.
func (s *Indexer) NextWrite(ctx context.Context) (int64, error) {
	var number []int64
	err := s.db.Select(ctx, &number, `SELECT nextval('dlq.search_writes')`)
	if err != nil || len(number) == 0 {
		return 0, conn.Translate("number a write to the search engine", err)
	}
	return number[0], nil
}

const engineFactsQuery = `
	SELECT m.id, m.created_at, m.original_topic, coalesce(t.name, '') AS dlq_topic, m.group_id, m.archived
	FROM (
		SELECT id, created_at, original_topic, dlq_topic_id, group_id, false AS archived
		FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[])
		UNION ALL
		SELECT a.id, a.created_at, a.original_topic, a.dlq_topic_id, a.group_id, true
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive a ON a.id = kept.id AND a.archived_at = kept.archived_at
		WHERE kept.id = ANY ($1::uuid[])
	) m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE isfinite(m.created_at)`

// EngineFacts returns what a document in the search engine says about its message besides the words: time, topics,
// error group, and whether it is archived. It leaves out messages that do not exist or are in an archive object, and
// messages that get no document.
func (s *Indexer) EngineFacts(ctx context.Context, ids []uuid.UUID) ([]repository.EngineFacts, error) {
	var found []struct {
		ID            uuid.UUID     `db:"id"`
		CreatedAt     time.Time     `db:"created_at"`
		OriginalTopic string        `db:"original_topic"`
		DLQTopic      string        `db:"dlq_topic"`
		Group         uuid.NullUUID `db:"group_id"`
		Archived      bool          `db:"archived"`
	}
	if err := s.db.Select(ctx, &found, engineFactsQuery, codec.UUIDArray(ids)); err != nil {
		return nil, conn.Translate("read messages for the search engine", err)
	}
	facts := make([]repository.EngineFacts, len(found))
	for i, f := range found {
		facts[i] = repository.EngineFacts{
			ID: f.ID, CreatedAt: f.CreatedAt.UTC(), OriginalTopic: f.OriginalTopic, DLQTopic: f.DLQTopic, Group: f.Group.UUID, Archived: f.Archived,
		}
	}
	return facts, nil
}

// EngineChanges returns the oldest changes of messages, at most limit, that are not stored in the search engine yet.
func (s *Indexer) EngineChanges(ctx context.Context, limit int) ([]repository.EngineChange, error) {
	var found []struct {
		Number    int64     `db:"number"`
		MessageID uuid.UUID `db:"message_id"`
	}
	if err := s.db.Select(ctx, &found, `SELECT number, message_id FROM dlq.search_changes ORDER BY number LIMIT $1`, limit); err != nil {
		return nil, conn.Translate("read changes for the search engine", err)
	}
	changes := make([]repository.EngineChange, len(found))
	for i, f := range found {
		changes[i] = repository.EngineChange(f)
	}
	return changes, nil
}

// ForgetEngineChanges deletes changes that are now stored in the search engine.
func (s *Indexer) ForgetEngineChanges(ctx context.Context, changes []repository.EngineChange) error {
	numbers := codec.NewArray(codec.OIDInt8, len(changes), 8)
	for _, c := range changes {
		numbers.Int64(c.Number)
	}
	err := s.db.Exec(ctx, `DELETE FROM dlq.search_changes WHERE number = ANY ($1::bigint[])`, numbers.Arg())
	return conn.Translate("forget changes for the search engine", err)
}

// inRange is the condition that the document d belongs to the range of documents from $2 to $3.
const inRange = `d.created_at >= coalesce($2::timestamptz, '-infinity') AND d.created_at < coalesce($3::timestamptz, 'infinity')`

func rangeArgs(version int64, r repository.EngineRange) []any {
	return []any{version, limitOf(r.From), limitOf(r.Before)}
}

// limitOf returns a time of an EngineRange as an argument of a query.
func limitOf(t time.Time) sql.NullTime { return sql.NullTime{Time: t, Valid: !t.IsZero()} }

// EngineRange returns the range of the newest documents whose messages were created before a time. It has about as many
// documents as limit says, or has no first time when there are no earlier ones.
func (s *Indexer) EngineRange(ctx context.Context, before time.Time, limit int) (repository.EngineRange, error) {
	var from []time.Time
	err := s.db.SelectUnprepared(ctx, &from, `SELECT created_at FROM dlq.message_documents
		WHERE created_at < coalesce($1::timestamptz, 'infinity') ORDER BY created_at DESC OFFSET $2 LIMIT 1`, limitOf(before), limit)
	r := repository.EngineRange{Before: before}
	if len(from) > 0 {
		r.From = from[0].UTC()
	}
	return r, conn.Translate("read the times of documents", err)
}

// EngineSum returns which documents of that version the engine should have in a range.
func (s *Indexer) EngineSum(ctx context.Context, version int64, r repository.EngineRange) (repository.EngineSum, error) {
	var found []struct {
		Documents int64 `db:"documents"`
		Digests   int64 `db:"digests"`
	}
	err := s.db.SelectUnprepared(ctx, &found, `
		SELECT count(*) AS documents, coalesce(sum(('x' || right(message_id::text, 6))::bit(24)::int), 0)::bigint AS digests
		FROM dlq.message_documents d WHERE version = $1 AND `+inRange, rangeArgs(version, r)...)
	if err != nil || len(found) == 0 {
		return repository.EngineSum{}, conn.Translate("count the documents of the search engine", err)
	}
	return repository.EngineSum(found[0]), nil
}

// EngineDocuments returns the ids of the messages in a range that have a document of that version in the engine, in
// their order after a given id.
func (s *Indexer) EngineDocuments(ctx context.Context, version int64, r repository.EngineRange, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	var found []uuid.UUID
	err := s.db.SelectUnprepared(ctx, &found, `SELECT d.message_id FROM dlq.message_documents d
		WHERE d.version = $1 AND `+inRange+` AND d.message_id > $4 ORDER BY d.message_id LIMIT $5`, append(rangeArgs(version, r), after, limit)...)
	return found, conn.Translate("read the documents of the search engine", err)
}

// IndexAgain makes Unindexed return those of the messages again that should have a document of the given version,
// because the search engine has lost these documents.
func (s *Indexer) IndexAgain(ctx context.Context, version int64, ids []uuid.UUID) error {
	err := s.db.Exec(ctx, `WITH lost AS MATERIALIZED (
			UPDATE dlq.message_documents d SET version = -1
			FROM (`+timesOfDocuments+`) k WHERE d.message_id = k.id AND d.created_at = k.created_at AND d.version = $2
			RETURNING d.message_id, d.created_at
		)`+rewindFrom, codec.UUIDArray(ids), version)
	return conn.Translate("index messages again", err)
}

// IndexRangeAgain does the same for all messages in a range.
func (s *Indexer) IndexRangeAgain(ctx context.Context, version int64, r repository.EngineRange) error {
	err := s.db.Exec(ctx, `WITH lost AS MATERIALIZED (
			UPDATE dlq.message_documents d SET version = -1 WHERE d.version = $1 AND `+inRange+` RETURNING d.message_id, d.created_at
		)`+rewindFrom, rangeArgs(version, r)...)
	return conn.Translate("index messages of a range again", err)
}

// rewindFrom moves the indexer's positions back to the first of the messages with lost documents.
const rewindFrom = `
	UPDATE dlq.search_index SET walked_at = least(walked_at, l.at), walked_id = ` + codec.ZeroUUID + `, mark = least(mark, l.at),
		archive_walked = least(archive_walked, a.at), archive_mark = least(archive_mark, a.at), found_until = least(found_until, l.at)
	FROM (SELECT min(created_at) AS at FROM lost) l,
		(SELECT min(k.archived_at) AS at FROM lost JOIN dlq.archive_ids k ON k.id = lost.message_id) a
	WHERE l.at IS NOT NULL`

// EngineScope returns the names of the existing topics that the patterns of a filter match.
func (s *Indexer) EngineScope(ctx context.Context, f entity.Filter, archived bool) (repository.EngineScope, error) {
	n, err := s.scopes.Resolve(ctx, f, codec.SourceOf(archived))
	if err != nil || n.Topics == nil && n.Visible == nil {
		return repository.EngineScope{}, conn.Translate("read topics", err)
	}
	var topics []TopicRow
	if err := s.db.Select(ctx, &topics, `SELECT id, name FROM dlq.topics`); err != nil {
		return repository.EngineScope{}, conn.Translate("read topics", err)
	}
	return repository.EngineScope{Topics: n.Topics.names(topics), Visible: n.Visible.names(topics)}, nil
}

func (s *topicSet) names(topics []TopicRow) *repository.EngineTopics {
	if s == nil {
		return nil
	}
	named := &repository.EngineTopics{Originals: s.Originals}
	for _, t := range topics {
		if slices.Contains(s.Numbers, t.ID) {
			named.DeadLetters = append(named.DeadLetters, t.Name)
		}
	}
	if s.Unnamed {
		named.DeadLetters = append(named.DeadLetters, "")
	}
	return named
}
