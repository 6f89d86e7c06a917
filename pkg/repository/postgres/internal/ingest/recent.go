package ingest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// hasEqual reports whether a batch was not stored because one of its dead letters repeats another one.
func hasEqual(err error) bool { return conn.Violates(err, "23505", "recent_records_pkey") }

type olderRow struct {
	Digest   uuid.UUID     `db:"digest"`
	ID       uuid.UUID     `db:"message_id"`
	Open     bool          `db:"open"`
	RepeatOf uuid.NullUUID `db:"repeat_of"`
}

// olderQuery finds the messages that have one of the given digests. The column open says whether further dead
// letters count as repeats of the message. The column repeat_of is NULL when the message is gone or too old.
const olderQuery = `
	SELECT r.digest, r.message_id, coalesce(` + isRecent + ` AND m.status IN ('PENDING', 'RETRYING'), false) AS open,
		CASE WHEN ` + isRecent + ` AND m.id IS NOT NULL THEN coalesce(d.repeat_of, m.id) END AS repeat_of
	FROM unnest($1::uuid[]) AS x (digest)
	JOIN dlq.recent_records r USING (digest)
	LEFT JOIN dlq.dlq_messages m ON m.id = r.message_id
	LEFT JOIN dlq.repeats d ON d.message_id = r.message_id`

const isRecent = `r.stored_at >= coalesce($2::timestamptz, now()) - $3::bigint * interval '1 microsecond'`

// withoutEqual returns the batch without the messages that repeat another one, and adds these repeats to found. When a
// message repeats one of another partition, which may not be stored together with it, withoutEqual instead returns its
// partition's part of the batch separately, as apart.
func withoutEqual(ctx context.Context, db *conn.DB, batch repository.Batch, found *repeats) (kept, apart repository.Batch, err error) {
	first := map[uuid.UUID]repository.Partition{} // the partition of each digest
	for i := range batch.Messages {
		m := &batch.Messages[i]
		if m.Digest == uuid.Nil {
			continue
		}
		p := partitionOf(m)
		if other, known := first[m.Digest]; !known {
			first[m.Digest] = p
		} else if other != p {
			kept, apart = takeApart(batch, p)
			return kept, apart, nil
		}
	}
	older, err := olderMessages(ctx, db, slices.Collect(maps.Keys(first)))
	if err != nil {
		return batch, repository.Batch{}, err
	}
	counts := map[uuid.UUID]uuid.UUID{} // by digest: the message that counts the repeats of each record
	kept = batch
	kept.Messages = make([]entity.Message, 0, len(batch.Messages))
	for _, m := range batch.Messages {
		if m.Digest != uuid.Nil {
			digest := m.Digest
			if id, known := counts[digest]; known {
				found.counted = append(found.counted, repeat{id, m.Source})
				continue
			}
			counts[digest] = m.ID
			switch o, isStored := older[digest]; {
			case isStored && o.Open:
				counts[digest] = o.ID
				found.counted, found.open = append(found.counted, repeat{o.ID, m.Source}), append(found.open, o.ID)
				continue
			case isStored:
				found.next = append(found.next, successor{digest, m.ID, o.ID, o.RepeatOf.UUID, m.Source})
				m.Digest = uuid.Nil // replaceStep takes the place of recentStep
			}
		}
		kept.Messages = append(kept.Messages, m)
	}
	return kept, repository.Batch{}, nil
}

func partitionOf(m *entity.Message) repository.Partition {
	return repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
}

// takeApart splits a batch into the part of the partition p and the rest.
func takeApart(batch repository.Batch, p repository.Partition) (rest, part repository.Batch) {
	rest, part = batch, batch
	rest.Ranges, part.Ranges, rest.Messages, part.Messages = nil, nil, nil, nil
	for _, r := range batch.Ranges {
		if r.Partition == p {
			part.Ranges = append(part.Ranges, r)
		} else {
			rest.Ranges = append(rest.Ranges, r)
		}
	}
	for i := range batch.Messages {
		if partitionOf(&batch.Messages[i]) == p {
			part.Messages = append(part.Messages, batch.Messages[i])
		} else {
			rest.Messages = append(rest.Messages, batch.Messages[i])
		}
	}
	return rest, part
}

func olderMessages(ctx context.Context, db *conn.DB, digests []uuid.UUID) (map[uuid.UUID]olderRow, error) {
	var rows []olderRow
	if err := db.Select(ctx, &rows, olderQuery, codec.UUIDArray(digests), db.Clock(), entity.RepeatWindow.Microseconds()); err != nil {
		return nil, err
	}
	older := make(map[uuid.UUID]olderRow, len(rows))
	for _, row := range rows {
		older[row.Digest] = row
	}
	return older, nil
}

// hashesToMatch returns the hashes by which returns are found. A repeat of a final message is no return, because it names
// the position of the first record and not that of a replay.
func (in *incoming) hashesToMatch() []int64 {
	if len(in.repeats.next) == 0 {
		return in.hashes
	}
	hashes, ofFinal := slices.Clone(in.hashes), map[uuid.UUID]bool{}
	for _, next := range in.repeats.next {
		ofFinal[next.message] = next.repeatOf != uuid.Nil
	}
	for i := range in.Messages {
		if ofFinal[in.Messages[i].ID] {
			hashes[i] = 0
		}
	}
	return hashes
}

// The steps of a statement for repeats; see placed for their placeholders.
const (
	// recentStep inserts the digests of the stored messages. It fails when one of them exists already: then no
	// message of the batch is stored, and Store looks for repeats.
	recentStep = `, recent AS (
		INSERT INTO dlq.recent_records (digest, message_id, stored_at)
		SELECT digest, id, coalesce(@now::timestamptz, now()) FROM (
			SELECT * FROM (
				SELECT unnest($5::uuid[]) AS id, unnest($15::int4[]) AS incarnation_id, unnest($16::int4[]) AS partition,
					unnest($17::int8[]) AS dlq_offset, unnest(@1::uuid[]) AS digest
			) a WHERE digest IS NOT NULL
		) r ` + ofMoved + `
	)`

	// countStep counts repeats, stores their positions, and stores of which message a message is a repeat.
	countStep = `, counted AS (
		INSERT INTO dlq.repeats AS d (message_id, repeat_of, duplicates, partitions, offsets)
		SELECT r.id, (array_agg(r.repeat_of) FILTER (WHERE r.repeat_of IS NOT NULL))[1], count(*) FILTER (WHERE r.repeat_of IS NULL),
			coalesce((array_agg(r.partition ORDER BY ord DESC) FILTER (WHERE r.repeat_of IS NULL))[:@6], '{}'),
			coalesce((array_agg(r.dlq_offset ORDER BY ord DESC) FILTER (WHERE r.repeat_of IS NULL))[:@6], '{}')
		FROM unnest(@1::uuid[], @2::uuid[], @3::int4[], @4::int4[], @5::int8[]) WITH ORDINALITY
			AS r (id, repeat_of, incarnation_id, partition, dlq_offset, ord)
		JOIN moved USING (incarnation_id, partition) GROUP BY r.id ORDER BY r.id
		ON CONFLICT (message_id) DO UPDATE SET duplicates = d.duplicates + excluded.duplicates,
			partitions = (excluded.partitions || d.partitions)[:@6], offsets = (excluded.offsets || d.offsets)[:@6]
	)`

	// replaceStep makes the messages of successors count the repeats of their records.
	replaceStep = `, replaced AS (
		UPDATE dlq.recent_records r SET message_id = x.message_id, stored_at = coalesce(@now::timestamptz, now())
		FROM ` + successors + ` JOIN moved USING (incarnation_id, partition)
		WHERE r.digest = x.digest
	)`

	successors = `unnest(@1::uuid[], @2::uuid[], @3::uuid[], @4::int4[], @5::int4[])
			AS x (digest, message_id, older, incarnation_id, partition)`

	// countersSteps comes before moveSteps. It locks the messages that count repeats, and the rows that replaceStep
	// changes, so that what withoutEqual has found stays true. No position moves unless it is true for all of them.
	countersSteps = `
	WITH counting AS MATERIALIZED (
		SELECT m.id FROM dlq.dlq_messages m
		WHERE m.id = ANY (@6::uuid[]) AND m.status IN ('PENDING', 'RETRYING') ORDER BY m.id FOR SHARE OF m
	), older AS MATERIALIZED (
		SELECT r.message_id FROM ` + successors + ` JOIN dlq.recent_records r USING (digest)
		WHERE r.message_id = x.older ORDER BY r.digest FOR UPDATE OF r
	), `

	areUnchanged = isAtStart + ` AND (SELECT count(*) FROM counting) = cardinality(@6::uuid[])
			AND (SELECT count(*) FROM older) = cardinality(@3::uuid[])`
)

// withRecent adds the steps above to a statement, as far as its batch needs them. It returns the steps that move
// positions, the rest of the statement, and the arguments of both.
func withRecent(in incoming, steps, query string, args []any) (moving, whole string, all []any) {
	if digests := digestArg(in.Messages); digests != nil {
		query += placed(recentStep, clockParameter, len(args)+1)
		args = append(args, digests)
	}
	if in.repeats.empty() {
		return steps, query, args
	}
	query += placed(countStep, clockParameter, len(args)+1)
	args = append(append(args, countArgs(&in.repeats)...), entity.MaxRepeatPositions)
	query += placed(replaceStep, clockParameter, len(args)+1)
	steps = strings.Replace(steps, "\n\tWITH ", placed(countersSteps, clockParameter, len(args)+1), 1)
	steps = strings.Replace(steps, isAtStart, placed(areUnchanged, clockParameter, len(args)+1), 1)
	return steps, query, append(append(args, successorArgs(in.repeats.next)...), codec.UUIDArray(sorted(slices.Clone(in.repeats.open))))
}

// digestArg returns the digests of messages; nil when no message has one. The array ends with the last one.
func digestArg(messages []entity.Message) any {
	n := len(messages)
	for n > 0 && messages[n-1].Digest == uuid.Nil {
		n--
	}
	if n == 0 {
		return nil
	}
	digests := codec.NewArray(codec.OIDUUID, n, 16)
	for i := range n {
		digests.OptionalUUID(messages[i].Digest)
	}
	return digests.Arg()
}

func countArgs(found *repeats) []any {
	n := len(found.counted) + len(found.next)
	ids, of := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16)
	incarnations, partitions, offsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	add := func(id, repeatOf uuid.UUID, source entity.Source) {
		ids.UUID(id)
		of.OptionalUUID(repeatOf)
		incarnations.Int32(source.Incarnation)
		partitions.Int32(source.Partition)
		offsets.Int64(source.Offset)
	}
	for _, r := range found.counted {
		add(r.message, uuid.Nil, r.source)
	}
	for _, next := range found.next {
		if next.repeatOf != uuid.Nil {
			add(next.message, next.repeatOf, next.source)
		}
	}
	return []any{ids.Arg(), of.Arg(), incarnations.Arg(), partitions.Arg(), offsets.Arg()}
}

func successorArgs(next []successor) []any {
	n := len(next)
	digests, ids, older := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16)
	incarnations, partitions := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt4, n, 4)
	for i := range next {
		digests.UUID(next[i].digest)
		ids.UUID(next[i].message)
		older.UUID(next[i].older)
		incarnations.Int32(next[i].source.Incarnation)
		partitions.Int32(next[i].source.Partition)
	}
	return []any{digests.Arg(), ids.Arg(), older.Arg(), incarnations.Arg(), partitions.Arg()}
}
