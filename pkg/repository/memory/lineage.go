package memory

import (
	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// parentOf returns the message and the attempt that m says it is the return of; false
// without a proof.
func (s *Store) parentOf(m *entity.Message) (*row, entity.Attempt, bool) {
	if m.Return == nil {
		return nil, entity.Attempt{}, false
	}
	r, ok := s.rows[m.Return.Parent]
	if !ok {
		return nil, entity.Attempt{}, false
	}
	for _, a := range r.attempts {
		if a.ID == m.Return.Attempt && a.Topic == m.OriginalTopic {
			return r, a, true
		}
	}
	if claim := r.message.Claim; claim.ID == m.Return.Attempt && claim.Topic == m.OriginalTopic {
		return r, entity.Attempt{ID: claim.ID, RetryCount: r.message.RetryCount, RedriveID: claim.RedriveID}, true
	}
	return nil, entity.Attempt{}, false
}

// arrive makes a message the child of its parent. A confirmed return is the outcome of
// the attempt.
func arrive(m *entity.Message, parent *row, attempt entity.Attempt, batch repository.Batch) repository.Arrival {
	from, source := parent.message, m.Source.TopicID
	from.RetryCount = attempt.RetryCount
	m.Descend(&from)
	confirmed := source != 0 && source == from.Source.TopicID || batch.Declared != nil && batch.Declared(m)
	if confirmed {
		parent.message.Outcome = entity.Returned
		if parent.returned == nil {
			parent.returned = map[uuid.UUID]uuid.UUID{}
		}
		parent.returned[attempt.ID] = attempt.RedriveID
	} else {
		m.UnconfirmedReturn = true
	}
	return repository.Arrival{
		MessageID: m.ID, Parent: m.Parent, Root: m.Root, Topic: m.OriginalTopic,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Status: m.Status, Confirmed: confirmed,
	}
}

// returnsOf counts the attempts of a redrive that came back.
func (s *Store) returnsOf(redrive uuid.UUID) int {
	n := 0
	for _, r := range s.rows {
		for _, made := range r.returned {
			if made == redrive {
				n++
			}
		}
	}
	return n
}
