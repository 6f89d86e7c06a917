package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Claim implements repository.Attempts. Under one lock nobody is ever in the
// middle of taking a message, so there is nothing to wait for.
func (s *Store) Claim(ctx context.Context, claims []repository.Claim, expiry time.Duration, _ bool) ([]entity.Message, error) {
	var taken []entity.Message
	err := s.step(ctx, "claim messages", func(now time.Time) error {
		for _, c := range claims {
			r, ok := s.rows[c.MessageID]
			if !ok || r.claim(c, now, expiry) != nil {
				continue
			}
			taken = append(taken, r.bare())
		}
		return nil
	})
	return taken, err
}

func (r *row) claim(c repository.Claim, now time.Time, expiry time.Duration) error {
	if c.TakeOver && r.message.Unsettled {
		r.abandon(now, c.Actor, entity.Retrying)
		r.message.Status = entity.Pending
		r.message.MaxRetries++ // the limit does not bind a take-over
		defer func() { r.message.MaxRetries-- }()
	}
	if err := r.message.MarkRetrying(now); err != nil {
		return err
	}
	r.number++
	r.message.Claim = entity.Claim{
		ID: c.ID, ExpiresAt: entity.Moment(now.Add(expiry)),
		Topic: c.Topic, TopicID: c.TopicID, Partition: c.Partition, EndOffset: c.EndOffset,
	}
	r.message.Unsettled = false
	r.message.NextAttemptAt = time.Time{}
	r.message.LastPublishError, r.message.LastPublishErrorClass = "", ""
	return nil
}

// Finish implements repository.Attempts. A verdict that does not exist is
// entity.ErrInvalid and no result counts.
func (s *Store) Finish(ctx context.Context, results []repository.Result) ([]repository.Finished, error) {
	var finished []repository.Finished
	err := s.step(ctx, "finish attempts", func(now time.Time) error {
		for _, res := range results {
			if res.Verdict < entity.Acknowledged || res.Verdict > entity.InDoubt {
				return fmt.Errorf("verdict %d: %w", res.Verdict, entity.ErrInvalid)
			}
		}
		for _, res := range results {
			r, ok := s.rows[res.MessageID]
			if !ok || !r.message.Claimed() || r.message.Claim.ID != res.ClaimID {
				continue
			}
			if err := r.finish(res, now); err != nil {
				return err
			}
			finished = append(finished, r.finished())
		}
		return nil
	})
	return finished, err
}

// abandon ends an attempt that nobody can settle.
func (r *row) abandon(now time.Time, actor string, to entity.Status) {
	m := &r.message
	r.attempts = append(r.attempts, entity.Attempt{
		MessageID: m.ID, Number: r.number, ID: m.Claim.ID, RetryCount: m.RetryCount, Actor: actor,
		StartedAt: m.LastRetryAt, EndedAt: now,
		From: entity.Retrying, To: to,
		Class: entity.UnknownClass, Error: m.LastPublishError,
		Topic: m.Claim.Topic, Partition: m.Claim.Partition, Offset: -1,
	})
}

func (r *row) finish(res repository.Result, now time.Time) error {
	m := &r.message
	m.LastPublishError, m.LastPublishErrorClass, m.NextAttemptAt = res.Error, res.Class, time.Time{}
	if res.Verdict == entity.InDoubt {
		r.message.Unsettled = res.Class == entity.UnknownClass && expired(m, now)
		m.UpdatedAt = now
		return nil
	}
	claim, count := m.Claim, m.RetryCount
	if err := r.end(res, now); err != nil {
		return err
	}
	r.attempts = append(r.attempts, entity.Attempt{
		MessageID: m.ID, Number: r.number, ID: claim.ID, RetryCount: count, Actor: res.Actor,
		StartedAt: m.LastRetryAt, EndedAt: now,
		From: entity.Retrying, To: m.Status,
		Class: res.Class, Error: res.Error,
		Topic: claim.Topic, Partition: res.Partition, Offset: res.Offset,
	})
	return nil
}

// end moves the message to where the verdict leads and lets go of the claim.
func (r *row) end(res repository.Result, now time.Time) error {
	m := &r.message
	r.countRescues(res.Verdict)
	m.Claim = entity.Claim{}
	switch res.Verdict {
	case entity.Acknowledged:
		if m.Outcome == "" { // a record that came back already says more
			m.Outcome = entity.Published
		}
		return r.resolve(now)
	case entity.Skipped:
		return r.resolve(now)
	case entity.Failed:
		if m.RetryCount >= m.MaxRetries {
			return m.MarkDead(now)
		}
		m.NextAttemptAt = entity.Moment(now.Add(res.RetryIn))
		return m.MarkPending(now)
	case entity.Refused, entity.GivenBack:
		m.RetryCount = max(0, m.RetryCount-1)
		if r.rescues >= repository.RescueLimit || m.RetryCount >= m.MaxRetries {
			return m.MarkDead(now)
		}
		return m.MarkPending(now)
	default: // Rejected; InDoubt never comes here
		return m.MarkDead(now)
	}
}

// countRescues counts attempts given back in a row; any other end starts anew.
func (r *row) countRescues(v entity.Verdict) {
	if v != entity.GivenBack {
		r.rescues = 0
		return
	}
	r.rescues++
}

// resolve leaves no error behind: what went wrong before is in the history.
func (r *row) resolve(now time.Time) error {
	r.message.LastPublishError, r.message.LastPublishErrorClass = "", ""
	return r.message.MarkResolved(now)
}

func (r *row) finished() repository.Finished {
	m := &r.message
	return repository.Finished{
		MessageID: m.ID, Status: m.Status,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, NextAttemptAt: m.NextAttemptAt,
	}
}

// Expired implements repository.Attempts.
func (s *Store) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	var messages []entity.Message
	err := s.step(ctx, "find expired claims", func(now time.Time) error {
		for _, r := range s.oldestFirst(func(m *entity.Message) bool { return wanted(m, q, now) }) {
			if len(messages) == q.Limit {
				return nil
			}
			messages = append(messages, r.bare())
		}
		return nil
	})
	return messages, err
}

func wanted(m *entity.Message, q repository.ExpiredQuery, now time.Time) bool {
	if !expired(m, now) || m.Unsettled || q.ID != uuid.Nil && q.ID != m.ID {
		return false
	}
	if order := m.CreatedAt.Compare(q.After.CreatedAt); order != 0 {
		return order > 0
	}
	return bytes.Compare(m.ID[:], q.After.ID[:]) > 0
}

// expired reports whether m is RETRYING under a claim whose time is over.
func expired(m *entity.Message, now time.Time) bool {
	return m.Claimed() && !m.Claim.ExpiresAt.After(now)
}

// History implements repository.Attempts.
func (s *Store) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	var attempts []entity.Attempt
	err := s.step(ctx, "read history", func(time.Time) error {
		if r, ok := s.rows[id]; ok {
			attempts = slices.Clone(r.attempts)
		}
		return nil
	})
	return attempts, err
}
