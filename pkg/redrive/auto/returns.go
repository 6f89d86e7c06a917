package auto

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/internal/harm"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Sends is the part of a repository that counts what automatic retry sends, and keeps its pauses.
type Sends interface {
	WatchAuto(ctx context.Context, owner uuid.UUID, topics []string, lease time.Duration) ([]repository.AutoTopic, error)
	SaveAutoSends(ctx context.Context, claimed []entity.Message) error
	PauseAuto(ctx context.Context, topic, reason string, pause time.Duration) (entity.AutoPause, error)
}

const (
	minSample    = entity.DefaultMinSample // number of sent messages of a topic from which their share of returns is judged
	returnsPause = 10 * time.Minute        // how long automatic retry of a topic pauses when too many of its messages failed again
	countsFresh  = 2 * time.Second         // for so long the counts of a topic are not read again
	// topicLease is how long a process keeps a topic after it has read the topic's counts. It is longer than countsFresh
	// plus the time until a batch that was admitted is stored.
	topicLease = 10 * time.Second

	skippedReturns = "failed_again"    // the topic pauses, because too many of its messages failed again
	skippedUnknown = "outcome_unknown" // too many sent messages have no known outcome yet
)

// judge returns how many more messages of a topic may be sent now and, if too many failed again, why the topic must
// pause. Messages without a known outcome are limited to minSample, or to the number of known outcomes if that is
// higher. While those outcomes alone exceed the limit, nothing beyond the first minSample is sent, so that the share of
// all sent messages becomes known.
func judge(c repository.AutoTopic, limit float64) (room int, excess string) {
	switch {
	case c.Sent >= minSample && harm.Exceeds(c.Returned, c.Sent, limit):
		return 0, fmt.Sprintf("%d of %d messages that it sent failed again, more than %g %%", c.Returned, c.Sent, harm.Percent(limit))
	case harm.Exceeds(c.Returned, c.Known, limit):
		return minSample - c.Sent, ""
	default:
		return max(minSample, c.Known) - (c.Sent - c.Known), ""
	}
}

// gate limits the share of messages that fail again after automatic retry has sent them, by the counts in the store. A
// nil gate limits nothing.
type gate struct {
	limit float64
	store Sends
	log   *zap.Logger
	owner uuid.UUID

	mu     sync.Mutex // guards the field below; held while the store is asked
	topics map[string]*passage
}

// passage says how many messages of a topic may be sent.
type passage struct {
	askedAt time.Time
	room    int
	sending int       // messages that were admitted and whose batch has not ended
	closed  time.Time // until when nothing is sent
	reason  string    // why nothing is sent, as in the metric; "" when another process sends the topic's messages
}

// newGate returns nil if the share of returns is not limited, or the store does not know it.
func newGate(limit float64, store Sends, log *zap.Logger) *gate {
	if limit == 0 {
		return nil
	}
	if store == nil {
		log.Warn("redrive.auto.max_return_share needs a database: automatic retry does not watch whether messages fail again")
		return nil
	}
	return &gate{limit: limit, store: store, log: log, owner: uuid.New(), topics: map[string]*passage{}}
}

// ask reads the counts of the batch's topics, unless they were read a short time ago, and pauses topics of which too
// many messages failed again.
func (g *gate) ask(ctx context.Context, batch []entity.Outgoing) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	var topics []string
	for i := range batch {
		name := batch[i].Message.OriginalTopic
		p := g.topics[name]
		if p == nil {
			p = &passage{}
			g.topics[name] = p
		}
		if now.Sub(p.askedAt) >= countsFresh && !now.Before(p.closed) {
			topics = append(topics, name)
			p.askedAt, p.closed, p.reason = now, now.Add(countsFresh), ""
		}
	}
	if len(topics) == 0 {
		return nil
	}
	counted, err := g.store.WatchAuto(ctx, g.owner, topics, topicLease)
	if err != nil {
		return fmt.Errorf("count automatic retries: %w", err)
	}
	for _, c := range counted {
		if err := g.settle(ctx, c, now); err != nil {
			return err
		}
	}
	return nil
}

// settle sets how many messages of a counted topic may be sent. Messages whose batch has not ended may be missing in the
// counts, so they are subtracted.
func (g *gate) settle(ctx context.Context, c repository.AutoTopic, now time.Time) (err error) {
	p := g.topics[c.Topic]
	room, excess := judge(c, g.limit)
	if excess != "" {
		if c.Pause, err = g.store.PauseAuto(ctx, c.Topic, excess, returnsPause); err != nil {
			return fmt.Errorf("pause automatic retry: %w", err)
		}
		g.log.Warn("automatic retry pauses a topic", zap.String("topic", c.Topic), zap.Time("until", c.Pause.Until), zap.String("reason", excess))
	}
	p.room, p.closed, p.reason = room-p.sending, time.Time{}, skippedUnknown
	if c.Pause.Until.After(now) {
		p.closed, p.reason = c.Pause.Until, skippedReturns
	}
	return nil
}

// closed returns until when no message of the topic may be sent, and the reason for the metric; the zero time when one
// may be sent.
func (g *gate) closed(topic string) (until time.Time, reason string) {
	if g == nil {
		return time.Time{}, ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.topics[topic]
	if p.room <= 0 && p.closed.IsZero() {
		p.closed = p.askedAt.Add(countsFresh)
	}
	return p.closed, p.reason
}

// admit counts a message that will be sent.
func (g *gate) admit(topic string) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.topics[topic].room--
		g.topics[topic].sending++
	}
}

// save stores that claimed messages are about to be sent.
func (g *gate) save(ctx context.Context, claimed []entity.Outgoing) error {
	if g == nil || len(claimed) == 0 {
		return nil
	}
	messages := make([]entity.Message, len(claimed))
	for i := range claimed {
		messages[i] = claimed[i].Message
	}
	return g.store.SaveAutoSends(ctx, messages)
}

// end counts admitted messages whose batch has ended.
func (g *gate) end(admitted []entity.Outgoing) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		for i := range admitted {
			g.topics[admitted[i].Message.OriginalTopic].sending--
		}
	}
}
