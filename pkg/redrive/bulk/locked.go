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

// lockedMessages holds the messages of a redrive whose rows another database session locked when the redrive wanted to
// claim them. The redrive tries to claim them again, unless the other session has made an attempt on them.
type lockedMessages struct {
	mu        sync.Mutex
	lastRetry map[uuid.UUID]time.Time // by message: the time of its last attempt when its row was found locked
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
