package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// holdCatalogueQuery begins at the beginning when the version is another one.
const holdCatalogueQuery = `
	UPDATE dlq.catalogue c SET owner = $1, lease_expires_at = n.moment + $3::bigint * interval '1 microsecond', version = $2,
		mark = CASE WHEN version = $2 THEN mark ELSE '-infinity' END,
		archive_mark = CASE WHEN version = $2 THEN archive_mark ELSE '-infinity' END,
		walked_at = CASE WHEN version = $2 THEN walked_at ELSE '-infinity' END,
		walked_id = CASE WHEN version = $2 THEN walked_id ELSE ` + zeroUUID + ` END,
		archive_walked = CASE WHEN version = $2 THEN archive_walked ELSE '-infinity' END,
		looked_at = CASE WHEN version = $2 THEN looked_at END,
		found_until = CASE WHEN version = $2 THEN found_until END
	FROM (SELECT coalesce($4::timestamptz, clock_timestamp()) AS moment) n
	WHERE c.owner = $1 OR c.lease_expires_at IS NULL OR c.lease_expires_at <= n.moment
	RETURNING true`

const zeroUUID = `'00000000-0000-0000-0000-000000000000'::uuid`

// AnswerFrom implements repository.Catalogue.
func (s *Store) AnswerFrom(version int64) { s.answersFrom.Store(&version) }

// HoldCatalogue implements repository.Catalogue.
func (s *Store) HoldCatalogue(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
	var held []bool
	err := s.selectRows(ctx, &held, holdCatalogueQuery, owner, version, lease.Microseconds(), s.clock())
	return len(held) > 0, translate("hold the catalogue", err)
}

// uncataloguedQuery walks on from the place where the catalogue's row says, and
// moves that up to the first message that it finds, or to ten seconds ago: as long
// may a transaction take that stores messages.
//
// For one that takes longer it looks again, once a minute, at all from the marks on.
// No message may appear behind those: they stop before a moment at which somebody
// looked, as long as a transaction of that time is not over, and ten seconds earlier
// in any case, for a row that is older than that as it is stored is in
// catalogue_late. While one transaction stays open the marks stay too, and the looks
// become rarer, or they would read ever more: whatever it stores is found some day.
// seen_xid is the look's own transaction, which is younger than all that had written
// by then; the snapshot's xmax is not, as long as the youngest of them is open.
//
// A message of no finite time has no place in a list, and gets no document.
//
// A message's document is looked up by itself, for the planner would rather read
// all of both tables. Who works for another version finds nothing.
var uncataloguedQuery = `
	WITH held AS MATERIALIZED (
		SELECT k.*, n.moment, seen_xid IS NULL OR pg_snapshot_xmin(pg_current_snapshot()) >= seen_xid AS settles
		FROM dlq.catalogue k, (SELECT coalesce($5::timestamptz, clock_timestamp()) AS moment) n
		WHERE version = $1 FOR NO KEY UPDATE OF k
	), due AS MATERIALIZED (
		SELECT *, looked_at IS NULL OR moment - looked_at >=
			greatest(interval '1 minute', CASE WHEN NOT settles THEN (moment - seen_at) / 10 END) AS again
		FROM held
	), c AS MATERIALIZED (
		SELECT moment, moment - interval '10 seconds' AS near, again,
			CASE WHEN again AND settles THEN seen_at - interval '10 seconds' END AS settled,
			CASE WHEN again THEN mark ELSE walked_at END AS start_at,
			CASE WHEN again THEN ` + zeroUUID + ` ELSE walked_id END AS start_id,
			CASE WHEN again THEN archive_mark ELSE archive_walked END AS archive_start,
			CASE WHEN settles THEN moment ELSE seen_at END AS seen_at,
			CASE WHEN settles THEN pg_current_xact_id() ELSE seen_xid END AS seen_xid
		FROM due
	), live AS MATERIALIZED (
		SELECT m.id, m.created_at FROM dlq.dlq_messages m
		WHERE (m.created_at, m.id) >= ((SELECT start_at FROM c), (SELECT start_id FROM c)) AND isfinite(m.created_at)
		  AND (SELECT d.version FROM dlq.message_documents d WHERE d.message_id = m.id) IS DISTINCT FROM $1
		ORDER BY m.created_at, m.id LIMIT $2
	), archived AS MATERIALIZED (
		SELECT m.id, m.archived_at FROM dlq.dlq_messages_archive m
		WHERE m.archived_at >= (SELECT archive_start FROM c) AND isfinite(m.created_at)
		  AND (SELECT d.version FROM dlq.message_documents d WHERE d.message_id = m.id) IS DISTINCT FROM $1
		ORDER BY m.archived_at LIMIT $2
	), ungrouped AS MATERIALIZED (
		SELECT m.id, m.created_at FROM dlq.dlq_messages m
		WHERE m.group_id IS NULL AND isfinite(m.created_at) AND EXISTS (SELECT FROM c) ORDER BY m.created_at, m.id LIMIT $2
	), noted AS MATERIALIZED (
		SELECT l.message_id AS id, (SELECT m.created_at FROM dlq.dlq_messages m WHERE m.id = l.message_id
			AND isfinite(m.created_at) AND (SELECT d.version FROM dlq.message_documents d WHERE d.message_id = m.id) IS DISTINCT FROM $1) AS created_at
		FROM dlq.catalogue_late l WHERE EXISTS (SELECT FROM c) LIMIT $2
	), done AS (
		DELETE FROM dlq.catalogue_late WHERE message_id = ANY (ARRAY(SELECT id FROM noted WHERE created_at IS NULL))
	), late AS MATERIALIZED (
		SELECT id, created_at FROM noted WHERE created_at IS NOT NULL
	), first AS MATERIALIZED (
		SELECT id, created_at FROM live ORDER BY created_at, id LIMIT 1
	), moved AS (
		UPDATE dlq.catalogue k SET
			mark = greatest(k.mark, CASE WHEN c.settled IS NOT NULL THEN least(c.settled, (SELECT created_at FROM first)) END),
			archive_mark = greatest(k.archive_mark, CASE WHEN c.settled IS NOT NULL
				THEN least(c.settled, (SELECT min(archived_at) FROM archived)) END),
			walked_at = coalesce(f.created_at, greatest(c.start_at, c.near)),
			walked_id = coalesce(f.id, CASE WHEN c.near > c.start_at THEN ` + zeroUUID + ` ELSE c.start_id END),
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
	), sized AS MATERIALIZED (
		SELECT p.id, p.archived, p.at, p.ord, sum(` + uncataloguedSize + `) OVER (ORDER BY p.ord) AS total
		FROM picked p CROSS JOIN LATERAL (
			SELECT m.value, m.payload, m.headers, m.key, m.error_message FROM dlq.messages m WHERE NOT p.archived AND m.id = p.id
			UNION ALL
			SELECT m.value, m.payload, m.headers, m.key, m.error_message FROM dlq.archived_messages m
			WHERE p.archived AND m.id = p.id AND m.archived_at = p.at
		) m
	), chosen AS MATERIALIZED (
		SELECT id, archived, at, ord FROM sized WHERE total <= $3 OR ord = 1
	)
	SELECT * FROM (
		` + uncataloguedOf("dlq.messages", "NOT k.archived") + `
		UNION ALL
		` + uncataloguedOf("dlq.archived_messages", "k.archived AND m.archived_at = k.at") + `
	) both_tables ORDER BY ord`

const uncataloguedSize = `
			CASE WHEN coalesce(octet_length(m.value), pg_column_size(m.payload)) <= $4
			     THEN coalesce(octet_length(m.value), pg_column_size(m.payload)) ELSE 0 END
			+ coalesce(octet_length(m.headers), 0) + coalesce(octet_length(m.key), 0) + octet_length(m.error_message)`

func uncataloguedOf(table, where string) string {
	return `SELECT k.ord, ` + stateColumns + `, ` + firstByteColumns("$4::bigint", anyKey) + `
		FROM chosen k JOIN ` + table + ` m ON m.id = k.id LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
		WHERE ` + where
}

type uncataloguedRow struct {
	Ord int64 `db:"ord"`
	row
}

// Uncatalogued implements repository.Catalogue. Messages of the archive come
// behind those of the live table.
func (s *Store) Uncatalogued(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	var found []uncataloguedRow
	if err := s.selectRows(ctx, &found, uncataloguedQuery, version, limit, maxBytes, maxValue, s.clock()); err != nil {
		return nil, translate("find messages to catalogue", err)
	}
	messages := make([]entity.Message, len(found))
	for i := range found {
		var err error
		if messages[i], err = found[i].messageToShow(); err != nil {
			return nil, fmt.Errorf("find messages to catalogue: %w", err)
		}
	}
	return messages, nil
}

// storeDocumentsQuery keeps nothing for another version than the catalogue's, which
// nobody can change meanwhile. It locks no message: the other order, documents after
// messages, is that of a deletion.
//
// A row that is put in has no xmax, one that was there and is updated has: it was
// locked for that. So the first document of a message is known, also beside another
// worker, and the message is counted with it. Blocks come last. Who stores one only adds
// bits, but statements may come late and out of turn, for a connection that breaks has
// them asked again: what says more is kept. What is too old to be counted is
// forgotten faster than it can come.
const storeDocumentsQuery = `
	WITH document AS MATERIALIZED (
		SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $8::uuid[]) AS x (id, text, terms, block)
	), present AS MATERIALIZED (
		SELECT version FROM dlq.catalogue WHERE version = $4 FOR SHARE
	), known AS MATERIALIZED (
		SELECT m.id, m.created_at FROM dlq.dlq_messages m WHERE m.id = ANY ($1::uuid[])
		UNION ALL
		SELECT m.id, m.created_at
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE kept.id = ANY ($1::uuid[])
	), blocked AS (
		INSERT INTO dlq.document_blocks AS b (id, oldest, newest, letters)
		SELECT o.id, t.oldest, t.newest, o.letters
		FROM unnest($9::uuid[], $10::bytea[]) AS o (id, letters) JOIN (
			SELECT x.block, min(k.created_at) AS oldest, max(k.created_at) AS newest
			FROM document x JOIN known k ON k.id = x.id WHERE isfinite(k.created_at) GROUP BY x.block
		) t ON t.block = o.id WHERE EXISTS (SELECT FROM present)
		ORDER BY o.id
		ON CONFLICT (id) DO UPDATE
		SET oldest = least(b.oldest, excluded.oldest), newest = greatest(b.newest, excluded.newest), stored_at = clock_timestamp(),
			letters = CASE WHEN (octet_length(b.letters), bit_count(b.letters)) > (octet_length(excluded.letters), bit_count(excluded.letters))
				THEN b.letters ELSE excluded.letters END
	), stored AS (
		INSERT INTO dlq.message_documents AS d (message_id, version, text, terms, created_at, block)
		SELECT x.id, (SELECT version FROM present), x.text, x.terms::bigint[], k.created_at, x.block
		FROM document x JOIN known k ON k.id = x.id WHERE EXISTS (SELECT FROM present) AND isfinite(k.created_at)
		ORDER BY x.id
		ON CONFLICT (message_id) DO UPDATE
		SET version = excluded.version, text = excluded.text, terms = excluded.terms, created_at = excluded.created_at,
			block = excluded.block
		WHERE (d.version, d.text, d.terms, d.created_at, d.block IS NULL)
			IS DISTINCT FROM (excluded.version, excluded.text, excluded.terms, excluded.created_at, false)
		RETURNING message_id, xmax = 0 AS first
	), fresh AS MATERIALIZED (
		SELECT array_agg(message_id) AS ids FROM stored WHERE first
	), came AS (
		SELECT m.original_topic, m.created_at, m.parent_id FROM dlq.dlq_messages m
		WHERE m.id = ANY ((SELECT ids FROM fresh)::uuid[])
		UNION ALL
		SELECT m.original_topic, m.created_at, m.parent_id
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE kept.id = ANY ((SELECT ids FROM fresh)::uuid[])
	), life AS MATERIALIZED (
		SELECT l.minutes, moment - l.micros * interval '1 microsecond' AS since, moment + interval '1 day' AS until
		FROM (VALUES (5::smallint, $6::bigint), (60::smallint, $7::bigint)) AS l (minutes, micros),
			(SELECT coalesce($5::timestamptz, clock_timestamp()) AS moment) n
	), forgotten AS (
		DELETE FROM dlq.activity WHERE ctid = ANY (ARRAY(
			SELECT a.place FROM life l CROSS JOIN LATERAL (
				SELECT o.ctid AS place FROM dlq.activity o WHERE o.minutes = l.minutes AND o.at < l.since
				ORDER BY o.at LIMIT 1000 FOR UPDATE SKIP LOCKED
			) a))
	)
	INSERT INTO dlq.activity AS a (original_topic, minutes, at, arrived, returned)
	SELECT original_topic, minutes, date_bin(minutes * interval '1 minute', created_at, 'epoch'), count(*), count(parent_id)
	FROM came JOIN life ON date_bin(minutes * interval '1 minute', created_at, 'epoch') >= since AND created_at < until
	GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
	ON CONFLICT (original_topic, minutes, at) DO UPDATE
	SET arrived = a.arrived + excluded.arrived, returned = a.returned + excluded.returned`

// groupDocumentsQuery comes after the documents: what has no group is found by
// that. It locks the live messages first and then the archived ones, each in the order
// of their ids, as every statement that changes both. It locks no others: a lock on
// every message would be a write to every message.
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

// dropStraysQuery takes back documents of messages that were deleted while they were
// being made. One whose deletion is not over yet is left to purgeStraysQuery.
const dropStraysQuery = `
	DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
		SELECT d.message_id FROM dlq.message_documents d WHERE d.message_id = ANY ($1::uuid[])
		  AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.message_id)
		  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = d.message_id)
		ORDER BY d.message_id FOR UPDATE))`

// purgeStraysQuery looks at all of them, which is why it is the archiver's.
const purgeStraysQuery = `
	WITH gone AS (
		DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
			SELECT d.message_id FROM dlq.message_documents d
			WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.message_id)
			  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = d.message_id)
			ORDER BY d.message_id LIMIT $1 FOR UPDATE OF d))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

// purgeBlocksQuery takes blocks of whose time no messages are left, if they are not being
// filled: who waits for one that is sees it in stored_at.
const purgeBlocksQuery = `
	WITH gone AS (
		DELETE FROM dlq.document_blocks WHERE id = ANY (ARRAY(
			SELECT b.id FROM dlq.document_blocks b
			WHERE b.stored_at < clock_timestamp() - $2::bigint * interval '1 microsecond'
			  AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.created_at BETWEEN b.oldest AND b.newest)
			  AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive m WHERE m.created_at BETWEEN b.oldest AND b.newest)
			ORDER BY b.newest LIMIT $1 FOR UPDATE OF b))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

// StoreDocuments implements repository.Catalogue. The names of the groups are kept
// before any message is in them.
func (s *Store) StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error {
	if len(documents) == 0 {
		return nil
	}
	if noted := fingerprintsOf(documents); len(noted) > 0 {
		if err := s.NoteFingerprints(ctx, noted); err != nil {
			return err
		}
	}
	ids, texts := newColumn(oidUUID, len(documents), 16), newColumn(oidText, len(documents), 1024)
	terms, groups := newColumn(oidText, len(documents), 256), newColumn(oidUUID, len(documents), 16)
	documents = inTime(latest(documents))
	for _, d := range documents {
		ids.uuid(d.MessageID)
		texts.text(d.Text)
		terms.text(termsText(d.Terms))
		if d.Fingerprint == nil {
			groups.null()
			continue
		}
		groups.uuid(d.Fingerprint.ID())
	}
	err := s.block.with(documents, func(in blocked) error {
		of, blocks, letters := in.columns()
		return s.exec(ctx, storeDocumentsQuery, ids.arg(), texts.arg(), terms.arg(), version, s.clock(),
			repository.FineArrivalsLife.Microseconds(), repository.ArrivalsLife.Microseconds(), of.arg(), blocks.arg(), letters.arg())
	})
	if err == nil {
		err = s.exec(ctx, groupDocumentsQuery, ids.arg(), groups.arg())
	}
	if err == nil {
		err = s.exec(ctx, dropStraysQuery, ids.arg())
	}
	return translate("store documents", err)
}

// MergeDocuments implements repository.Catalogue. The indexes leave it to this, see
// migration 016: an insert that merges has little memory for it, and so touches the
// same pages again and again.
func (s *Store) MergeDocuments(ctx context.Context) error {
	return translate("merge documents", s.exec(ctx, `SELECT dlq.merge_documents()`))
}

// crowdedQuery looks at the redrives that are neither waiting nor slow by order, and
// at how long it took for the last some hundred messages to come in.
const crowdedQuery = `
	SELECT EXISTS (
		SELECT FROM dlq.redrives
		WHERE state IN ('canary', 'running') AND waiting_since IS NULL AND (rate IS NULL OR rate >= 100)
	) OR coalesce((
		SELECT created_at FROM dlq.dlq_messages ORDER BY created_at DESC, id DESC OFFSET 499 LIMIT 1
	) > coalesce($1::timestamptz, clock_timestamp()) - interval '1 second', false)`

// Crowded implements repository.Catalogue.
func (s *Store) Crowded(ctx context.Context) (bool, error) {
	var answer []bool
	err := s.selectRows(ctx, &answer, crowdedQuery, s.clock())
	return len(answer) > 0 && answer[0], translate("ask whether the store is crowded", err)
}

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

// latest leaves one document a message: a statement may write a row once only.
func latest(documents []entity.Document) []entity.Document {
	places := make(map[uuid.UUID]int, len(documents))
	var last []entity.Document
	for _, d := range documents {
		if i, known := places[d.MessageID]; known {
			last[i] = d
			continue
		}
		places[d.MessageID] = len(last)
		last = append(last, d)
	}
	return last
}

// termsText is an array as text, since arrays of arrays must be of one length.
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

// CataloguedUntil implements repository.Catalogue. Messages of the archive are not
// asked for.
func (s *Store) CataloguedUntil(ctx context.Context) (time.Time, error) {
	var until []sql.NullTime
	if err := s.selectRows(ctx, &until, `SELECT found_until FROM dlq.catalogue`); err != nil {
		return time.Time{}, translate("read the catalogue's state", err)
	}
	if len(until) == 0 {
		return time.Time{}, nil
	}
	return moment(until[0]), nil
}

// The transaction that a look waits for is shown to whoever may see it.
const catalogueStallQuery = `
	SELECT extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - seen_at)::float8 AS seconds,
		coalesce((SELECT 'process ' || pid FROM pg_stat_activity WHERE backend_xid = x.oldest LIMIT 1),
			(SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE transaction = x.oldest LIMIT 1), '') AS holder
	FROM dlq.catalogue, (SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS oldest) x
	WHERE pg_snapshot_xmin(pg_current_snapshot()) < seen_xid`

// CatalogueStall implements repository.Catalogue.
func (s *Store) CatalogueStall(ctx context.Context) (repository.CatalogueStall, error) {
	var found []struct {
		Seconds float64 `db:"seconds"`
		Holder  string  `db:"holder"`
	}
	if err := s.selectRows(ctx, &found, catalogueStallQuery, s.clock()); err != nil || len(found) == 0 {
		return repository.CatalogueStall{}, translate("read the catalogue's state", err)
	}
	age := time.Duration(max(0, found[0].Seconds) * float64(time.Second))
	return repository.CatalogueStall{Age: age, Holder: found[0].Holder}, nil
}
