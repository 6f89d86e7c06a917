package ingest

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// incoming is a batch that is being stored, with values that were computed from its messages.
type incoming struct {
	repository.Batch
	*prepared
	steps string        // SQL that decides which of the batch's ranges are stored: moveSteps or releaseSteps
	back  []returnMatch // the messages of the batch that are returns, with the attempts whose records came back
}

// large reports whether the batch consists of one message with a large value. Such a value is sent as a separate
// parameter, because an array would contain a second copy of it.
func (in *incoming) large() bool {
	return len(in.Messages) == 1 && len(in.Messages[0].Record.Value) > largeValue
}

const largeValue = 1 << 20

// arrivals returns those returns of the batch whose messages were stored, because the list stored contains their
// partition.
func (in *incoming) arrivals(stored []repository.Partition) []repository.Arrival {
	return in.arrivalsOf(func(m *entity.Message) bool {
		return slices.Contains(stored, repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition})
	})
}

// arrivalsOf returns those returns of the batch for whose message the function counted returns true.
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

// prepared contains what is computed from the messages of a batch before they are stored. The lists are in the order of
// the messages.
type prepared struct {
	hashes []int64  // hash of each message's record, as entity.RecordHash returns it; 0 for messages of share groups
	notes  []string // for each message, the reason why it gets no payload when it is stored; see projection.note
	asked  bool     // whether PostgreSQL has already checked each value of the batch; see dropProjections

	repeats repeats // dead letters that repeat others and are not stored as messages
}

// halves splits the computed values p in two: first is for the first n messages of the batch, second for the other
// messages. The field repeats is empty in both.
func (p *prepared) halves(n int) (first, second *prepared) {
	return &prepared{hashes: p.hashes[:n], notes: p.notes[:n], asked: p.asked}, &prepared{hashes: p.hashes[n:], notes: p.notes[n:], asked: p.asked}
}

// repeats are dead letters that repeat another dead letter. A broker that is killed while it writes dead letters writes
// some of them again when it starts, and so does a consumer that dies before it commits the offset of the record that
// failed.
type repeats struct {
	all []repeat // dead letters of share groups that repeat stored messages
	// within says, by the id of a share group's message of this batch, how many repeats of it the same batch contains.
	within map[uuid.UUID]within

	// The fields below are those of recent.go, except that counted also contains the repeats of share groups.
	counted []repeat    // the repeats, with the message that counts them: a stored one or one of this batch
	open    []uuid.UUID // stored messages that count repeats of this batch
	next    []successor // messages of this batch that count further repeats from now on
}

func (r *repeats) empty() bool { return len(r.counted) == 0 && len(r.next) == 0 }

func (r *repeats) equal(other *repeats) bool {
	return slices.Equal(r.counted, other.counted) && slices.Equal(r.next, other.next)
}

// within says how many repeats of a message its own batch contains, and when the latest of them was written.
type within struct {
	times  int
	latest time.Time
}

// messages returns the ids of the stored messages that the dead letters in all repeat, each once and sorted.
func (r *repeats) messages() []uuid.UUID {
	ids := make([]uuid.UUID, len(r.all))
	for i := range r.all {
		ids[i] = r.all[i].message
	}
	return sorted(ids)
}

// sorted sorts ids and removes those that occur more than once.
func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

// repeat is a dead letter whose record is already represented by a stored message.
type repeat struct {
	message uuid.UUID
	source  entity.Source
}

// successor is a message with the same digest as an older message, which counts no further repeats.
type successor struct {
	digest         uuid.UUID
	message, older uuid.UUID
	repeatOf       uuid.UUID // the first message of the record if the older message is final; uuid.Nil if it is gone or too old
	source         entity.Source
}
