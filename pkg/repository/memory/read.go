package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// List implements repository.Reader.
func (s *Store) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	var list repository.List
	err := s.step(ctx, "list messages", func(time.Time) error {
		rows := s.oldestFirst(named(topic))
		slices.Reverse(rows)
		list.Total = int64(len(rows))
		room := newPageRoom()
		first := min(page.Offset(), list.Total)
		last := min(first+int64(page.Size), list.Total)
		for _, r := range rows[first:last] {
			list.Messages = append(list.Messages, r.listed(room))
		}
		return nil
	})
	if err == nil {
		err = takeRoom(ctx, list.Messages...)
	}
	return list, err
}

// Get implements repository.Reader.
func (s *Store) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var m entity.Message
	err := s.step(ctx, "get message", func(time.Time) error {
		r, err := s.row(id)
		if err == nil {
			m = r.shown(maxValue)
		}
		return err
	})
	if err == nil {
		err = takeRoom(ctx, m)
	}
	return m, err
}

// takeRoom takes the room of messages that were read.
func takeRoom(ctx context.Context, messages ...entity.Message) error {
	for i := range messages {
		if err := repository.TakeRoom(ctx, repository.SizeInMemory(&messages[i])); err != nil {
			return err
		}
	}
	return nil
}

// Load implements repository.Reader. The size of a message is that of its value,
// key and headers together.
func (s *Store) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	var messages []entity.Message
	taken := 0
	err := s.step(ctx, "load messages", func(time.Time) error {
		left := maxBytes
		for _, id := range ids {
			if r, ok := s.rows[id]; ok {
				n := size(&r.message.Record)
				if left -= n; left < 0 && len(messages) == 0 {
					taken = 0
					return &repository.TooLargeError{Bytes: n}
				} else if left < 0 {
					return nil
				}
				messages = append(messages, r.loaded(whole))
			}
			taken++
		}
		return nil
	})
	return messages, taken, err
}

// ValuePart implements repository.Reader. There is no archive.
func (s *Store) ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	var part []byte
	err := s.step(ctx, "read value", func(time.Time) error {
		r, ok := s.rows[p.ID]
		if !ok || p.Archived {
			return &entity.NotFoundError{ID: p.ID}
		}
		value := r.message.Record.Value
		from := min(p.From, int64(len(value)))
		part = bytes.Clone(value[from:min(from+p.Length, int64(len(value)))])
		return nil
	})
	return part, err
}

// Counts implements repository.Reader, in order of topic and status.
func (s *Store) Counts(ctx context.Context) ([]repository.Count, error) {
	var counts []repository.Count
	err := s.step(ctx, "count messages", func(time.Time) error {
		found := map[repository.Count]int64{}
		for _, r := range s.rows {
			found[repository.Count{OriginalTopic: r.message.OriginalTopic, Status: r.message.Status}]++
		}
		for c, n := range found {
			c.Messages = n
			counts = append(counts, c)
		}
		slices.SortFunc(counts, func(a, b repository.Count) int {
			return cmp.Or(cmp.Compare(a.OriginalTopic, b.OriginalTopic), cmp.Compare(a.Status, b.Status))
		})
		return nil
	})
	return counts, err
}

// named matches messages by original or dead-letter topic. A message that never
// was a record has no dead-letter topic, not one with the empty name.
func named(topic string) func(*entity.Message) bool {
	return func(m *entity.Message) bool {
		return m.OriginalTopic == topic || m.Source.Known() && m.Source.Topic == topic
	}
}

// oldestFirst returns the rows that match by created_at, then id.
func (s *Store) oldestFirst(matches func(*entity.Message) bool) []*row {
	var rows []*row
	for _, r := range s.rows {
		if matches(&r.message) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(a.message.CreatedAt.Compare(b.message.CreatedAt), bytes.Compare(a.message.ID[:], b.message.ID[:]))
	})
	return rows
}

func size(r *entity.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}
