package ingest

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// incoming is a batch with the computed data of its messages, in their order.
type incoming struct {
	repository.Batch
	*prepared
	steps string        // moveSteps or releaseSteps
	back  []returnMatch // the returns among them
}

// large reports whether the batch is one message with a large value. That value is sent as a plain parameter,
// because an array would hold another copy of it.
func (in *incoming) large() bool {
	return len(in.Messages) == 1 && len(in.Messages[0].Record.Value) > largeValue
}

const largeValue = 1 << 20

// arrivals returns the returns among the messages that were stored.
func (in *incoming) arrivals(stored []repository.Partition) []repository.Arrival {
	var out []repository.Arrival
	for _, c := range in.back {
		m := &in.Messages[c.message]
		if !slices.Contains(stored, repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}) {
			continue
		}
		out = append(out, repository.Arrival{
			MessageID: m.ID, Parent: m.Parent, Root: m.Root, Topic: m.OriginalTopic,
			RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Status: m.Status, ByContent: c.byContent, Confirmed: c.confirmed,
		})
	}
	return out
}

// prepared has the values that are computed for a batch's messages before they are stored, in their order.
type prepared struct {
	hashes []int64  // see entity.RecordHash
	notes  []string // see note
	asked  bool     // PostgreSQL was asked about each value; see dropProjections
}

// halves splits p after n messages.
func (p *prepared) halves(n int) (first, second *prepared) {
	return &prepared{p.hashes[:n], p.notes[:n], p.asked}, &prepared{p.hashes[n:], p.notes[n:], p.asked}
}
