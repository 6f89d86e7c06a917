package ingest

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
)

// Ingester stores incoming records.
type Ingester struct {
	db      *conn.DB
	archive *messages.Archive // creates partitions of the archive that are missing

	returns    returns
	projection projection
	repeating  atomic.Bool // whether the latest batch had repeats, so that it is better to look for them before the next is stored
}

// New returns an Ingester that fills the column payload in the given mode, for values of at most limit bytes.
func New(db *conn.DB, archive *messages.Archive, mode PayloadMode, limit int) *Ingester {
	return &Ingester{db: db, archive: archive, returns: returns{db}, projection: projection{mode, limit}}
}

// The constants below are parts of one statement, which moves the positions of the partitions and stores their
// messages. It leaves out a partition when its position is not the offset at which the batch's range of the partition
// begins. PostgreSQL computes payload from value, so the bytes are sent only once. Each row gets its own time, so that
// few messages have the same created_at.
//
// The rows go from the arrays directly into the table, because PostgreSQL copies a row in every step that materialises
// it. For this reason unnest is in the list of columns: several calls in FROM would materialise their rows. Batches
// with returns, which are rare, use another statement: storeReturnsQuery.
const (
	isAtStart = `p.next_offset = s.from_offset`

	moveSteps = `
	WITH step AS (
		SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[], $4::int8[])
			AS s (incarnation_id, partition, from_offset, to_offset)
	), held AS MATERIALIZED (
		SELECT p.incarnation_id, p.partition FROM dlq.ingest_positions p JOIN step s USING (incarnation_id, partition)
		ORDER BY 1, 2 FOR NO KEY UPDATE OF p
	), moved AS (
		UPDATE dlq.ingest_positions p SET next_offset = s.to_offset FROM held h JOIN step s USING (incarnation_id, partition)
		WHERE p.incarnation_id = h.incarnation_id AND p.partition = h.partition AND ` + isAtStart + `
		RETURNING p.incarnation_id, p.partition, p.next_offset
	), waiting AS (
		SELECT EXISTS (SELECT FROM dlq.quarantine WHERE incarnation_id = ANY ($1::int4[])) AS any_waiting
	)`

	// releaseSteps takes the place of moveSteps in the statement that stores quarantined records as messages. It
	// deletes the records from quarantine and moves no position. Each of its ranges is the offset of a single record.
	releaseSteps = `
	WITH step AS (
		SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[], $4::int8[])
			AS s (incarnation_id, partition, from_offset, to_offset)
	), moved AS (
		DELETE FROM dlq.quarantine q USING step s
		WHERE (q.incarnation_id, q.partition, q.dlq_offset) = (s.incarnation_id, s.partition, s.from_offset)
		RETURNING q.incarnation_id, q.partition, s.to_offset AS next_offset
	), waiting AS (
		SELECT false AS any_waiting
	)`

	// The column any_waiting of moveSteps says whether any record of the batch's topics is in quarantine. When an
	// operator has moved a position back, such a record is read again, and must not be stored as a message. A join with
	// the quarantine instead of this test would materialise the rows.
	//
	// recordRows returns the messages in the order of their ids, so that their index entries are inserted next to each
	// other. The parameters of the largest columns come last; see storeArgs.
	recordRows = `(
			SELECT coalesce($31::timestamptz, clock_timestamp()) AS moment,
				unnest($5::uuid[]) AS id, unnest($6::text[]) AS original_topic, unnest($7::text[]) AS error_message,
				unnest($8::int4[]) AS retry_count, unnest($9::int4[]) AS max_retries, unnest($10::text[]) AS status,
				unnest($11::text[]) AS payload_note, unnest($12::int8[]) AS omitted_size, unnest($13::bytea[]) AS omitted_sha256,
				unnest($14::int4[]) AS dlq_topic_id, unnest($15::int4[]) AS incarnation_id, unnest($16::int4[]) AS partition,
				unnest($17::int8[]) AS dlq_offset, unnest($18::timestamptz[]) AS dlq_timestamp,
				unnest($19::int4[]) AS original_partition, unnest($20::int8[]) AS original_offset,
				unnest($21::timestamptz[]) AS original_timestamp, unnest($22::text[]) AS origin_confidence,
				unnest($23::text[]) AS consumer_group, unnest($24::int4[]) AS consumer_attempts,
				unnest($25::text[]) AS dialect, unnest($26::text[]) AS error_class,
				unnest($27::uuid[]) AS parent_id, unnest($28::uuid[]) AS root_id,
				unnest($29::int8[]) AS record_hash, unnest($30::uuid[]) AS group_id,
				` + valueForPayload + `unnest($35::int8[]) AS dlq_timestamp_ms,
				unnest($36::text[])::jsonb AS defect
		) r ` + ofMoved

	// valueForPayload selects the values from which the statement computes the column payload. Store replaces it with
	// NULL when FillPayloads fills the column later, or never.
	valueForPayload = `unnest($34::bytea[]) AS value, `

	// ofMoved selects the messages of those partitions whose position moved, without messages whose record is in
	// quarantine.
	ofMoved = `JOIN moved USING (incarnation_id, partition)
		WHERE NOT (SELECT any_waiting FROM waiting) OR NOT EXISTS (SELECT FROM dlq.quarantine q
			WHERE (q.incarnation_id, q.partition, q.dlq_offset) = (r.incarnation_id, r.partition, r.dlq_offset))`

	// insertBytes stores the key, the headers and the value of each message's record in the table dlq.records.
	insertBytes = `, bytes AS (
		INSERT INTO dlq.records (message_id, key, headers, value)
		SELECT id, key, headers, value FROM (
			SELECT unnest($5::uuid[]) AS id, unnest($15::int4[]) AS incarnation_id, unnest($16::int4[]) AS partition,
				unnest($17::int8[]) AS dlq_offset, unnest($32::bytea[]) AS key, unnest($33::bytea[]) AS headers, unnest($34::bytea[]) AS value
		) r ` + ofMoved + `
	)`

	insertMessages = `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, status,
			payload, created_at, updated_at,
			payload_note, omitted_size, omitted_sha256,
			dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
			original_partition, original_offset, original_timestamp, origin_confidence,
			consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id, record_hash, group_id, dlq_timestamp_ms, defect)
		SELECT id, original_topic, error_message, retry_count, max_retries, status,
			CASE WHEN payload_note IS NULL AND value IS NOT NULL THEN convert_from(value, 'UTF8')::jsonb END,
			moment, moment,
			payload_note, omitted_size, omitted_sha256,
			dlq_topic_id, incarnation_id, partition, dlq_offset, dlq_timestamp,
			original_partition, original_offset, original_timestamp, origin_confidence,
			consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id, record_hash, group_id, dlq_timestamp_ms, defect
		FROM `

	// queuePayloads adds to a queue those messages whose column payload FillPayloads fills later.
	queuePayloads = `, queued AS (
		INSERT INTO dlq.payload_queue (message_ids, messages)
		SELECT $37::uuid[], cardinality($37::uuid[]) WHERE cardinality($37::uuid[]) > 0 AND EXISTS (SELECT FROM moved)
	)`

	storeQuery = `, stored AS (
		` + insertMessages + recordRows + `
	)` + insertBytes + queuePayloads

	// storedPartitions is the end of every statement that stores messages. It returns the partitions whose position
	// moved, with their new positions.
	storedPartitions = `
	SELECT incarnation_id, partition, next_offset FROM moved`

	// clockParameter is the number of the parameter for the time in statements that store messages.
	clockParameter = 31
)

// storeReturnsQuery stores a batch that has returns; storeQuery stores all other batches.
//
// The step back contains the returns of the batch. The statement locks the parents of the returns in the order of their
// ids before it inserts the returns, so batches with returns of the same attempts do not deadlock. When several records
// name the same attempt in their headers, dlq.returns gets only the first of the confirmed ones. A return that was
// recognised by content violates the primary key of dlq.returns when its attempt has a return already; then Store
// searches again, see takenMeanwhile.
//
// An attempt may end after a return was matched to it by content and before the parent is locked here. If the attempt's
// result says that it sent nothing, another producer wrote the equal record, and no return is stored. The message is
// still stored as a child of the parent, which only means that it reaches its retry limit earlier. An unconfirmed
// return (see isConfirmed) does not change its parent.
var storeReturnsQuery = `, record AS MATERIALIZED (
		SELECT r.* FROM ` + recordRows + `
	), stored AS (
		` + insertMessages + `record
	)` + insertBytes + queuePayloads + placed(returnSteps, clockParameter, 38)

// placed replaces the placeholders in SQL that several statements use: @now by the parameter with the number clock, @1
// by the parameter with the number first, @2 by the parameter after that, and so on.
func placed(steps string, clock, first int) string {
	return placeholder.ReplaceAllStringFunc(steps, func(name string) string {
		number := clock
		if n, err := strconv.Atoi(name[1:]); err == nil {
			number = first + n - 1
		}
		return "$" + strconv.Itoa(number)
	})
}

var placeholder = regexp.MustCompile(`@(\d+|now)`)

// returnSteps stores the returns of a batch and changes the outcomes of their parents. It must follow a step named
// record, which contains the messages as they are stored. See placed for its placeholders, and returnArgs for its
// arguments.
const returnSteps = `, back AS MATERIALIZED (
		SELECT b.*, r.parent_id, r.status, r.retry_count, r.max_retries
		FROM unnest(@1::uuid[], @2::uuid[], @3::uuid[], @4::bool[], @5::bool[], @6::bool[])
			WITH ORDINALITY AS b (child_id, attempt_id, redrive_id, by_content, claimed, confirmed, ord)
		JOIN record r ON r.id = b.child_id
	), parent AS MATERIALIZED (
		SELECT id, claim_id, outcome FROM dlq.dlq_messages
		WHERE id IN (SELECT parent_id FROM back WHERE confirmed)
		ORDER BY id FOR NO KEY UPDATE
	), proven AS MATERIALIZED (
		SELECT b.* FROM back b LEFT JOIN parent p ON p.id = b.parent_id
		WHERE b.confirmed AND (NOT b.claimed OR p.id IS NULL OR p.claim_id = b.attempt_id OR p.outcome IS NOT NULL)
	), returned AS (
		UPDATE dlq.dlq_messages m SET outcome = 'returned' FROM (SELECT DISTINCT parent_id FROM proven) p WHERE m.id = p.parent_id
	), archived_parent AS MATERIALIZED (
		SELECT m.id, m.archived_at
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE kept.id IN (SELECT parent_id FROM proven)
		ORDER BY m.id FOR NO KEY UPDATE OF m
	), returned_later AS (
		UPDATE dlq.dlq_messages_archive m SET outcome = 'returned'
		FROM archived_parent a WHERE m.id = a.id AND m.archived_at = a.archived_at
	), noted AS (
		INSERT INTO dlq.returns (attempt_id, parent_id, child_id, redrive_id, by_content, returned_at)
		SELECT attempt_id, parent_id, child_id, redrive_id, false, coalesce(@now::timestamptz, clock_timestamp())
		FROM proven WHERE NOT by_content
		ORDER BY attempt_id, ord
		ON CONFLICT (attempt_id) DO NOTHING
	), noted_by_content AS (
		INSERT INTO dlq.returns (attempt_id, parent_id, child_id, redrive_id, by_content, returned_at)
		SELECT attempt_id, parent_id, child_id, redrive_id, true, coalesce(@now::timestamptz, clock_timestamp())
		FROM proven WHERE by_content
		ORDER BY attempt_id
	), unconfirmed AS (
		INSERT INTO dlq.unconfirmed_returns (child_id, attempt_id, parent_id, by_content, returned_at)
		SELECT child_id, attempt_id, parent_id, by_content, coalesce(@now::timestamptz, clock_timestamp())
		FROM back WHERE NOT confirmed
		ORDER BY attempt_id
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, to_state, retry_count, actor, reason)
		SELECT coalesce(@now::timestamptz, clock_timestamp()), 'dead', 'message', child_id, status, retry_count, @7,
			format('came back after %s of %s attempts', retry_count, max_retries)
		FROM back WHERE status = 'DEAD'
	)`

// storeTries is the maximum number of tries to store a batch while other batches store returns of the same attempts. In
// each try, one of these batches succeeds.
const storeTries = 10

// Store implements repository.Ingest. When PostgreSQL refuses the batch, Store first leaves out the payloads that
// cannot be cast to jsonb. A message that is still refused goes into quarantine.
func (s *Ingester) Store(ctx context.Context, batch repository.Batch) (repository.Stored, error) {
	stored, err := s.storeWithoutRepeats(ctx, batch, s.prepare(batch))
	return stored, conn.Translate("store messages", err)
}

// storeWithoutRepeats stores the messages of a batch that are no repeats, and counts the repeats. When nothing was
// stored, it looks for repeats again, because a message that has repeats may have become final in the meantime; see
// openSteps. It looks for equal records only when the primary key of dlq.recent_records refuses the batch, because they
// are rare. When PostgreSQL refuses the batch for another reason, each part that bisect stores looks for repeats again,
// because there are no repeats of a message that goes into quarantine.
func (s *Ingester) storeWithoutRepeats(ctx context.Context, batch repository.Batch, known *prepared) (repository.Stored, error) {
	var before repeats
	for look, tries := s.repeating.Load(), 0; tries <= storeTries; tries++ {
		kept, found, err := withoutRepeats(ctx, s.db, batch)
		if err == nil && look {
			var apart repository.Batch
			if kept, apart, err = withoutEqual(ctx, s.db, kept, &found); err == nil && len(apart.Ranges) > 0 {
				return s.storeParts(ctx, kept, apart)
			}
		}
		if err != nil {
			return repository.Stored{}, err
		}
		if !before.empty() && before.equal(&found) {
			return repository.Stored{}, nil // the batch's ranges do not begin at the positions
		}
		ofKept := known
		if !found.empty() {
			ofKept = s.prepare(kept)
			ofKept.repeats = found
		}
		stored, err := s.storeWhole(ctx, kept, moveSteps, ofKept)
		if hasEqual(err) {
			look = true
			continue
		}
		if conn.Refused(err) {
			return s.bisect(ctx, batch, known, err)
		}
		if err != nil || len(stored.Ranges) > 0 || len(found.all) == 0 && len(found.open) == 0 && len(found.next) == 0 {
			s.repeating.Store(len(found.open) > 0)
			return stored, err
		}
		before = found
	}
	return repository.Stored{}, entity.ErrContended
}

// storeParts stores the parts of a batch, one after the other.
func (s *Ingester) storeParts(ctx context.Context, parts ...repository.Batch) (all repository.Stored, err error) {
	for _, part := range parts {
		stored, err := s.storeWithoutRepeats(ctx, part, s.prepare(part))
		all.Ranges = append(all.Ranges, stored.Ranges...)
		all.Returns = append(all.Returns, stored.Returns...)
		all.Quarantined = append(all.Quarantined, stored.Quarantined...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (s *Ingester) prepare(batch repository.Batch) *prepared {
	p := &prepared{hashes: make([]int64, len(batch.Messages)), notes: make([]string, len(batch.Messages))}
	for i := range batch.Messages {
		m := &batch.Messages[i]
		switch {
		case m.Digest != uuid.Nil:
			p.hashes[i] = m.RecordHash
		case m.Share == nil: // the headers of a completed record, not its hash, say whether a share group's message is a return
			p.hashes[i] = entity.RecordHash(m.Record.Key, m.Record.Value)
		}
		p.notes[i] = s.projection.note(m)
	}
	return p
}

// storeWhole stores a batch with one statement, so that it stores nothing when PostgreSQL refuses one message. steps is
// the SQL that decides which of the batch's ranges are stored: moveSteps or releaseSteps.
func (s *Ingester) storeWhole(ctx context.Context, batch repository.Batch, steps string, known *prepared) (repository.Stored, error) {
	in := incoming{Batch: batch, steps: steps, prepared: known}
	var stored []repository.Partition
	var err error
	for range storeTries {
		if in.Messages, in.back, err = s.returns.withParents(ctx, batch, in.hashesToMatch()); err != nil {
			return repository.Stored{}, err
		}
		stored, err = s.storeAll(ctx, in)
		if conn.PartitionMissing(err) {
			if _, err = s.archive.CreatePartitions(ctx, 1); err == nil {
				stored, err = s.storeAll(ctx, in)
			}
		}
		if !takenMeanwhile(err) {
			break
		}
	}
	if err != nil {
		return repository.Stored{}, err
	}
	return repository.Stored{Ranges: stored, Returns: in.arrivals(stored)}, nil
}

// storeAll stores the batch. When PostgreSQL refuses a value as jsonb, storeAll tries again without the payloads that
// PostgreSQL refuses.
func (s *Ingester) storeAll(ctx context.Context, in incoming) ([]repository.Partition, error) {
	stored, err := s.store(ctx, in)
	if err == nil || takenMeanwhile(err) || hasEqual(err) || !conn.Refused(err) || in.asked {
		return stored, err
	}
	if err := s.dropProjections(ctx, in); err != nil {
		return nil, err
	}
	return s.store(ctx, in)
}

// dropProjections makes PostgreSQL check each value separately, and leaves out the payloads that it refuses. This is
// slow but rare, because the rules in projection.go recognise the known reasons.
func (s *Ingester) dropProjections(ctx context.Context, in incoming) error {
	for i := range in.Messages {
		if in.notes[i] != "" || in.Messages[i].Record.Value == nil {
			continue
		}
		_, err := s.db.Pool.ExecContext(ctx, `SELECT convert_from($1::bytea, 'UTF8')::jsonb`, in.Messages[i].Record.Value)
		switch {
		case err == nil:
		case conn.Refused(err):
			in.notes[i] = NoteRefused
		default:
			return err
		}
	}
	in.asked = true
	return nil
}

func (s *Ingester) store(ctx context.Context, in incoming) ([]repository.Partition, error) {
	var found []positionRow
	query, args := storeQuery, storeArgs(in, s.db.Clock())
	if len(in.back) > 0 {
		query, args = storeReturnsQuery, append(args, returnArgs(in)...)
	}
	steps, query, args := withShares(in, query, args, clockParameter)
	steps, query, args = withRecent(in, steps, query, args)
	if s.projection.mode != PayloadInline {
		query = strings.Replace(query, valueForPayload, "NULL::bytea AS value, ", 1)
	}
	if in.large() {
		query = strings.ReplaceAll(query, "unnest($34::bytea[])", "$34::bytea")
	}
	if err := s.db.Select(ctx, &found, steps+query+storedPartitions, args...); err != nil {
		return nil, err
	}
	stored := make([]repository.Partition, len(found))
	for i, f := range found {
		stored[i] = f.partition()
	}
	return stored, nil
}
