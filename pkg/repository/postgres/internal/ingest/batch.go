package ingest

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// incoming is a batch with the data that was computed for each of its messages, in the order of the messages.
type incoming struct {
	repository.Batch
	*prepared
	steps string        // moveSteps or releaseSteps
	back  []returnMatch // the returns among the messages
}

// large reports whether the batch consists of one message with a large value. Such a value is sent as a parameter of
// its own, because an array would hold a second copy of it.
func (in *incoming) large() bool {
	return len(in.Messages) == 1 && len(in.Messages[0].Record.Value) > largeValue
}

const largeValue = 1 << 20

// arrivals returns the returns among the messages of the partitions that were stored.
func (in *incoming) arrivals(stored []repository.Partition) []repository.Arrival {
	return in.arrivalsOf(func(m *entity.Message) bool {
		return slices.Contains(stored, repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition})
	})
}

// arrivalsOf returns the returns among the messages for which counted is true.
func (in *incoming) arrivalsOf(counted func(*entity.Message) bool) []repository.Arrival {
	var out []repository.Arrival
	for _, c := range in.back {
		m := &in.Messages[c.message]
		if !counted(m) {
			continue
		}
		out = append(out, repository.Arrival{
			MessageID: m.ID, Parent: m.Parent, Root: m.Root, Topic: m.OriginalTopic,
			RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Status: m.Status, ByContent: c.byContent, Confirmed: c.confirmed,
		})
	}
	return out
}

// prepared has values that are computed from a batch's messages before they are stored, in the order of the messages.
type prepared struct {
	hashes []int64  // see entity.RecordHash
	notes  []string // see note
	asked  bool     // PostgreSQL has checked each value already; see dropProjections

	repeats repeats // dead letters that are not stored as messages
}

// halves splits p: first has the values of the first n messages, second has the values of the other messages. Neither
// has repeats.
func (p *prepared) halves(n int) (first, second *prepared) {
	return &prepared{hashes: p.hashes[:n], notes: p.notes[:n], asked: p.asked}, &prepared{hashes: p.hashes[n:], notes: p.notes[n:], asked: p.asked}
}

// repeats are dead letters of share groups that repeat another dead letter: a broker that is killed while it writes
// dead letters writes some of them again.
type repeats struct {
	all []repeat
	// within has, by the first message, the repeats in the batch of a message that is stored with them.
	within map[uuid.UUID]within
}

// within are repeats of a message in its own batch: how many, and the timestamp of the latest.
type within struct {
	times  int
	latest time.Time
}

// messages returns the ids of the stored messages that have repeats, each once.
func (r repeats) messages() []uuid.UUID {
	ids := make([]uuid.UUID, len(r.all))
	for i := range r.all {
		ids[i] = r.all[i].message
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

// repeat is a dead letter of a record that message already represents.
type repeat struct {
	message uuid.UUID
	source  entity.Source
}
