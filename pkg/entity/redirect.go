package entity

import (
	"time"

	"github.com/google/uuid"
)

// Redirect sends the replays of an original topic to another topic, for topics that were renamed or deleted. Messages
// keep their original topic. A redirect is one step: that of its target does not follow it.
type Redirect struct {
	Topic     string // original
	Target    string
	Version   int64 // differs from that of every other change; 0: there is no redirect
	Reason    string
	UpdatedAt time.Time
	UpdatedBy string
}

// RedirectID returns the id of a topic's redirect in the audit trail.
func RedirectID(topic string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte("redirect\x00"+topic)) }

// RedirectNotFoundError names the topic that has no redirect. Its kind is ErrNotFound.
type RedirectNotFoundError struct{ Topic string }

func (e *RedirectNotFoundError) Error() string { return "redirect not found: topic " + e.Topic }

// Is makes the error's kind ErrNotFound.
func (e *RedirectNotFoundError) Is(target error) bool { return target == ErrNotFound }
