package redrive

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// sometimesAgain names the position at which the record of m failed. It makes some messages further dead letters of a
// record that has one already: they are equal to the first dead letter in everything but their own position.
func (w *world) sometimesAgain(m *entity.Message, rng *rand.Rand) {
	partition, offset := int32(0), w.offset
	m.Origin = entity.Origin{Confidence: entity.FromHeader, Partition: &partition, Offset: &offset}
	if rng.IntN(5) > 1 {
		return
	}
	id, _ := pick(w.messages, rng.Uint64())
	if final, ok := pick(w.those(func(m entity.Message) bool { return m.Status.Final() }), rng.Uint64()); ok && rng.IntN(8) > 0 {
		id = final
	}
	if first, ok := w.letters[id]; ok {
		m.OriginalTopic, m.MaxRetries, m.Record, m.Origin = first.OriginalTopic, first.MaxRetries, first.Record, first.Origin
	}
}

// firstOf returns the message that must count the dead letter m as its repeat, or nil when m must become a message of
// its own. Then of is the message that m must name as the first of its record; uuid.Nil for none. The caller holds mu.
func (w *world) firstOf(m entity.Message) (counts *shadow, of uuid.UUID) {
	s, known := w.shadows[w.firsts[m.Digest]]
	if !known {
		return nil, uuid.Nil
	}
	first, err := w.store.Get(context.Background(), s.id, 0)
	switch {
	case err != nil || time.Since(first.CreatedAt) > entity.RepeatWindow:
		return nil, uuid.Nil
	case !first.Status.Final():
		return s, uuid.Nil
	case s.of != uuid.Nil:
		return nil, s.of
	}
	return nil, s.id
}

// checkCounted checks that the repeat with this id is no message of its own, and notes it at the message that counts
// it. The caller holds mu.
func (w *world) checkCounted(s *shadow, id uuid.UUID) {
	_, err := w.store.Get(context.Background(), id, 0)
	w.want(err != nil, "a repeat that was stored", "message %s is there, and message %s must count it", id, s.id)
	s.repeats++
	w.score.counted++
}

// watchRepeat checks that neither a redrive nor automatic retry sends a message whose record had an earlier message.
// The caller holds mu.
func (w *world) watchRepeat(id uuid.UUID, bulk bool) {
	w.want(!bulk || w.shadows[id].of == uuid.Nil, "a repeat that was sent", "message %s repeats %s", id, w.shadows[id].of)
}
