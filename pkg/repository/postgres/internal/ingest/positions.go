package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Positions stores the store's own ids of topics, and the next offset of each partition.
type Positions struct{ db *conn.DB }

// NewPositions returns Positions that send their statements to db.
func NewPositions(db *conn.DB) *Positions { return &Positions{db} }

// knownTopicsQuery returns the ids of topics that are stored already, each with the topic's index in the request.
const knownTopicsQuery = `
	SELECT w.place, t.id AS topic_id, i.id AS incarnation_id
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (name, kafka_id, place)
	JOIN dlq.topics t ON t.name = w.name
	JOIN dlq.topic_incarnations i ON i.topic_id = t.id AND i.kafka_id = w.kafka_id`

// Each query inserts its rows in one order, so that two callers never deadlock. It leaves out rows that exist already,
// because even an insert that ends in a conflict would use up an id.
const (
	makeTopicsQuery = `
	INSERT INTO dlq.topics (name)
	SELECT DISTINCT name FROM unnest($1::text[]) AS w (name)
	WHERE NOT EXISTS (SELECT FROM dlq.topics t WHERE t.name = w.name)
	ORDER BY 1 ON CONFLICT DO NOTHING`

	makeIncarnationsQuery = `
	INSERT INTO dlq.topic_incarnations (topic_id, kafka_id)
	SELECT DISTINCT t.id, w.kafka_id
	FROM unnest($1::text[], $2::text[]) AS w (name, kafka_id) JOIN dlq.topics t ON t.name = w.name
	WHERE NOT EXISTS (SELECT FROM dlq.topic_incarnations i WHERE i.topic_id = t.id AND i.kafka_id = w.kafka_id)
	ORDER BY 1, 2 ON CONFLICT DO NOTHING`
)

// OpenTopics implements repository.Ingest. It first reads the stored topics and then inserts only new ones: topics are
// opened at every rebalance, and then most of them are stored already. It sends one statement when all topics are
// stored, and otherwise four.
func (s *Positions) OpenTopics(ctx context.Context, topics []repository.Topic) ([]repository.TopicRef, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	names, kafkaIDs := codec.NewArray(codec.OIDText, len(topics), 32), codec.NewArray(codec.OIDText, len(topics), 36)
	for _, t := range topics {
		names.Text(t.Name)
		kafkaIDs.Text(t.Incarnation)
	}
	for range 3 {
		refs, err := s.knownTopics(ctx, names.Arg(), kafkaIDs.Arg(), len(topics))
		if err != nil || refs != nil {
			return refs, conn.Translate("open topics", err)
		}
		if err := s.makeTopics(ctx, names.Arg(), kafkaIDs.Arg()); err != nil {
			return nil, conn.Translate("open topics", err)
		}
	}
	return nil, errors.New("open topics: the row of a new topic was not found")
}

// knownTopics returns the ids of n topics, or nil when one of the topics is new.
func (s *Positions) knownTopics(ctx context.Context, names, kafkaIDs []byte, n int) ([]repository.TopicRef, error) {
	var found []struct {
		Place       int64 `db:"place"`
		TopicID     int32 `db:"topic_id"`
		Incarnation int32 `db:"incarnation_id"`
	}
	if err := s.db.Select(ctx, &found, knownTopicsQuery, names, kafkaIDs); err != nil || len(found) < n {
		return nil, err
	}
	refs := make([]repository.TopicRef, n)
	for _, f := range found {
		refs[f.Place-1] = repository.TopicRef{TopicID: f.TopicID, Incarnation: f.Incarnation}
	}
	return refs, nil
}

func (s *Positions) makeTopics(ctx context.Context, names, kafkaIDs []byte) error {
	if err := s.db.Exec(ctx, makeTopicsQuery, names); err != nil {
		return err
	}
	return s.db.Exec(ctx, makeIncarnationsQuery, names, kafkaIDs)
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
func (s *Positions) OpenPosition(ctx context.Context, starts []repository.Position) ([]repository.Position, error) {
	n := len(starts)
	incarnations, partitions, offsets := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	for _, p := range starts {
		incarnations.Int32(p.Incarnation)
		partitions.Int32(p.Partition.Partition)
		offsets.Int64(p.Next)
	}
	var found []positionRow
	// An SQL statement sees neither rows that another process inserts at the same moment nor rows that the statement
	// inserts itself. The second try finds the rows that the first try did not see.
	for range 2 {
		found = found[:0]
		err := s.db.Select(ctx, &found, openPositionQuery, incarnations.Arg(), partitions.Arg(), offsets.Arg())
		if err != nil {
			return nil, conn.Translate("open positions", err)
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

// Mark implements repository.Ingest.
func (s *Positions) Mark(ctx context.Context, p repository.Partition) (*repository.Mark, error) {
	var found []struct {
		Offset int64 `db:"mark_offset"`
		Time   int64 `db:"mark_time"`
		CRC    int64 `db:"mark_crc"`
	}
	err := s.db.Select(ctx, &found, `
		SELECT mark_offset, mark_time, mark_crc FROM dlq.ingest_positions
		WHERE incarnation_id = $1 AND partition = $2 AND mark_offset IS NOT NULL`, p.Incarnation, p.Partition)
	if err != nil || len(found) == 0 {
		return nil, conn.Translate("read mark", err)
	}
	return &repository.Mark{Offset: found[0].Offset, Time: found[0].Time, CRC: uint32(found[0].CRC)}, nil
}

// SaveMark implements repository.Ingest.
func (s *Positions) SaveMark(ctx context.Context, p repository.Partition, m repository.Mark) error {
	return conn.Translate("store mark", s.db.Exec(ctx, `
		UPDATE dlq.ingest_positions SET mark_offset = $3, mark_time = $4, mark_crc = $5
		WHERE incarnation_id = $1 AND partition = $2`, p.Incarnation, p.Partition, m.Offset, m.Time, int64(m.CRC)))
}

type positionRow struct {
	Incarnation int32 `db:"incarnation_id"`
	Partition   int32 `db:"partition"`
	Next        int64 `db:"next_offset"`
}

func (r positionRow) partition() repository.Partition {
	return repository.Partition{Incarnation: r.Incarnation, Partition: r.Partition}
}
