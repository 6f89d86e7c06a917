package postgres

import (
	"context"
	"errors"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// knownTopicsQuery finds the numbers of topics, by their place in the question.
const knownTopicsQuery = `
	SELECT w.place, t.id AS topic_id, i.id AS incarnation_id
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (name, kafka_id, place)
	JOIN dlq.topics t ON t.name = w.name
	JOIN dlq.topic_incarnations i ON i.topic_id = t.id AND i.kafka_id = w.kafka_id`

// Makers go in the order of the names, so that two of them never wait for one
// another. What exists is left out: a conflict would use up a number.
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

// OpenTopics implements repository.Ingest. It asks first and writes only what is
// new: topics are opened at every change of the group and are nearly always known.
// However many there are, it takes one statement, or four when some are new.
func (s *Store) OpenTopics(ctx context.Context, topics []repository.Topic) ([]repository.TopicRef, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	names, lives := newColumn(oidText, len(topics), 32), newColumn(oidText, len(topics), 36)
	for _, t := range topics {
		names.text(t.Name)
		lives.text(t.Incarnation)
	}
	for range 3 {
		refs, err := s.knownTopics(ctx, names.arg(), lives.arg(), len(topics))
		if err != nil || refs != nil {
			return refs, translate("open topics", err)
		}
		if err := s.makeTopics(ctx, names.arg(), lives.arg()); err != nil {
			return nil, translate("open topics", err)
		}
	}
	return nil, errors.New("open topics: a topic's row vanished as soon as it was made")
}

// knownTopics returns the numbers of n topics, nil when one of them is new.
func (s *Store) knownTopics(ctx context.Context, names, lives []byte, n int) ([]repository.TopicRef, error) {
	var found []struct {
		Place       int64 `db:"place"`
		TopicID     int32 `db:"topic_id"`
		Incarnation int32 `db:"incarnation_id"`
	}
	if err := s.selectRows(ctx, &found, knownTopicsQuery, names, lives); err != nil || len(found) < n {
		return nil, err
	}
	refs := make([]repository.TopicRef, n)
	for _, f := range found {
		refs[f.Place-1] = repository.TopicRef{TopicID: f.TopicID, Incarnation: f.Incarnation}
	}
	return refs, nil
}

func (s *Store) makeTopics(ctx context.Context, names, lives []byte) error {
	if err := s.exec(ctx, makeTopicsQuery, names); err != nil {
		return err
	}
	return s.exec(ctx, makeIncarnationsQuery, names, lives)
}
