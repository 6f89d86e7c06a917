package search

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Indexer implements those methods of repository.SearchIndex that maintain the search index.
type Indexer struct {
	db     *conn.DB
	scopes *Scopes
	groups errorGroups
	engine engineOf
}

// errorGroups stores the fingerprints that describe error groups; package insight implements it.
type errorGroups interface {
	SaveFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error
}

// NewIndexer returns an Indexer. The version that SetIndexVersion sets also applies to all searches that use the given
// scopes.
func NewIndexer(db *conn.DB, scopes *Scopes, groups errorGroups) *Indexer {
	return &Indexer{db: db, scopes: scopes, groups: groups, engine: engineOf{name: postgresEngine}}
}

// acquireLeaseQuery takes or renews the indexer's lease. When the version of the search index has changed, it also
// resets the indexer's positions, so that all messages are indexed again. $5 is the engine that has the search index.
// $6 is the version of the documents with which the database answers searches while a search engine is being filled.
const acquireLeaseQuery = `
	UPDATE dlq.search_index c SET owner = $1, lease_expires_at = n.moment + $3::bigint * interval '1 microsecond', version = $2,
		engine = $5, served_version = CASE WHEN version = $2 THEN served_version WHEN version = $6 THEN version END,
		filling_since = CASE WHEN version = $2 THEN filling_since END, filled = coalesce(version = $2, false) AND filled,
		mark = CASE WHEN version = $2 THEN mark ELSE '-infinity' END,
		archive_mark = CASE WHEN version = $2 THEN archive_mark ELSE '-infinity' END,
		walked_at = CASE WHEN version = $2 THEN walked_at ELSE '-infinity' END,
		walked_id = CASE WHEN version = $2 THEN walked_id ELSE ` + codec.ZeroUUID + ` END,
		archive_walked = CASE WHEN version = $2 THEN archive_walked ELSE '-infinity' END,
		looked_at = CASE WHEN version = $2 THEN looked_at END,
		found_until = CASE WHEN version = $2 THEN found_until END
	FROM (SELECT coalesce($4::timestamptz, clock_timestamp()) AS moment) n
	WHERE c.owner = $1 OR c.lease_expires_at IS NULL OR c.lease_expires_at <= n.moment
	RETURNING true`

// createPartitionsQuery creates the partitions of the search index for today and tomorrow.
const createPartitionsQuery = `
	SELECT dlq.create_document_partitions(ARRAY[n.moment, n.moment + interval '1 day'])
	FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) n`

// timesOfDocuments returns the created_at of the messages $1, live or archived. The document of a message has the same
// created_at.
const timesOfDocuments = `
		SELECT m.id, m.created_at FROM dlq.dlq_messages m WHERE m.id = ANY ($1::uuid[])
		UNION ALL
		SELECT m.id, m.created_at
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE kept.id = ANY ($1::uuid[])`

// SetIndexVersion implements repository.SearchIndex.
func (s *Indexer) SetIndexVersion(version int64) { s.scopes.version.Store(&[]int64{version}) }

// AcquireIndexerLease implements repository.SearchIndex.
func (s *Indexer) AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
	var held []bool
	err := s.db.Select(ctx, &held, acquireLeaseQuery, owner, version, lease.Microseconds(), s.db.Clock(), s.engine.name, s.engine.served)
	if err == nil && len(held) > 0 {
		err = s.db.Exec(ctx, createPartitionsQuery, s.db.Clock())
	}
	return len(held) > 0, conn.Translate("acquire the indexer lease", err)
}

// pendingQuery finds messages without a document of the version $1, and messages without an error group. It continues
// at the position at which the last call ended (walked_at, archive_walked), and moves this position to the first
// message that it finds. When it finds none, it moves the position to ten seconds ago, because a transaction that
// stores messages may take that long.
//
// Transactions that take longer are the reason for a second position (mark, archive_mark). All messages that such
// transactions add are after the second position. Once a minute the query scans again from the second position. After
// such a scan, the second position moves to ten seconds before an earlier scan, but only when all transactions that
// were open at that earlier scan have ended. A message that is already older than ten seconds when it is stored is
// found through the table late_messages instead. While one of these transactions stays open, the second position does
// not move, and each scan would read more messages than the previous scan. So scans become rarer; the messages of that
// transaction are found after it has ended. seen_xid is the id of the earlier scan's own transaction. It is higher than
// the ids of all transactions that had written until then. The xmax of the scan's snapshot cannot be used instead,
// because it need not be higher than the id of the youngest open transaction.
//
// A message whose created_at is infinite gets no document.
//
// A subquery looks up the document of each message, because for a join the planner would read both tables completely. A
// caller whose version differs from that of the search index finds nothing.
var pendingQuery = `
	WITH held AS MATERIALIZED (
		SELECT k.*, n.moment, seen_xid IS NULL OR pg_snapshot_xmin(pg_current_snapshot()) >= seen_xid AS settles
		FROM dlq.search_index k, (SELECT coalesce($5::timestamptz, clock_timestamp()) AS moment) n
		WHERE version = $1 FOR NO KEY UPDATE OF k
	), due AS MATERIALIZED (
		SELECT *, looked_at IS NULL OR moment - looked_at >=
			greatest(interval '1 minute', CASE WHEN NOT settles THEN (moment - seen_at) / 10 END) AS again
		FROM held
	), c AS MATERIALIZED (
		SELECT moment, moment - interval '10 seconds' AS near, again,
			CASE WHEN again AND settles THEN seen_at - interval '10 seconds' END AS settled,
			CASE WHEN again THEN mark ELSE walked_at END AS start_at,
			CASE WHEN again THEN ` + codec.ZeroUUID + ` ELSE walked_id END AS start_id,
			CASE WHEN again THEN archive_mark ELSE archive_walked END AS archive_start,
			CASE WHEN settles THEN moment ELSE seen_at END AS seen_at,
			CASE WHEN settles THEN pg_current_xact_id() ELSE seen_xid END AS seen_xid
		FROM due
	), live AS MATERIALIZED (
		SELECT m.id, m.created_at FROM dlq.dlq_messages m
		WHERE (m.created_at, m.id) >= ((SELECT start_at FROM c), (SELECT start_id FROM c)) AND isfinite(m.created_at)
		  AND (SELECT d.version FROM dlq.message_documents d WHERE ` + documentOfM + `) IS DISTINCT FROM $1
		ORDER BY m.created_at, m.id LIMIT $2
	), archived AS MATERIALIZED (
		SELECT m.id, m.archived_at FROM dlq.dlq_messages_archive m
		WHERE m.archived_at >= (SELECT archive_start FROM c) AND isfinite(m.created_at)
		  AND (SELECT d.version FROM dlq.message_documents d WHERE ` + documentOfM + `) IS DISTINCT FROM $1
		ORDER BY m.archived_at LIMIT $2
	), ungrouped AS MATERIALIZED (
		SELECT m.id, m.created_at FROM dlq.dlq_messages m
		WHERE m.group_id IS NULL AND isfinite(m.created_at) AND EXISTS (SELECT FROM c) ORDER BY m.created_at, m.id LIMIT $2
	), noted AS MATERIALIZED (
		SELECT l.message_id AS id, (SELECT m.created_at FROM dlq.dlq_messages m WHERE m.id = l.message_id
			AND isfinite(m.created_at) AND (SELECT d.version FROM dlq.message_documents d WHERE ` + documentOfM + `) IS DISTINCT FROM $1) AS created_at
		FROM dlq.late_messages l WHERE EXISTS (SELECT FROM c) LIMIT $2
	), done AS (
		DELETE FROM dlq.late_messages WHERE message_id = ANY (ARRAY(SELECT id FROM noted WHERE created_at IS NULL))
	), late AS MATERIALIZED (
		SELECT id, created_at FROM noted WHERE created_at IS NOT NULL
	), first AS MATERIALIZED (
		SELECT id, created_at FROM live ORDER BY created_at, id LIMIT 1
	), moved AS (
		UPDATE dlq.search_index k SET
			mark = greatest(k.mark, CASE WHEN c.settled IS NOT NULL THEN least(c.settled, (SELECT created_at FROM first)) END),
			archive_mark = greatest(k.archive_mark, CASE WHEN c.settled IS NOT NULL
				THEN least(c.settled, (SELECT min(archived_at) FROM archived)) END),
			walked_at = coalesce(f.created_at, greatest(c.start_at, c.near)),
			walked_id = coalesce(f.id, CASE WHEN c.near > c.start_at THEN ` + codec.ZeroUUID + ` ELSE c.start_id END),
			archive_walked = greatest(c.archive_start, least((SELECT min(archived_at) FROM archived), c.near)),
			looked_at = CASE WHEN c.again THEN c.moment ELSE k.looked_at END,
			found_until = least((SELECT created_at FROM first), (SELECT min(created_at) FROM late),
				(SELECT min(created_at) FROM ungrouped), c.moment - interval '1 second'),
			seen_at = c.seen_at, seen_xid = c.seen_xid
		FROM c LEFT JOIN first f ON f.created_at < c.near
		WHERE k.version = $1
	), picked AS MATERIALIZED (
		SELECT id, archived, created_at AS at, row_number() OVER (ORDER BY archived, created_at, id) AS ord
		FROM (
			SELECT id, created_at, false AS archived FROM live
			UNION SELECT id, created_at, false FROM ungrouped
			UNION SELECT id, created_at, false FROM late
			UNION ALL SELECT id, archived_at, true FROM archived
		) found ORDER BY ord LIMIT $2
	), ` + chosenMessages(3, 4) + `
	SELECT * FROM (
		` + pendingOf("dlq.messages", "NOT k.archived", 4) + `
		UNION ALL
		` + pendingOf("dlq.archived_messages", "k.archived AND m.archived_at = k.at", 4) + `
	) both_tables ORDER BY ord`

// chosenMessages returns the SQL that chooses the first messages of the step named picked: as many as have no more
// bytes together than the parameter with the number maxBytes, but at least one. A value longer than the parameter with
// the number maxValue does not count, because it is not loaded.
func chosenMessages(maxBytes, maxValue int) string {
	return fmt.Sprintf(`sized AS MATERIALIZED (
		SELECT p.id, p.archived, p.at, p.ord, sum(
			CASE WHEN coalesce(octet_length(m.value), pg_column_size(m.payload)) <= $%[2]d
			     THEN coalesce(octet_length(m.value), pg_column_size(m.payload)) ELSE 0 END
			+ coalesce(octet_length(m.headers), 0) + coalesce(octet_length(m.key), 0) + octet_length(m.error_message)
		) OVER (ORDER BY p.ord) AS total
		FROM picked p CROSS JOIN LATERAL (
			SELECT m.value, m.payload, m.headers, m.key, m.error_message FROM dlq.messages m WHERE NOT p.archived AND m.id = p.id
			UNION ALL
			SELECT m.value, m.payload, m.headers, m.key, m.error_message FROM dlq.archived_messages m
			WHERE p.archived AND m.id = p.id AND m.archived_at = p.at
		) m
	), chosen AS MATERIALIZED (
		SELECT id, archived, at, ord FROM sized WHERE total <= $%[1]d OR ord = 1
	)`, maxBytes, maxValue)
}

func pendingOf(table, where string, maxValue int) string {
	return `SELECT k.ord, ` + codec.StateColumns + `, ` + codec.FirstByteColumns(fmt.Sprintf("$%d::bigint", maxValue), codec.AnyKey) + `
		FROM chosen k JOIN ` + table + ` m ON m.id = k.id LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
		WHERE ` + where
}

type pendingRow struct {
	Ord int64 `db:"ord"`
	codec.Row
}

// Unindexed implements repository.SearchIndex. It returns archived messages after the live ones.
func (s *Indexer) Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	var found []pendingRow
	if err := s.db.Select(ctx, &found, pendingQuery, version, limit, maxBytes, maxValue, s.db.Clock()); err != nil {
		return nil, conn.Translate("find messages to index", err)
	}
	return pendingMessages("find messages to index", found)
}

func pendingMessages(what string, found []pendingRow) ([]entity.Message, error) {
	messages := make([]entity.Message, len(found))
	for i := range found {
		var err error
		if messages[i], err = found[i].MessageToShow(); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return messages, nil
}

// storeDocumentsQuery stores documents if the caller has the version of the search index. It locks no message: a
// deletion locks the message first and then its document, so a lock in the opposite order could deadlock. A message is
// counted as an arrival when its first document is inserted. It is counted for the error group that it has, or else for
// the one that this document gives it. A message that is too old for the counters, or whose created_at is more than a
// day in the future, is not counted.
//
// $10 are those messages of share groups whose record was not stored yet when the indexer read them. If the record has
// been stored since then, the document is not stored, and the indexer reads the message again. Otherwise the query sets
// counted in dlq.share_records, because the record may later show that the message is a return; see completeQuery of
// package ingest.
const storeDocumentsQuery = `
	WITH completed AS MATERIALIZED (
		SELECT message_id, state FROM dlq.share_records WHERE message_id = ANY ($10::uuid[]) ORDER BY message_id FOR NO KEY UPDATE
	), document AS MATERIALIZED (
		SELECT x.id, x.text, x.terms::bigint[] AS terms, k.created_at, (SELECT version FROM dlq.search_index WHERE version = $4 FOR SHARE) AS version
		FROM unnest($1::uuid[], $2::text[], $3::text[]) AS x (id, text, terms) JOIN (` + timesOfDocuments + `) k ON k.id = x.id
		WHERE isfinite(k.created_at) AND x.id <> ALL (ARRAY(SELECT message_id FROM completed WHERE state = 'completed'))
	), stored AS (
		INSERT INTO dlq.message_documents (message_id, created_at, version, text, terms)
		SELECT id, created_at, version, text, terms FROM document WHERE version IS NOT NULL ORDER BY id
		ON CONFLICT DO NOTHING RETURNING message_id
	), changed AS (
		INSERT INTO dlq.message_documents AS d (message_id, created_at, version, text, terms)
		SELECT id, created_at, version, text, terms FROM document
		WHERE version IS NOT NULL AND id <> ALL (ARRAY(SELECT message_id FROM stored)) ORDER BY id
		ON CONFLICT (created_at, message_id) DO UPDATE SET version = excluded.version, text = excluded.text, terms = excluded.terms
		WHERE (d.version, d.text, d.terms) IS DISTINCT FROM (excluded.version, excluded.text, excluded.terms)
	), fresh AS MATERIALIZED (
		SELECT array_agg(message_id) AS ids FROM stored
	), counted AS (
		UPDATE dlq.share_records s SET counted = true FROM completed c
		WHERE s.message_id = c.message_id AND c.message_id = ANY ((SELECT ids FROM fresh)::uuid[])
	), came AS MATERIALIZED (
		SELECT m.id, m.group_id, m.original_topic, m.created_at, m.parent_id FROM dlq.dlq_messages m
		WHERE m.id = ANY ((SELECT ids FROM fresh)::uuid[])
		UNION ALL
		SELECT m.id, m.group_id, m.original_topic, m.created_at, m.parent_id
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE kept.id = ANY ((SELECT ids FROM fresh)::uuid[])
	), life AS MATERIALIZED (
		SELECT l.minutes, moment - l.micros * interval '1 microsecond' AS since, moment + interval '1 day' AS until
		FROM (VALUES (1::smallint, $6::bigint), (5::smallint, $7::bigint), (60::smallint, $8::bigint)) AS l (minutes, micros),
			(SELECT coalesce($5::timestamptz, clock_timestamp()) AS moment) n
	), forgotten AS (
		DELETE FROM dlq.activity WHERE ctid = ANY (ARRAY(
			SELECT a.place FROM life l CROSS JOIN LATERAL (
				SELECT o.ctid AS place FROM dlq.activity o WHERE o.minutes = l.minutes AND o.at < l.since
				ORDER BY o.at LIMIT 1000 FOR UPDATE SKIP LOCKED
			) a))
	), forgotten_minutes AS (
		DELETE FROM dlq.group_minutes WHERE ctid = ANY (ARRAY(
			SELECT o.ctid FROM dlq.group_minutes o WHERE o.at < (SELECT since FROM life WHERE minutes = 1)
			ORDER BY o.at LIMIT 1000 FOR UPDATE SKIP LOCKED))
	), minutes AS (
		INSERT INTO dlq.group_minutes AS g (group_id, at, original_topic, messages)
		SELECT coalesce(c.group_id, x.group_id), date_bin('1 minute', c.created_at, 'epoch'), c.original_topic, count(*)
		FROM came c JOIN unnest($1::uuid[], $9::uuid[]) AS x (id, group_id) ON x.id = c.id
		JOIN life ON minutes = 1 AND date_bin('1 minute', c.created_at, 'epoch') >= since AND c.created_at < until
		WHERE coalesce(c.group_id, x.group_id) IS NOT NULL
		GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
		ON CONFLICT (group_id, at, original_topic) DO UPDATE SET messages = g.messages + excluded.messages
	)
	INSERT INTO dlq.activity AS a (original_topic, minutes, at, arrived, returned)
	SELECT original_topic, minutes, date_bin(minutes * interval '1 minute', created_at, 'epoch'), count(*), count(parent_id)
	FROM came JOIN life ON date_bin(minutes * interval '1 minute', created_at, 'epoch') >= since AND created_at < until
	GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
	ON CONFLICT (original_topic, minutes, at) DO UPDATE
	SET arrived = a.arrived + excluded.arrived, returned = a.returned + excluded.returned`

// groupDocumentsQuery runs after storeDocumentsQuery and assigns error groups to the messages that have none. It locks
// only these messages, because each lock is a write: in the order of their ids, live messages first.
const groupDocumentsQuery = `
	WITH document AS MATERIALIZED (
		SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS x (id, group_id)
	), changing AS MATERIALIZED (
		SELECT m.id FROM dlq.dlq_messages m
		WHERE m.id = ANY (ARRAY(SELECT id FROM document WHERE group_id IS NOT NULL)) AND (m.group_id IS NULL) IS TRUE
		ORDER BY m.id FOR NO KEY UPDATE
	), grouped AS (
		UPDATE dlq.dlq_messages m SET group_id = x.group_id
		FROM changing c JOIN document x ON x.id = c.id WHERE m.id = c.id AND (m.group_id IS NULL) IS TRUE
		RETURNING 1
	), archived AS MATERIALIZED (
		SELECT m.id, m.archived_at, x.group_id
		FROM document x JOIN dlq.archive_ids kept ON kept.id = x.id
		JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE x.group_id IS NOT NULL AND m.group_id IS NULL AND (SELECT count(*) FROM grouped) >= 0
		ORDER BY m.id FOR NO KEY UPDATE OF m
	)
	UPDATE dlq.dlq_messages_archive m SET group_id = a.group_id
	FROM archived a WHERE m.id = a.id AND m.archived_at = a.archived_at AND m.group_id IS NULL`

// dropStraysQuery deletes documents whose messages were deleted, or moved to an object, while the documents were being
// stored. $3 and $4 are the earliest and the latest time of these documents, so that PostgreSQL reads no other
// partitions. PurgeStraysQuery deletes the documents that are left when a process dies before it runs dropStraysQuery.
const dropStraysQuery = `
	DELETE FROM dlq.message_documents d USING (
		SELECT o.message_id, o.created_at
		FROM unnest($1::uuid[], $2::timestamptz[]) AS x (id, at) JOIN dlq.message_documents o ON o.message_id = x.id AND o.created_at = x.at
		WHERE o.created_at BETWEEN $3 AND $4
		  AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = x.id)
		  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = x.id AND a.object_id IS NULL)
		ORDER BY o.message_id FOR UPDATE OF o
	) gone
	WHERE d.message_id = gone.message_id AND d.created_at = gone.created_at AND d.created_at BETWEEN $3 AND $4`

// PurgeStraysQuery deletes at most $1 documents whose message does not exist or is in an object. It reads all
// documents, so only the archiver runs it.
const PurgeStraysQuery = `
	WITH gone AS (
		DELETE FROM dlq.message_documents d USING (
			SELECT o.message_id, o.created_at FROM dlq.message_documents o
			WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = o.message_id)
			  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = o.message_id AND a.object_id IS NULL)
			ORDER BY o.message_id LIMIT $1 FOR UPDATE OF o
		) stray
		WHERE d.message_id = stray.message_id AND d.created_at = stray.created_at
		RETURNING 1
	)
	SELECT count(*) FROM gone`

// StoreDocuments implements repository.SearchIndex. It stores the descriptions of error groups before the documents, so
// that every error group that has messages has a description.
func (s *Indexer) StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error {
	if len(documents) == 0 {
		return nil
	}
	if noted := fingerprintsOf(documents); len(noted) > 0 {
		if err := s.groups.SaveFingerprints(ctx, noted); err != nil {
			return err
		}
	}
	ids, texts := codec.NewArray(codec.OIDUUID, len(documents), 16), codec.NewArray(codec.OIDText, len(documents), 1024)
	terms, groups := codec.NewArray(codec.OIDText, len(documents), 256), codec.NewArray(codec.OIDUUID, len(documents), 16)
	times := codec.NewArray(codec.OIDTimestamptz, len(documents), 8)
	var first, last time.Time
	documents = latest(documents)
	incomplete := codec.NewArray(codec.OIDUUID, 0, 16)
	for _, d := range documents {
		if d.Incomplete {
			incomplete.UUID(d.MessageID)
		}
		ids.UUID(d.MessageID)
		times.Time(d.CreatedAt)
		if first.IsZero() || d.CreatedAt.Before(first) {
			first = d.CreatedAt
		}
		if d.CreatedAt.After(last) {
			last = d.CreatedAt
		}
		texts.Text(d.Text)
		terms.Text(termsText(d.Terms))
		if d.Fingerprint == nil {
			groups.Null()
			continue
		}
		groups.UUID(d.Fingerprint.ID())
	}
	err := s.inPartitions(ctx, ids.Arg(), func() error {
		return s.db.Exec(ctx, storeDocumentsQuery, ids.Arg(), texts.Arg(), terms.Arg(), version, s.db.Clock(),
			repository.ArrivalsMinuteLife.Microseconds(), repository.FineArrivalsLife.Microseconds(), repository.ArrivalsLife.Microseconds(), groups.Arg(), incomplete.Arg())
	})
	if err == nil {
		err = s.db.Exec(ctx, groupDocumentsQuery, ids.Arg(), groups.Arg())
	}
	if err == nil {
		err = s.db.Exec(ctx, dropStraysQuery, ids.Arg(), times.Arg(), first, last)
	}
	return conn.Translate("store documents", err)
}

// underLoadQuery returns whether a redrive is sending that is not limited to fewer than 100 messages a second, or
// whether the newest 500 messages arrived within the last second.
const underLoadQuery = `
	SELECT EXISTS (
		SELECT FROM dlq.redrives
		WHERE state IN ('canary', 'running') AND waiting_since IS NULL AND (rate IS NULL OR rate >= 100)
	) OR coalesce((
		SELECT created_at FROM dlq.dlq_messages ORDER BY created_at DESC, id DESC OFFSET 499 LIMIT 1
	) > coalesce($1::timestamptz, clock_timestamp()) - interval '1 second', false)`

// UnderLoad implements repository.SearchIndex.
func (s *Indexer) UnderLoad(ctx context.Context) (bool, error) {
	var answer []bool
	err := s.db.Select(ctx, &answer, underLoadQuery, s.db.Clock())
	return len(answer) > 0 && answer[0], conn.Translate("check the load of the store", err)
}

// inPartitions calls the function store, which stores the documents of the messages ids. When a partition is missing,
// it creates the partition and calls store again. It may have to do so several times, because the archiver may drop the
// new partition while it is still empty.
func (s *Indexer) inPartitions(ctx context.Context, ids []byte, store func() error) error {
	for tries := 0; ; tries++ {
		err := store()
		if tries == partitionTries || !conn.Violates(err, "23514", "message_documents") {
			return err
		}
		err = s.db.Exec(ctx, `SELECT dlq.create_document_partitions(ARRAY(SELECT created_at FROM (`+timesOfDocuments+`) of_documents))`, ids)
		if err != nil {
			return err
		}
	}
}

const partitionTries = 3

func fingerprintsOf(documents []entity.Document) []entity.Fingerprint {
	var all []entity.Fingerprint
	seen := map[uuid.UUID]bool{}
	for _, d := range documents {
		if d.Fingerprint == nil || seen[d.Fingerprint.ID()] {
			continue
		}
		seen[d.Fingerprint.ID()] = true
		all = append(all, *d.Fingerprint)
	}
	return all
}

// latest returns, of several documents of the same message, only the last one, because one SQL statement must not write
// the same row twice.
func latest(documents []entity.Document) []entity.Document {
	at := make(map[uuid.UUID]int, len(documents))
	var last []entity.Document
	for _, d := range documents {
		if i, known := at[d.MessageID]; known {
			last[i] = d
			continue
		}
		at[d.MessageID] = len(last)
		last = append(last, d)
	}
	return last
}

// termsText returns the terms as an array in PostgreSQL's text form. The terms of all documents cannot be sent as an
// array of arrays, because these would have to have the same length.
func termsText(terms []int64) string {
	text := make([]byte, 0, 2+21*len(terms))
	text = append(text, '{')
	for i, t := range terms {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, t, 10)
	}
	return string(append(text, '}'))
}

// IndexedUntil implements repository.SearchIndex. The returned time says nothing about archived messages.
func (s *Indexer) IndexedUntil(ctx context.Context) (time.Time, error) {
	var until []sql.NullTime
	if err := s.db.Select(ctx, &until, `SELECT found_until FROM dlq.search_index`); err != nil {
		return time.Time{}, conn.Translate("read the state of the search index", err)
	}
	if len(until) == 0 {
		return time.Time{}, nil
	}
	return codec.TimeOf(until[0]), nil
}

// indexStallQuery returns for how long the indexer has waited for an open transaction. It also names the transaction's
// process, if the role may see it.
const indexStallQuery = `
	SELECT extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - seen_at)::float8 AS seconds,
		coalesce((SELECT 'process ' || pid FROM pg_stat_activity WHERE backend_xid = x.oldest LIMIT 1),
			(SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE transaction = x.oldest LIMIT 1), '') AS holder
	FROM dlq.search_index, (SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS oldest) x
	WHERE pg_snapshot_xmin(pg_current_snapshot()) < seen_xid`

// IndexerStall implements repository.SearchIndex.
func (s *Indexer) IndexerStall(ctx context.Context) (repository.IndexerStall, error) {
	var found []struct {
		Seconds float64 `db:"seconds"`
		Holder  string  `db:"holder"`
	}
	if err := s.db.Select(ctx, &found, indexStallQuery, s.db.Clock()); err != nil || len(found) == 0 {
		return repository.IndexerStall{}, conn.Translate("read the state of the search index", err)
	}
	age := time.Duration(max(0, found[0].Seconds) * float64(time.Second))
	return repository.IndexerStall{Age: age, Holder: found[0].Holder}, nil
}
