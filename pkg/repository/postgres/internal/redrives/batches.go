package redrives

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Batches leases the batches of redrives and stores their results.
type Batches struct {
	db        *conn.DB
	lifecycle *Lifecycle
}

// NewBatches returns Batches that send their statements to db.
func NewBatches(db *conn.DB, lifecycle *Lifecycle) *Batches { return &Batches{db, lifecycle} }

// leaseQuery locks the redrive first, so that it leases no batch of a paused redrive, and so that only one caller at a
// time uses the rate limit. It skips batches that another caller is saving or leasing, and those of the topics in $5
// unless their owner died: what such an owner was admitted takes room until the batch is saved. When the redrive keeps
// the order of keys, only its first unfinished batch, or the first of each topic, can be leased; if that batch is
// finished while the statement runs, the statement leases nothing, and the next call leases the next batch. When the
// redrive is not active, it leases only batches whose earlier lease has expired, because their results must still be
// saved; the redrive's rate and the order of keys do not matter then. A batch for which messages were admitted has had an
// owner whose attempts must be read, although a process of an earlier version has given it back.
const leaseQuery = `
	WITH held AS MATERIALIZED (
		SELECT r.id, r.state, r.ordered, r.rate, c.moment, r.state IN ('canary', 'running') AS active
		FROM dlq.redrives r, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		WHERE r.id = $1 AND (r.state NOT IN ('canary', 'running') OR r.next_batch_at IS NULL OR r.next_batch_at <= c.moment)
		FOR NO KEY UPDATE OF r
	), free AS MATERIALIZED (
		SELECT b.batch_no, b.owner AS earlier, held.moment, held.rate, held.active
		FROM held JOIN dlq.redrive_batches b ON b.redrive_id = $1
		WHERE NOT b.done AND (b.owner IS NULL OR b.lease_expires_at <= held.moment)
		  AND (held.active OR b.owner IS NOT NULL)
		  AND (b.canary OR held.state <> 'canary')
		  AND (cardinality($5::text[]) = 0 OR b.owner IS NOT NULL OR coalesce(b.topic, '') <> ALL ($5))
		  AND (NOT held.ordered OR NOT held.active OR b.batch_no = (
			SELECT min(o.batch_no) FROM dlq.redrive_batches o
			WHERE o.redrive_id = $1 AND NOT o.done AND o.topic IS NOT DISTINCT FROM b.topic))
		ORDER BY b.batch_no LIMIT 1 FOR NO KEY UPDATE OF b SKIP LOCKED
	), leased AS (
		UPDATE dlq.redrive_batches b SET owner = $3, lease_expires_at = free.moment + $4::bigint * interval '1 microsecond'
		FROM free WHERE b.redrive_id = $1 AND b.batch_no = free.batch_no
		RETURNING b.*, free.earlier, free.active
	), paced AS (
		UPDATE dlq.redrives r SET next_batch_at = greatest(free.moment, coalesce(r.next_batch_at, free.moment))
			+ (cardinality(b.message_ids) - b.succeeded - b.failed - b.in_doubt - b.skipped) / free.rate * interval '1 second'
		FROM free JOIN leased b ON b.batch_no = free.batch_no WHERE r.id = $1 AND free.rate IS NOT NULL AND free.active
	)
	SELECT batch_no, first_item, canary, coalesce(topic, '') AS topic, earlier IS NOT NULL OR admitted IS NOT NULL AS taken_over, NOT active AS only_catch_up,
	       array_send(message_ids) AS ids, array_send(results) AS results
	FROM leased`

type batchRow struct {
	Number    int    `db:"batch_no"`
	First     int    `db:"first_item"`
	Canary    bool   `db:"canary"`
	Topic     string `db:"topic"`
	TakenOver bool   `db:"taken_over"`
	CatchUp   bool   `db:"only_catch_up"`
	IDs       []byte `db:"ids"`
	Results   []byte `db:"results"` // NULL until the batch is saved for the first time
}

// LeaseBatch implements repository.Redrives.
func (s *Batches) LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration, without ...string) (*repository.RedriveBatch, error) {
	var found []batchRow
	if err := s.db.Select(ctx, &found, leaseQuery, id, s.db.Clock(), owner, lease.Microseconds(), codec.TextArray(without)); err != nil {
		return nil, conn.Translate("lease a batch", err)
	}
	if len(found) == 0 {
		return nil, s.lifecycle.mustExist(ctx, "lease a batch", id)
	}
	b, err := found[0].batch(id)
	if err != nil {
		return nil, fmt.Errorf("lease a batch of %s: %w", id, err)
	}
	return b, nil
}

func (r *batchRow) batch(redrive uuid.UUID) (*repository.RedriveBatch, error) {
	ids, err := elements(r.IDs)
	if err != nil {
		return nil, err
	}
	results, err := elements(r.Results)
	if err != nil {
		return nil, err
	}
	b := &repository.RedriveBatch{
		RedriveID: redrive, Number: r.Number, First: r.First, Canary: r.Canary, Topic: r.Topic, TakenOver: r.TakenOver, OnlyCatchUp: r.CatchUp,
		Items: make([]repository.BatchItem, len(ids)),
	}
	for i := range ids {
		copy(b.Items[i].MessageID[:], ids[i])
		if i < len(results) {
			b.Items[i].Result = itemResult(int(binary.BigEndian.Uint16(results[i])))
		}
	}
	return b, nil
}

// renewQuery renews all leases of an owner. It reads all unfinished batches, which are few. An index of owners would
// make each lease slower, because every lease would have to write the index. All callers lock the rows in the same
// order, so that they never deadlock.
const renewQuery = `
	WITH mine AS MATERIALIZED (
		SELECT redrive_id, batch_no FROM dlq.redrive_batches WHERE owner = $1 AND NOT done
		ORDER BY redrive_id, batch_no FOR NO KEY UPDATE
	)
	UPDATE dlq.redrive_batches b
	SET lease_expires_at = coalesce($2::timestamptz, clock_timestamp()) + $3::bigint * interval '1 microsecond'
	FROM mine WHERE b.redrive_id = mine.redrive_id AND b.batch_no = mine.batch_no AND b.owner = $1
	RETURNING b.batch_no`

// RenewLeases implements repository.Redrives.
func (s *Batches) RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error {
	var renewed []int
	err := s.db.Select(ctx, &renewed, renewQuery, owner, s.db.Clock(), lease.Microseconds())
	return conn.Translate("renew leases", err)
}

// saveBatchQuery merges the new results of a batch's messages with the results that were saved before, and counts all
// results again. It appends new targets, which are the partitions to which records were sent, to the targets that were
// saved before. What the owner was admitted and has not sent it gives back to the bounds of the topics.
const saveBatchQuery = `
	WITH held AS MATERIALIZED (
		SELECT * FROM dlq.redrive_batches WHERE redrive_id = $1 AND batch_no = $2 AND owner = $3 FOR NO KEY UPDATE
	), result AS (
		SELECT * FROM unnest($4::int4[], $5::int4[], $6::text[], $7::int4[], $8::int8[])
			AS r (number, result, reason, target, log_offset)
	), item AS MATERIALIZED (
		SELECT o.i, coalesce(r.result, o.result, 0) AS result,
		       CASE WHEN r.number IS NULL THEN o.reason ELSE r.reason END AS reason,
		       CASE WHEN r.number IS NULL THEN o.target ELSE r.target + coalesce(jsonb_array_length(h.targets), 0) END AS target,
		       CASE WHEN r.number IS NULL THEN o.log_offset ELSE r.log_offset END AS log_offset
		FROM held h
		CROSS JOIN LATERAL unnest(h.message_ids, h.results, h.reasons, h.target, h.offsets) WITH ORDINALITY
			AS o (id, result, reason, target, log_offset, i)
		LEFT JOIN result r ON r.number = h.first_item + o.i - 1
	), total AS (
		SELECT array_agg(result::smallint ORDER BY i) AS results, array_agg(reason ORDER BY i) AS reasons,
		       array_agg(target::smallint ORDER BY i) AS target, array_agg(log_offset ORDER BY i) AS offsets,
		       count(*) FILTER (WHERE result = 0) AS waiting, count(*) FILTER (WHERE result = 1) AS succeeded,
		       count(*) FILTER (WHERE result IN (2, 3)) AS failed, count(*) FILTER (WHERE result = 3) AS dead,
		       count(*) FILTER (WHERE result = 4) AS in_doubt, count(*) FILTER (WHERE result = 5) AS skipped
		FROM item
	), why AS (
		SELECT jsonb_object_agg(reason, n) AS counts FROM (
			SELECT reason, count(*) AS n FROM item WHERE result IN (2, 3, 5) AND reason <> '' GROUP BY reason
		) counted
	), back AS (
		UPDATE dlq.redrive_topics t SET admitted = t.admitted - e.value::int + coalesce(s.n, 0)
		FROM held h CROSS JOIN LATERAL jsonb_each_text(h.admitted) e
		LEFT JOIN (
			SELECT $9::jsonb->target->>'topic' AS topic, count(*) AS n FROM result WHERE result = 1 AND target IS NOT NULL GROUP BY 1
		) s ON s.topic = e.key
		WHERE t.redrive_id = $1 AND t.topic = e.key
	)
	UPDATE dlq.redrive_batches b SET
		admitted = NULL, results = total.results, reasons = total.reasons, target = total.target, offsets = total.offsets,
		targets = coalesce(held.targets, '[]') || $9::jsonb, reason_counts = why.counts,
		succeeded = total.succeeded, failed = total.failed, dead = total.dead,
		in_doubt = total.in_doubt, skipped = total.skipped,
		done = total.waiting = 0, owner = NULL, lease_expires_at = NULL
	FROM held, total, why
	WHERE b.redrive_id = held.redrive_id AND b.batch_no = held.batch_no AND b.owner = $3
	RETURNING true`

// SaveBatch implements repository.Redrives.
func (s *Batches) SaveBatch(ctx context.Context, r repository.BatchResults) (bool, error) {
	n := len(r.Items)
	numbers, results, reasons := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDText, n, 16)
	targets, offsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	known := map[targetJSON]int32{}
	list := []targetJSON{}
	for _, item := range lastOfEach(r.Items) {
		numbers.Int32(int32(item.Number))
		results.Int32(resultNumber(item.Result))
		reasons.OptionalText(item.Reason)
		if item.Topic == "" {
			targets.Null()
			offsets.Null()
			continue
		}
		p := targetJSON{codec.Clean(item.Topic), codec.Clean(item.TopicID), item.Partition, codec.Clean(item.Group)}
		at, ok := known[p]
		if !ok {
			at = int32(len(list))
			known[p] = at
			list = append(list, p)
		}
		targets.Int32(at)
		offsets.OptionalOffset(item.Offset)
	}
	packed, err := codec.Pack(list)
	if err != nil {
		return false, fmt.Errorf("save a batch: %w", err)
	}
	var saved []bool
	if err := s.db.Select(ctx, &saved, saveBatchQuery, r.RedriveID, r.Number, r.Owner,
		numbers.Arg(), results.Arg(), reasons.Arg(), targets.Arg(), offsets.Arg(), packed); err != nil {
		return false, conn.Translate("save a batch", err)
	}
	if len(saved) > 0 {
		return true, nil
	}
	return false, s.lifecycle.mustExist(ctx, "save a batch", r.RedriveID)
}

// lastOfEach returns the items that have a result. When several items are about the same message of the batch, it
// returns only the last of them.
func lastOfEach(items []entity.RedriveItem) []entity.RedriveItem {
	at := make(map[int]int, len(items))
	once := make([]entity.RedriveItem, 0, len(items))
	for _, item := range items {
		if item.Result == entity.ItemWaiting {
			continue
		}
		if i, ok := at[item.Number]; ok {
			once[i] = item
			continue
		}
		at[item.Number] = len(once)
		once = append(once, item)
	}
	return once
}

// resultNumber returns the number that is stored for a result in the database: its index in entity.ItemResults.
func resultNumber(r entity.ItemResult) int32 {
	for i, known := range entity.ItemResults() {
		if known == r {
			return int32(i)
		}
	}
	return 0
}

func itemResult(number int) entity.ItemResult {
	if all := entity.ItemResults(); number < len(all) {
		return all[number]
	}
	return entity.ItemWaiting
}

// elements returns the elements of an array in PostgreSQL's binary form, which a query returns with array_send. A nil
// array, which stands for NULL, has no elements.
func elements(array []byte) ([][]byte, error) {
	if len(array) <= 12 { // an array without elements has no dimension
		return nil, nil
	}
	rest := array[20:]
	all := make([][]byte, 0, binary.BigEndian.Uint32(array[12:]))
	for len(rest) >= 4 {
		size := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if size < 0 || int(size) > len(rest) {
			return nil, fmt.Errorf("an array with an element of %d bytes", size)
		}
		all = append(all, rest[:size])
		rest = rest[size:]
	}
	return all, nil
}
