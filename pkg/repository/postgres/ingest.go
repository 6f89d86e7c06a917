package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// DefaultPayloadLimit is the largest value, in bytes, that is projected into the
// column payload. Above it the projection is two thirds of an insert's cost.
const DefaultPayloadLimit = 64 << 10

// WithPayloadLimit sets another limit than DefaultPayloadLimit.
func WithPayloadLimit(bytes int) Option {
	return func(s *Store) { s.payloadLimit = bytes }
}

// OpenTopics implements repository.Ingest.
func (s *Store) OpenTopics(ctx context.Context, topics []repository.Topic) ([]repository.TopicRef, error) {
	refs := make([]repository.TopicRef, len(topics))
	for i, t := range topics {
		ref, err := s.openTopic(ctx, t)
		if err != nil {
			return nil, translate("open topic "+t.Name, err)
		}
		refs[i] = ref
	}
	return refs, nil
}

// openTopic asks first and writes only what is new: topics are opened at every
// change of the group and are nearly always known.
func (s *Store) openTopic(ctx context.Context, t repository.Topic) (repository.TopicRef, error) {
	var found []struct {
		TopicID     int32 `db:"topic_id"`
		Incarnation int32 `db:"incarnation_id"`
	}
	const ask = `
		SELECT t.id AS topic_id, i.id AS incarnation_id
		FROM dlq.topics t JOIN dlq.topic_incarnations i ON i.topic_id = t.id
		WHERE t.name = $1 AND i.kafka_id = $2`
	for range 3 {
		if err := s.selectRows(ctx, &found, ask, t.Name, t.Incarnation); err != nil {
			return repository.TopicRef{}, err
		}
		if len(found) > 0 {
			return repository.TopicRef{TopicID: found[0].TopicID, Incarnation: found[0].Incarnation}, nil
		}
		if err := s.makeTopic(ctx, t); err != nil {
			return repository.TopicRef{}, err
		}
	}
	return repository.TopicRef{}, errors.New("the topic's row vanished as soon as it was made")
}

func (s *Store) makeTopic(ctx context.Context, t repository.Topic) error {
	if _, err := s.db.ExecContext(ctx, `INSERT INTO dlq.topics (name) VALUES ($1) ON CONFLICT DO NOTHING`, t.Name); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO dlq.topic_incarnations (topic_id, kafka_id)
		SELECT id, $2 FROM dlq.topics WHERE name = $1 ON CONFLICT DO NOTHING`, t.Name, t.Incarnation)
	return err
}

const openPositionQuery = `
	WITH start AS (
		SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[]) AS s (incarnation_id, partition, next_offset)
	), made AS (
		INSERT INTO dlq.ingest_positions (incarnation_id, partition, next_offset)
		SELECT incarnation_id, partition, next_offset FROM start ORDER BY 1, 2
		ON CONFLICT (incarnation_id, partition) DO NOTHING
	)
	SELECT p.incarnation_id, p.partition, p.next_offset
	FROM dlq.ingest_positions p JOIN start s USING (incarnation_id, partition)`

// OpenPosition implements repository.Ingest.
func (s *Store) OpenPosition(ctx context.Context, starts []repository.Position) ([]repository.Position, error) {
	n := len(starts)
	incarnations, partitions, offsets := newColumn(oidInt4, n, 4), newColumn(oidInt4, n, 4), newColumn(oidInt8, n, 8)
	for _, p := range starts {
		incarnations.int32(p.Incarnation)
		partitions.int32(p.Partition.Partition)
		offsets.int64(p.Next)
	}
	var found []positionRow
	// The rows just made are not in the statement's own snapshot, nor are those of
	// a process that made them at the same moment: what is not found was made.
	for range 2 {
		found = found[:0]
		err := s.selectRows(ctx, &found, openPositionQuery, incarnations.arg(), partitions.arg(), offsets.arg())
		if err != nil {
			return nil, translate("open positions", err)
		}
		if len(found) == n {
			break
		}
	}
	next := make(map[repository.Partition]int64, len(found))
	for _, f := range found {
		next[f.partition()] = f.Next
	}
	positions := make([]repository.Position, n)
	for i, p := range starts {
		at, ok := next[p.Partition]
		if !ok {
			return nil, fmt.Errorf("open positions: partition %d of incarnation %d has none", p.Partition.Partition, p.Incarnation)
		}
		positions[i] = repository.Position{Partition: p.Partition, Next: at}
	}
	return positions, nil
}

type positionRow struct {
	Incarnation int32 `db:"incarnation_id"`
	Partition   int32 `db:"partition"`
	Next        int64 `db:"next_offset"`
}

func (r positionRow) partition() repository.Partition {
	return repository.Partition{Incarnation: r.Incarnation, Partition: r.Partition}
}

// storeQuery moves the positions and stores the messages of the partitions whose
// position was where the batch began: one statement, one round trip, nothing
// between. payload is derived from value on the server, so the bytes travel
// once. Rows get a moment each, which keeps ties out of the lists' order.
const storeQuery = `
	WITH step AS (
		SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[], $4::int8[])
			AS s (incarnation_id, partition, from_offset, to_offset)
	), held AS MATERIALIZED (
		SELECT p.incarnation_id, p.partition FROM dlq.ingest_positions p JOIN step s USING (incarnation_id, partition)
		ORDER BY 1, 2 FOR NO KEY UPDATE OF p
	), moved AS (
		UPDATE dlq.ingest_positions p SET next_offset = s.to_offset FROM held h JOIN step s USING (incarnation_id, partition)
		WHERE p.incarnation_id = h.incarnation_id AND p.partition = h.partition AND p.next_offset = s.from_offset
		RETURNING p.incarnation_id, p.partition, p.next_offset
	), record AS MATERIALIZED (
		SELECT r.* FROM unnest($5::uuid[], $6::text[], $7::text[], $8::int4[], $9::int4[], $10::text[],
				$11::bytea[], $12::bytea[], $13::bytea[], $14::text[], $15::int8[], $16::bytea[],
				$17::int4[], $18::int4[], $19::int4[], $20::int8[], $21::timestamptz[],
				$22::int4[], $23::int8[], $24::timestamptz[], $25::text[],
				$26::text[], $27::int4[], $28::text[], $29::text[], $30::uuid[], $31::uuid[])
			AS r (id, original_topic, error_message, retry_count, max_retries, status,
				key, value, headers, payload_note, omitted_size, omitted_sha256,
				dlq_topic_id, incarnation_id, partition, dlq_offset, dlq_timestamp,
				original_partition, original_offset, original_timestamp, origin_confidence,
				consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id)
		JOIN moved ON moved.incarnation_id = r.incarnation_id AND moved.partition = r.partition
		ORDER BY r.id
	), stored AS (
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, status,
			payload, created_at, updated_at,
			key, value, headers, payload_note, omitted_size, omitted_sha256,
			dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
			original_partition, original_offset, original_timestamp, origin_confidence,
			consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id)
		SELECT id, original_topic, error_message, retry_count, max_retries, status,
			CASE WHEN payload_note IS NULL AND value IS NOT NULL THEN convert_from(value, 'UTF8')::jsonb END,
			moment, moment,
			key, value, headers, payload_note, omitted_size, omitted_sha256,
			dlq_topic_id, incarnation_id, partition, dlq_offset, dlq_timestamp,
			original_partition, original_offset, original_timestamp, origin_confidence,
			consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id
		FROM (SELECT *, coalesce($32::timestamptz, clock_timestamp()) AS moment FROM record OFFSET 0) timed
	), parent AS MATERIALIZED (
		SELECT id FROM dlq.dlq_messages
		WHERE id IN (SELECT parent_id FROM record WHERE parent_id IS NOT NULL)
		ORDER BY id FOR NO KEY UPDATE
	), returned AS (
		UPDATE dlq.dlq_messages m SET outcome = 'returned' FROM parent WHERE m.id = parent.id
	), returned_later AS (
		UPDATE dlq.dlq_messages_archive SET outcome = 'returned'
		WHERE id IN (SELECT parent_id FROM record WHERE parent_id IS NOT NULL)
	)
	SELECT incarnation_id, partition, next_offset FROM moved`

// Store implements repository.Ingest. When PostgreSQL refuses a value, only the
// projection of the messages that it will not take is left out; the messages
// are stored.
func (s *Store) Store(ctx context.Context, batch repository.Batch) ([]repository.Partition, error) {
	messages, err := s.withParents(ctx, batch.Messages)
	if err != nil {
		return nil, translate("look for returns", err)
	}
	batch.Messages = messages
	notes := make([]string, len(batch.Messages))
	for i := range batch.Messages {
		notes[i] = s.note(&batch.Messages[i])
	}
	stored, err := s.store(ctx, batch, notes)
	if err != nil && badData(err) {
		if err = s.dropProjections(ctx, batch, notes); err == nil {
			stored, err = s.store(ctx, batch, notes)
		}
	}
	return stored, translate("store messages", err)
}

// note says why a message gets no projection; "" when it gets one.
func (s *Store) note(m *entity.Message) string {
	limit := s.payloadLimit
	if limit == 0 {
		limit = DefaultPayloadLimit
	}
	switch {
	case m.Record.State == entity.ValueOverLimit:
		return noteOver
	case m.Record.Value == nil:
		return ""
	default:
		return projectable(m.Record.Value, limit)
	}
}

// dropProjections asks PostgreSQL about each value by itself. It is slow and
// rare: our own rules catch what is known to fail.
func (s *Store) dropProjections(ctx context.Context, batch repository.Batch, notes []string) error {
	for i := range batch.Messages {
		if notes[i] != "" || batch.Messages[i].Record.Value == nil {
			continue
		}
		_, err := s.db.ExecContext(ctx, `SELECT convert_from($1::bytea, 'UTF8')::jsonb`, batch.Messages[i].Record.Value)
		switch {
		case err == nil:
		case badData(err):
			notes[i] = noteRefused
		default:
			return err
		}
	}
	return nil
}

func (s *Store) store(ctx context.Context, batch repository.Batch, notes []string) ([]repository.Partition, error) {
	var found []positionRow
	if err := s.selectRows(ctx, &found, storeQuery, s.storeArgs(batch, notes)...); err != nil {
		return nil, err
	}
	stored := make([]repository.Partition, len(found))
	for i, f := range found {
		stored[i] = f.partition()
	}
	return stored, nil
}
