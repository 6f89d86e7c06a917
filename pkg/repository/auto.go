package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// AutoSends remembers what automatic retry has sent lately, and its pauses, so that all processes together limit the
// share of messages that fail again. Topics are original topics.
type AutoSends interface {
	// WatchAuto makes owner the only process that retries the messages of the topics automatically, until the lease
	// ends, and counts what was sent. It leaves out topics that another process has leased.
	WatchAuto(ctx context.Context, owner uuid.UUID, topics []string, lease time.Duration) ([]AutoTopic, error)

	// SaveAutoSends stores that automatic retry is about to send these claimed messages.
	SaveAutoSends(ctx context.Context, claimed []entity.Message) error

	// PauseAuto pauses automatic retry of a topic. Of two pauses, the one that ends later stays; PauseAuto returns it.
	PauseAuto(ctx context.Context, topic, reason string, pause time.Duration) (entity.AutoPause, error)
}

// Limits of what AutoTopic counts: the age of an attempt, and the number of the newest attempts of a topic.
const (
	AutoWindow   = 10 * time.Minute
	MaxAutoSends = 2000
)

// AutoTopic counts messages of a topic that automatic retry has sent: those of AutoWindow, at most the MaxAutoSends
// newest, that were claimed after the last pause of the topic had ended. Messages that were not published do not count.
type AutoTopic struct {
	Topic string
	Pause entity.AutoPause // the last pause; zero if there was none
	Sent  int              // including messages that are claimed and may be published
	// Known counts the messages whose outcome is known: consumed or returned, or published entity.DefaultCanaryWait ago
	// if no consumer group that would show the outcome has committed an offset in the target topic.
	Known    int
	Returned int
}
