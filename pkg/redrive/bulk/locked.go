package bulk

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// lockedPause is the first pause of a redrive when other database sessions lock all its remaining messages.
const lockedPause = 100 * time.Millisecond

var errLocked = errors.New("other database sessions lock the remaining messages")

// lockedMessages holds the messages of a redrive that another database session had locked when they were to be
// claimed. They are tried again, unless another caller's attempt was the reason for the lock.
type lockedMessages struct {
	mu        sync.Mutex
	lastRetry map[uuid.UUID]time.Time // time of each message's last attempt when it was found locked
}

func (s *lockedMessages) add(m entity.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.lastRetry[m.ID]; !known {
		s.lastRetry[m.ID] = m.LastRetryAt
	}
}

func (s *lockedMessages) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lastRetry, id)
}

// attempted returns the messages on which an attempt was made since they were found locked.
func (s *lockedMessages) attempted(messages []entity.Message) (ids []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if before, known := s.lastRetry[m.ID]; known && !m.LastRetryAt.Equal(before) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
