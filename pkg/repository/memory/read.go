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
func (s *messages) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	var list repository.List
	err := s.Step(ctx, "list messages", func(time.Time) error {
		rows := OldestFirst(s.Rows, Named(topic))
		slices.Reverse(rows)
		list.Total = int64(len(rows))
		budget := NewPageBudget()
		first := min(page.Offset(), list.Total)
		last := min(first+int64(page.Size), list.Total)
		for _, r := range rows[first:last] {
			list.Messages = append(list.Messages, s.Hooks.Observe(r, r.Listed(budget)))
		}
		return nil
	})
	if err == nil {
		err = Reserve(ctx, list.Messages...)
	}
	return list, err
}

// Get implements repository.Reader.
func (s *messages) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var m entity.Message
	err := s.Step(ctx, "get message", func(time.Time) error {
		r, err := s.row(id)
		if err == nil {
			m = s.Hooks.Observe(r, r.Shown(maxValue))
		}
		return err
	})
	if err == nil {
		err = Reserve(ctx, m)
	}
	return m, err
}

// Reserve reserves, in the MemoryReservation of ctx, the memory of messages that were read.
func Reserve(ctx context.Context, messages ...entity.Message) error {
	for i := range messages {
		if err := repository.ReserveMemory(ctx, repository.SizeInMemory(&messages[i])); err != nil {
			return err
		}
	}
	return nil
}

// Load implements repository.Reader. The size of a message is that of its value, key and headers together.
func (s *messages) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	var messages []entity.Message
	taken := 0
	err := s.Step(ctx, "load messages", func(time.Time) error {
		left := maxBytes
		for _, id := range ids {
			if r, ok := s.Rows[id]; ok {
				n := Size(&r.Message.Record)
				if left -= n; left < 0 && len(messages) == 0 {
					taken = 0
					return &repository.TooLargeError{Bytes: n}
				} else if left < 0 {
					return nil
				}
				messages = append(messages, r.Loaded(whole))
			}
			taken++
		}
		return nil
	})
	return messages, taken, err
}

// ValuePart implements repository.Reader.
func (s *messages) ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	var part []byte
	err := s.Step(ctx, "read value", func(time.Time) error {
		rows := s.Rows
		if p.Archived {
			rows = s.Archived
		}
		r, ok := rows[p.ID]
		if !ok {
			return &entity.NotFoundError{ID: p.ID}
		}
		value := r.Message.Record.Value
		from := min(p.From, int64(len(value)))
		part = bytes.Clone(value[from:min(from+p.Length, int64(len(value)))])
		return nil
	})
	return part, err
}

// Counts implements repository.Reader. The counts are ordered by topic and status.
func (s *messages) Counts(ctx context.Context) ([]repository.Count, error) {
	var counts []repository.Count
	err := s.Step(ctx, "count messages", func(time.Time) error {
		found := map[repository.Count]int64{}
		for _, r := range s.Rows {
			found[repository.Count{OriginalTopic: r.Message.OriginalTopic, Status: r.Message.Status}]++
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

// Named returns a function that reports whether a message has topic as its original or its dead-letter topic. A message
// that does not come from a record has no dead-letter topic, so the empty name matches it only as its original topic.
func Named(topic string) func(*entity.Message) bool {
	return func(m *entity.Message) bool {
		return m.OriginalTopic == topic || m.Source.Known() && m.Source.Topic == topic
	}
}

// OldestFirst returns the rows for which matches is true, in the order of created_at and id.
func OldestFirst(all map[uuid.UUID]*Row, matches func(*entity.Message) bool) []*Row {
	var rows []*Row
	for _, r := range all {
		if matches(&r.Message) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int {
		return cmp.Or(a.Message.CreatedAt.Compare(b.Message.CreatedAt), bytes.Compare(a.Message.ID[:], b.Message.ID[:]))
	})
	return rows
}

// Size returns the number of bytes of a record's key, value and headers.
func Size(r *entity.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}
