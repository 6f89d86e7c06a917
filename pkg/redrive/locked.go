package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// lockedPause is the first pause of a redrive when other database sessions lock all its remaining messages.
const lockedPause = 100 * time.Millisecond

var errLocked = errors.New("other database sessions lock the remaining messages")

// locked holds the messages of a redrive that another database session had locked when they were to be claimed. They
// are tried again, unless another caller's attempt was the reason for the lock.
type locked struct {
	mu        sync.Mutex
	lastRetry map[uuid.UUID]time.Time // their last attempt at that time
}

func (s *locked) add(m entity.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.lastRetry[m.ID]; !known {
		s.lastRetry[m.ID] = m.LastRetryAt
	}
}

func (s *locked) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lastRetry, id)
}

// attempted returns the messages on which an attempt was made since they were found locked.
func (s *locked) attempted(messages []entity.Message) (ids []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if before, known := s.lastRetry[m.ID]; known && !m.LastRetryAt.Equal(before) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// judgeUnclaimed handles messages that a claim left out: either another attempt has them, or another session only
// locks them. Locked messages get no result, so that the next lease of their batch contains them again.
func (p *pass) judgeUnclaimed(ctx context.Context, l *lease, left []entity.Message) {
	if len(left) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(left))
	for i, m := range left {
		ids[i] = m.ID
	}
	free, err := p.store.Claimable(context.WithoutCancel(ctx), ids)
	if err != nil {
		p.complain(ctx, "cannot read messages that were not claimed", err)
		free = ids
	}
	claimable := make(map[uuid.UUID]bool, len(free))
	for _, id := range free {
		claimable[id] = true
	}
	for _, m := range left {
		if claimable[m.ID] {
			p.lock(l, m)
		} else {
			l.skip(m.ID, repository.SkippedTaken)
			p.locked.forget(m.ID)
		}
	}
}

func (p *pass) lock(l *lease, m entity.Message) {
	p.locked.add(m)
	l.mu.Lock()
	l.locked = true
	l.mu.Unlock()
	p.mu.Lock()
	p.held = true
	p.mu.Unlock()
}

// withoutTaken removes messages that others attempted under a lock, except given-back attempts of this redrive.
func (p *pass) withoutTaken(ctx context.Context, l *lease, messages []entity.Message) ([]entity.Message, error) {
	attempted := p.locked.attempted(messages)
	if len(attempted) == 0 {
		return messages, nil
	}
	own, err := p.store.AttemptsOf(ctx, p.id, attempted)
	if err != nil {
		return nil, fmt.Errorf("list attempts on messages that were locked: %w", err)
	}
	begun := make(map[uuid.UUID]time.Time, len(own)) // start of the redrive's own last attempts
	for _, a := range own {
		begun[a.MessageID] = a.StartedAt
	}
	left := messages[:0]
	for _, m := range messages {
		if slices.Contains(attempted, m.ID) {
			p.locked.forget(m.ID)
			if !m.LastRetryAt.Equal(begun[m.ID]) {
				l.skip(m.ID, repository.SkippedTaken)
				p.keys.block(m, l.numbers[m.ID])
				continue
			}
		}
		left = append(left, m)
	}
	return left, nil
}
