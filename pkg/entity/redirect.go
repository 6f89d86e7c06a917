package entity

import (
	"time"

	"github.com/google/uuid"
)

// Redirect makes the replays of an original topic go to another topic, for topics that were renamed or deleted. The
// messages keep their original topic. Redirects are not followed further: a redirect of the target topic has no effect
// on these replays.
type Redirect struct {
	Topic     string // original topic
	Target    string
	Version   int64 // a number that differs after each change of the redirect; 0 when there is no redirect
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
