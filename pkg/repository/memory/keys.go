package memory

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// keyName identifies an Idempotency-Key.
type keyName struct{ principal, key string }

// keyRow is the stored state of an Idempotency-Key. The status of its answer is 0 until the answer is stored.
type keyRow struct {
	name      keyName
	request   [32]byte
	operation uuid.UUID
	owner     uuid.UUID
	leasedTo  time.Time
	createdAt time.Time
	answer    repository.Answer
}

// Keys implements repository.Keys. It is safe for concurrent use.
type Keys struct {
	steps steps
	keys  map[keyName]*keyRow
	byAge []*keyRow // all rows, the oldest first, including rows that were deleted from the map keys
}

// NewKeys returns an empty Keys. The function now is the clock of leases and expiry.
func NewKeys(now func() time.Time) *Keys {
	return &Keys{steps: steps{now: now}, keys: map[keyName]*keyRow{}}
}

// OpenKey implements repository.Keys.
func (s *Keys) OpenKey(ctx context.Context, k repository.Key, lease time.Duration) (repository.KeyState, error) {
	var state repository.KeyState
	err := s.steps.Step(ctx, "open idempotency key", func(now time.Time) error {
		s.forgetKeys(now)
		r, ok := s.keys[nameOf(k)]
		if !ok {
			r = &keyRow{name: nameOf(k), request: k.Request, operation: k.Operation, createdAt: now}
			s.keys[r.name] = r
			s.byAge = append(s.byAge, r)
		}
		state = repository.KeyState{Phase: r.phase(k, now, !ok), Operation: r.operation}
		switch state.Phase {
		case repository.KeyNew, repository.KeyAbandoned:
			r.owner, r.leasedTo = k.Owner, entity.TruncateTime(now.Add(lease))
		case repository.KeyDone:
			state.Answer = cloneAnswer(r.answer)
		case repository.KeyAtWork, repository.KeyOther:
		}
		return nil
	})
	return state, err
}

func (r *keyRow) phase(k repository.Key, now time.Time, made bool) repository.KeyPhase {
	switch {
	case made:
		return repository.KeyNew
	case r.request != k.Request:
		return repository.KeyOther
	case r.answer.Status != 0:
		return repository.KeyDone
	case r.owner == k.Owner && r.operation == k.Operation: // the same owner calls OpenKey again
		return repository.KeyNew
	case r.owner != k.Owner && r.leasedTo.After(now):
		return repository.KeyAtWork
	default:
		return repository.KeyAbandoned
	}
}

// forgetKeys deletes keys that are older than repository.KeyLife. When a key was dropped and then used again, byAge
// still contains the old row of the key; the expiry of the old row must not delete the new row.
func (s *Keys) forgetKeys(now time.Time) {
	for len(s.byAge) > 0 && !s.byAge[0].createdAt.Add(repository.KeyLife).After(now) {
		old := s.byAge[0]
		if s.keys[old.name] == old {
			delete(s.keys, old.name)
		}
		s.byAge[0], s.byAge = nil, s.byAge[1:]
	}
}

// HoldKey implements repository.Keys.
func (s *Keys) HoldKey(ctx context.Context, k repository.Key, lease time.Duration) error {
	return s.steps.Step(ctx, "hold idempotency key", func(now time.Time) error {
		if r := s.atWork(k); r != nil {
			r.leasedTo = entity.TruncateTime(now.Add(lease))
		}
		return nil
	})
}

// CloseKey implements repository.Keys.
func (s *Keys) CloseKey(ctx context.Context, k repository.Key, answer repository.Answer) error {
	return s.steps.Step(ctx, "close idempotency key", func(time.Time) error {
		if r := s.atWork(k); r != nil {
			r.answer = cloneAnswer(answer)
		}
		return nil
	})
}

// DropKey implements repository.Keys.
func (s *Keys) DropKey(ctx context.Context, k repository.Key) error {
	return s.steps.Step(ctx, "drop idempotency key", func(time.Time) error {
		if s.atWork(k) != nil {
			delete(s.keys, nameOf(k))
		}
		return nil
	})
}

// atWork returns the row of a key that has no answer yet and whose owner is the owner of k; otherwise nil.
func (s *Keys) atWork(k repository.Key) *keyRow {
	r, ok := s.keys[nameOf(k)]
	if !ok || r.owner != k.Owner || r.answer.Status != 0 {
		return nil
	}
	return r
}

func nameOf(k repository.Key) keyName { return keyName{k.Principal, k.Key} }

func cloneAnswer(a repository.Answer) repository.Answer {
	a.Body = bytes.Clone(a.Body)
	return a
}
