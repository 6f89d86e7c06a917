package fake

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// autoTopic is what the store keeps of a topic of automatic retry.
type autoTopic struct {
	owner  uuid.UUID
	leased time.Time // end of the lease
	pause  entity.AutoPause
}

type autoSend struct {
	message, attempt uuid.UUID
	topic            string
	at               time.Time
}

// WatchAuto implements repository.AutoSends.
func (s *Store) WatchAuto(ctx context.Context, owner uuid.UUID, topics []string, lease time.Duration) ([]repository.AutoTopic, error) {
	var counted []repository.AutoTopic
	err := s.Step(ctx, "count automatic retries", func(now time.Time) error {
		slices.Sort(topics)
		for _, topic := range slices.Compact(topics) {
			t := s.autoTopics[topic]
			if t.owner != owner && t.owner != uuid.Nil && t.leased.After(now) {
				continue
			}
			t.owner, t.leased = owner, now.Add(lease)
			s.autoTopics[topic] = t
			counted = append(counted, s.countAuto(topic, t.pause, now))
		}
		return nil
	})
	return counted, err
}

func (s *Store) countAuto(topic string, pause entity.AutoPause, now time.Time) repository.AutoTopic {
	c := repository.AutoTopic{Topic: topic, Pause: pause}
	var sends []autoSend
	for _, send := range s.autoSends {
		if send.topic == topic && send.at.After(now.Add(-repository.AutoWindow)) && send.at.After(pause.Until) {
			sends = append(sends, send)
		}
	}
	slices.SortFunc(sends, func(a, b autoSend) int { return cmp.Or(b.at.Compare(a.at), slices.Compare(a.message[:], b.message[:])) })
	for _, send := range sends[:min(len(sends), repository.MaxAutoSends)] {
		r := s.Rows[send.message]
		if r == nil {
			continue
		}
		i := slices.IndexFunc(r.Attempts, func(a entity.Attempt) bool { return a.ID == send.attempt })
		m := s.observed(r, r.Message)
		switch {
		case m.Status == entity.Retrying && m.Claim.ID == send.attempt:
			c.Sent++
		case i < 0 || r.Attempts[i].To != entity.Resolved:
		default:
			c.Sent++
			a := r.Attempts[i]
			silent := !a.EndedAt.After(now.Add(-entity.DefaultCanaryWait)) && !s.commits(&m, a.Topic)
			if m.Outcome == entity.Returned {
				c.Returned++
			}
			if m.Outcome == entity.Returned || m.Outcome == entity.Consumed || silent {
				c.Known++
			}
		}
	}
	return c
}

// commits reports whether a consumer group that would show the message's outcome has committed an offset in the topic.
func (s *Store) commits(m *entity.Message, topic string) bool {
	groups := s.groupsOf(m.Failure.ConsumerGroup, topic, topic != m.OriginalTopic)
	for at := range s.committed {
		if at.Topic == topic && slices.Contains(groups, at.Group) {
			return true
		}
	}
	return false
}

// SaveAutoSends implements repository.AutoSends.
func (s *Store) SaveAutoSends(ctx context.Context, claimed []entity.Message) error {
	return s.Step(ctx, "store automatic retries", func(now time.Time) error {
		for i := range claimed {
			m := &claimed[i]
			s.autoSends[m.ID] = autoSend{m.ID, m.Claim.ID, m.OriginalTopic, now}
		}
		return nil
	})
}

// PauseAuto implements repository.AutoSends.
func (s *Store) PauseAuto(ctx context.Context, topic, reason string, pause time.Duration) (kept entity.AutoPause, err error) {
	err = s.Step(ctx, "pause automatic retry", func(now time.Time) error {
		t := s.autoTopics[topic]
		if until := entity.TruncateTime(now.Add(pause)); !until.Before(t.pause.Until) {
			t.pause = entity.AutoPause{Until: until, Reason: reason}
			s.autoTopics[topic] = t
		}
		kept = t.pause
		return nil
	})
	return kept, err
}

// autoPause returns the present pause of a topic; zero when there is none.
func (s *Store) autoPause(topic string, now time.Time) entity.AutoPause {
	if p := s.autoTopics[topic].pause; p.Until.After(now) {
		return p
	}
	return entity.AutoPause{}
}
