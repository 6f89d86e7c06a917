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
// the database would have. Until EngineFilled is called, searches of the database find documents of both versions.
// UseEngine must be called before any other method.
func (s *Indexer) UseEngine(version, served int64) {
	s.engine = engineOf{otherEngine, sql.NullInt64{Int64: served, Valid: true}}
	s.scopes.version.Store(&[]int64{version, served})
}

// EngineState returns the version of the search index. serves reports whether the search engine has all documents of
// this version, so that it can answer searches.
func (s *Indexer) EngineState(ctx context.Context) (version int64, serves bool, err error) {
	var found []struct {
		Version sql.NullInt64 `db:"version"`
		Serves  bool          `db:"serves"`
	}
	err = s.db.Select(ctx, &found, `SELECT version, engine <> $1 AND served_version IS NULL AS serves FROM dlq.search_index`, postgresEngine)
	if err != nil || len(found) == 0 {
		return 0, false, conn.Translate("read the state of the search index", err)
	}
	return found[0].Version.Int64, found[0].Serves, nil
}

// EngineFilled records that the search engine has all documents of the version. From then on the engine answers all
// searches that need the search index.
func (s *Indexer) EngineFilled(ctx context.Context, version int64) error {
	err := s.db.Exec(ctx, `UPDATE dlq.search_index SET served_version = NULL WHERE version = $1 AND served_version IS NOT NULL`, version)
	return conn.Translate("use the search engine", err)
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

// EngineDays returns, for each day, the number of documents of the given version that the search engine should have,
// and a checksum of their ids. The earliest day comes first.
func (s *Indexer) EngineDays(ctx context.Context, version int64) ([]repository.EngineDay, error) {
	var found []struct {
		Day       time.Time `db:"day"`
		Documents int64     `db:"documents"`
		Sum       int64     `db:"sum"`
	}
	err := s.db.Select(ctx, &found, `
		SELECT date_trunc('day', least(greatest(created_at, '1999-12-31 00:00Z'), '2100-01-01 00:00Z'), 'UTC') AS day, count(*) AS documents,
			sum(('x' || right(message_id::text, 6))::bit(24)::int)::bigint AS sum
		FROM dlq.message_documents WHERE version = $1 GROUP BY 1 ORDER BY 1`, version)
	if err != nil {
		return nil, conn.Translate("count the documents of the search engine", err)
	}
	days := make([]repository.EngineDay, len(found))
	for i, f := range found {
		days[i] = repository.EngineDay{Day: f.Day.UTC(), Documents: f.Documents, Sum: f.Sum}
	}
	return days, nil
}

// ofDay is the SQL condition that the document d belongs to the day $2 that EngineDays has returned.
const ofDay = `(d.created_at >= $2 OR $2 <= '1999-12-31 00:00Z') AND (d.created_at < $2::timestamptz + interval '1 day' OR $2 >= '2100-01-01 00:00Z')`

// EngineDocuments returns the ids of those messages of a day that should have a document of the given version in the
// search engine: at most limit ids that are higher than after, in their order.
func (s *Indexer) EngineDocuments(ctx context.Context, version int64, day time.Time, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	var found []uuid.UUID
	err := s.db.Select(ctx, &found, `SELECT d.message_id FROM dlq.message_documents d
		WHERE d.version = $1 AND `+ofDay+` AND d.message_id > $3 ORDER BY d.message_id LIMIT $4`, version, day, after, limit)
	return found, conn.Translate("read the documents of the search engine", err)
}

// IndexAgain makes Unindexed return those of the messages again that should have a document of the given version,
// because the search engine has lost these documents.
func (s *Indexer) IndexAgain(ctx context.Context, version int64, ids []uuid.UUID) error {
	err := s.db.Exec(ctx, `WITH lost AS (
			UPDATE dlq.message_documents d SET version = -1
			FROM (`+timesOfDocuments+`) k WHERE d.message_id = k.id AND d.created_at = k.created_at AND d.version = $2 RETURNING d.created_at
		)`+rewindFrom, codec.UUIDArray(ids), version)
	return conn.Translate("index messages again", err)
}

// IndexDayAgain does the same as IndexAgain for all messages of a day that EngineDays has returned.
func (s *Indexer) IndexDayAgain(ctx context.Context, version int64, day time.Time) error {
	err := s.db.Exec(ctx, `WITH lost AS (
			UPDATE dlq.message_documents d SET version = -1 WHERE d.version = $1 AND `+ofDay+` RETURNING d.created_at
		)`+rewindFrom, version, day)
	return conn.Translate("index a day again", err)
}

// rewindFrom moves the indexer's positions back to the earliest document in the step named lost.
const rewindFrom = `
	UPDATE dlq.search_index SET walked_at = least(walked_at, l.at), walked_id = ` + codec.ZeroUUID + `, mark = least(mark, l.at),
		archive_walked = '-infinity', archive_mark = '-infinity', found_until = least(found_until, l.at)
	FROM (SELECT min(created_at) AS at FROM lost) l WHERE l.at IS NOT NULL`

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
