package ingest

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// sharePosition is the same for dead letters that repeat each other. Such dead letters are in the same dead-letter
// topic, have the same key and value, and name the same share group and the same position of the original topic. The
// dead-letter topic belongs to it, because a program that may write only to another dead-letter topic must not be able
// to hide the genuine dead letter of a record.
type sharePosition struct {
	dlqTopic     int32
	group, topic string
	partition    int32
	offset       int64
	digest       string
}

func sharePositionOf(m *entity.Message) (sharePosition, bool) {
	if m.Share == nil || m.Origin.Partition == nil || m.Origin.Offset == nil {
		return sharePosition{}, false
	}
	return sharePosition{m.Source.TopicID, m.Failure.ConsumerGroup, m.OriginalTopic, *m.Origin.Partition, *m.Origin.Offset, string(m.Share.Digest)}, true
}

// isOpen is the SQL condition that dead letters may be counted as repeats of the message m, whose row of
// dlq.share_records is s: the message is not final, and its record is stored or may still be stored. When the record
// can no longer be stored, the message may come from a forged dead letter, which must not hide the genuine one.
const isOpen = `m.status IN ('PENDING', 'RETRYING') AND (s.state IN ('waiting', 'completed') OR s.state = 'refused' AND s.due_at IS NOT NULL)`

// repeatedQuery finds the messages for which isOpen is true and which have one of the given sharePositions.
const repeatedQuery = `
	SELECT s.message_id, s.dlq_topic_id, s.share_group, s.topic, s.partition, s.position, s.digest
	FROM unnest($1::text[], $2::text[], $3::int4[], $4::int8[], $5::int4[]) AS x (share_group, topic, partition, position, dlq_topic_id)
	JOIN dlq.share_records s USING (topic, partition, position, share_group, dlq_topic_id)
	JOIN dlq.dlq_messages m ON m.id = s.message_id AND ` + isOpen

// withoutRepeats returns the batch without those messages that are repeats, and separately the repeats. Two dead
// letters in the same batch are recognised as repeats only when they are in the same partition of the dead-letter
// topic. They always are, unless partitions were added to the topic between them.
func withoutRepeats(ctx context.Context, db *conn.DB, batch repository.Batch) (repository.Batch, repeats, error) {
	n := 0
	for i := range batch.Messages {
		if _, known := sharePositionOf(&batch.Messages[i]); known {
			n++
		}
	}
	if n == 0 {
		return batch, repeats{}, nil
	}
	stored, err := repeated(ctx, db, batch.Messages, n)
	if err != nil {
		return batch, repeats{}, err
	}
	found := repeats{within: map[uuid.UUID]within{}}
	first := map[sharePosition]*entity.Message{}
	var kept []entity.Message
	for i := range batch.Messages {
		m := &batch.Messages[i]
		at, known := sharePositionOf(m)
		before := first[at]
		switch id, isStored := stored[at]; {
		case known && isStored:
			found.all = append(found.all, repeat{id, m.Source})
			found.counted = append(found.counted, repeat{id, m.Source})
			continue
		case known && before != nil && before.Source.Incarnation == m.Source.Incarnation && before.Source.Partition == m.Source.Partition:
			w := found.within[before.ID]
			w.times++
			if w.latest.Before(m.Source.Timestamp) {
				w.latest = m.Source.Timestamp
			}
			found.within[before.ID] = w
			found.counted = append(found.counted, repeat{before.ID, m.Source})
			continue
		case known:
			first[at] = m
		}
		kept = append(kept, *m)
	}
	batch.Messages = kept
	return batch, found, nil
}

// repeated returns, by sharePosition, the ids of stored messages that have the sharePosition of one of the given
// messages. n is the number of given messages that have a sharePosition.
func repeated(ctx context.Context, db *conn.DB, messages []entity.Message, n int) (map[sharePosition]uuid.UUID, error) {
	groups, topics := codec.NewArray(codec.OIDText, n, 24), codec.NewArray(codec.OIDText, n, 24)
	partitions, offsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	dlqTopics := codec.NewArray(codec.OIDInt4, n, 4)
	for i := range messages {
		if at, known := sharePositionOf(&messages[i]); known {
			groups.Text(at.group)
			topics.Text(at.topic)
			partitions.Int32(at.partition)
			offsets.Int64(at.offset)
			dlqTopics.Int32(at.dlqTopic)
		}
	}
	var found []struct {
		ID        uuid.UUID `db:"message_id"`
		DLQTopic  int32     `db:"dlq_topic_id"`
		Group     string    `db:"share_group"`
		Topic     string    `db:"topic"`
		Partition int32     `db:"partition"`
		Position  int64     `db:"position"`
		Digest    []byte    `db:"digest"`
	}
	if err := db.Select(ctx, &found, repeatedQuery, groups.Arg(), topics.Arg(), partitions.Arg(), offsets.Arg(), dlqTopics.Arg()); err != nil {
		return nil, err
	}
	stored := make(map[sharePosition]uuid.UUID, len(found))
	for _, f := range found {
		stored[sharePosition{f.DLQTopic, f.Group, f.Topic, f.Partition, f.Position, string(f.Digest)}] = f.ID
	}
	return stored, nil
}

// shareSteps inserts a row into dlq.share_records for each stored message of a share group. It also counts the repeats
// in those ranges whose position moved. See placed for its placeholders, and shareArgs and repeatArgs for its
// arguments.
const shareSteps = `, shared AS (
		INSERT INTO dlq.share_records (message_id, share_group, topic, partition, position, digest, duplicates, last_death, due_at, dlq_topic_id)
		SELECT id, share_group, topic, at_partition, position, digest, duplicates, last_death, moment, dlq_topic_id FROM (
			SELECT coalesce(@now::timestamptz, clock_timestamp()) AS moment, unnest(@1::uuid[]) AS id, unnest(@2::text[]) AS share_group,
				unnest(@3::text[]) AS topic, unnest(@4::int4[]) AS at_partition, unnest(@5::int8[]) AS position,
				unnest(@6::bytea[]) AS digest, unnest(@7::int4[]) AS duplicates, unnest(@8::int4[]) AS incarnation_id,
				unnest(@9::int4[]) AS partition, unnest(@10::int8[]) AS dlq_offset, unnest(@15::timestamptz[]) AS last_death,
				unnest(@17::int4[]) AS dlq_topic_id
		) r ` + ofMoved + `
	), repeated AS (
		UPDATE dlq.share_records s SET duplicates = s.duplicates + d.times, last_death = greatest(s.last_death, d.latest) FROM (
			SELECT r.id, count(*)::int AS times, max(r.died_at) AS latest
			FROM unnest(@11::uuid[], @12::int4[], @13::int4[], @14::int8[], @16::timestamptz[]) AS r (id, incarnation_id, partition, dlq_offset, died_at)
			JOIN step s USING (incarnation_id, partition) JOIN moved USING (incarnation_id, partition)
			WHERE r.dlq_offset >= s.from_offset AND r.dlq_offset < s.to_offset GROUP BY r.id
		) d WHERE s.message_id = d.id
	)`

// openSteps comes before moveSteps when the batch contains repeats of stored messages. It locks these messages, so that
// isOpen stays true for them until the repeats are counted. No position moves unless isOpen is true for all of them.
const openSteps = `
	WITH open AS MATERIALIZED (
		SELECT m.id FROM dlq.dlq_messages m JOIN dlq.share_records s ON s.message_id = m.id
		WHERE m.id = ANY (@1::uuid[]) AND ` + isOpen + ` ORDER BY m.id FOR SHARE OF m FOR NO KEY UPDATE OF s
	), `

const areOpen = isAtStart + ` AND (SELECT count(*) FROM open) = cardinality(@1::uuid[])`

// withShares adds shareSteps and openSteps to a statement if its batch contains dead letters of share groups. It
// returns the steps that move positions, the rest of the statement, and the arguments of both. The parameter clock is
// the number of the SQL parameter for the time.
func withShares(in incoming, query string, args []any, clock int) (steps, whole string, all []any) {
	n := 0
	for i := range in.Messages {
		if in.Messages[i].Share != nil {
			n++
		}
	}
	if n == 0 && len(in.repeats.all) == 0 {
		return in.steps, query, args
	}
	query += placed(shareSteps, clock, len(args)+1)
	rows, deaths, dlqTopics := shareArgs(in, n)
	repeated, latest := repeatArgs(in.repeats.all)
	args = append(append(append(args, rows...), repeated...), deaths, latest, dlqTopics)
	steps = in.steps
	if ids := in.repeats.messages(); len(ids) > 0 {
		args = append(args, codec.UUIDArray(ids))
		steps = strings.Replace(steps, "\n\tWITH ", placed(openSteps, clock, len(args)), 1)
		steps = strings.Replace(steps, isAtStart, placed(areOpen, clock, len(args)), 1)
	}
	return steps, query, args
}

// shareArgs returns arguments of shareSteps for n messages. columns contains seven columns of dlq.share_records, and
// the incarnation, the partition and the offset of each dead letter; deaths are the timestamps of the messages' latest
// dead letters, dlqTopics their dead-letter topics.
func shareArgs(in incoming, n int) (columns []any, deaths, dlqTopics any) {
	latest, deadTopics := codec.NewArray(codec.OIDTimestamptz, n, 8), codec.NewArray(codec.OIDInt4, n, 4)
	ids, groups, topics := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 24), codec.NewArray(codec.OIDText, n, 24)
	partitions, offsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	digests, duplicates := codec.NewArray(codec.OIDBytea, n, 32), codec.NewArray(codec.OIDInt4, n, 4)
	incarnations, deadPartitions, deadOffsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	for i := range in.Messages {
		m := &in.Messages[i]
		at, known := sharePositionOf(m)
		if !known {
			continue
		}
		ids.UUID(m.ID)
		groups.Text(at.group)
		topics.Text(at.topic)
		partitions.Int32(at.partition)
		offsets.Int64(at.offset)
		digests.Bytes(m.Share.Digest)
		w := in.repeats.within[m.ID]
		duplicates.Int32(int32(w.times))
		if w.latest.Before(m.Source.Timestamp) {
			w.latest = m.Source.Timestamp
		}
		latest.Time(w.latest)
		deadTopics.Int32(at.dlqTopic)
		incarnations.Int32(m.Source.Incarnation)
		deadPartitions.Int32(m.Source.Partition)
		deadOffsets.Int64(m.Source.Offset)
	}
	return []any{
		ids.Arg(), groups.Arg(), topics.Arg(), partitions.Arg(), offsets.Arg(), digests.Arg(), duplicates.Arg(),
		incarnations.Arg(), deadPartitions.Arg(), deadOffsets.Arg(),
	}, latest.Arg(), deadTopics.Arg()
}

func repeatArgs(all []repeat) (columns []any, deaths any) {
	n := len(all)
	ids, incarnations := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDInt4, n, 4)
	partitions, offsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	times := codec.NewArray(codec.OIDTimestamptz, n, 8)
	for _, r := range all {
		ids.UUID(r.message)
		incarnations.Int32(r.source.Incarnation)
		partitions.Int32(r.source.Partition)
		offsets.Int64(r.source.Offset)
		times.Time(r.source.Timestamp)
	}
	return []any{ids.Arg(), incarnations.Arg(), partitions.Arg(), offsets.Arg()}, times.Arg()
}
