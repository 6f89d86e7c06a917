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
func (s *Store) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	var taken []entity.Message
	err := s.step(ctx, "claim messages", func(now time.Time) error {
		for _, c := range claims {
			r, ok := s.rows[c.MessageID]
			if !ok {
				continue
			}
			if r.message.Claimed() && r.message.Claim.ID == c.ID { // asked for a second time
				taken = append(taken, r.answer(how))
				continue
			}
			if c.OriginalTopic != "" && c.OriginalTopic != r.message.OriginalTopic { // mapped since
				continue
			}
			if r.claim(c, now, how) != nil {
				continue
			}
			if how.Audit {
				s.note(entity.ActionRetry, c.MessageID, how.Cause)
			}
			taken = append(taken, r.answer(how))
		}
		return nil
	})
	return taken, err
}

// Claimable implements repository.Attempts.
func (s *Store) Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	var free []uuid.UUID
	err := s.step(ctx, "look for claimable messages", func(time.Time) error {
		for _, id := range ids {
			if r, ok := s.rows[id]; ok && r.message.CanClaim() == nil {
				free = append(free, id)
			}
		}
		return nil
	})
	return free, err
}

// answer is what a claim tells of the message it took.
func (r *row) answer(how repository.Claiming) entity.Message {
	m := r.bare()
	if !how.Brief {
		return m
	}
	return entity.Message{
		ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
		UpdatedAt: m.UpdatedAt, LastRetryAt: m.LastRetryAt, Claim: m.Claim,
	}
}

func (r *row) claim(c repository.Claim, now time.Time, how repository.Claiming) error {
	if c.TakeOver && r.message.Unsettled {
		r.abandon(now, how.Cause.Actor, entity.Retrying)
		r.message.Status = entity.Pending
		r.message.MaxRetries++ // the limit does not bind a take-over
		defer func() { r.message.MaxRetries-- }()
	}
	if err := r.message.MarkRetrying(now); err != nil {
		return err
	}
	r.number++
	r.message.Claim = entity.Claim{
		ID: c.ID, ExpiresAt: entity.Moment(now.Add(how.Expiry)),
		Topic: c.Topic, TopicID: c.TopicID, Partition: c.Partition, EndOffset: c.EndOffset, RedriveID: c.RedriveID,
	}
	r.keepEdit(c)
	r.message.Unsettled = false
	r.message.NextAttemptAt = time.Time{}
	r.message.LastPublishError, r.message.LastPublishErrorClass = "", ""
	return nil
}

// Finish implements repository.Attempts. A verdict that does not exist is
// entity.ErrInvalid and no result counts.
func (s *Store) Finish(ctx context.Context, results []repository.Result, cause entity.Cause) ([]repository.Finished, error) {
	var finished []repository.Finished
	err := s.step(ctx, "finish attempts", func(now time.Time) error {
		for _, res := range results {
			if res.Verdict < entity.Acknowledged || res.Verdict > entity.Rescued {
				return fmt.Errorf("verdict %d: %w", res.Verdict, entity.ErrInvalid)
			}
		}
		for _, res := range results {
			r, ok := s.rows[res.MessageID]
			if !ok || !r.message.Claimed() || r.message.Claim.ID != res.ClaimID {
				continue
			}
			if err := r.finish(res, now, cause.Actor); err != nil {
				return err
			}
			if res.Verdict != entity.InDoubt {
				s.note(entity.ActionAttempt, res.MessageID, cause)
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
		MessageID: m.ID, Number: r.number, ID: m.Claim.ID, RetryCount: m.RetryCount,
		RedriveID: m.Claim.RedriveID, Verdict: entity.Abandoned, Actor: actor,
		StartedAt: m.LastRetryAt, EndedAt: now,
		From: entity.Retrying, To: to,
		Class: entity.UnknownClass, Error: m.LastPublishError,
		Topic: m.Claim.Topic, TopicID: m.Claim.TopicID, Partition: m.Claim.Partition, Offset: -1,
	})
}

func (r *row) finish(res repository.Result, now time.Time, actor string) error {
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
		MessageID: m.ID, Number: r.number, ID: claim.ID, RetryCount: count,
		RedriveID: claim.RedriveID, Verdict: res.Verdict, Actor: actor,
		StartedAt: m.LastRetryAt, EndedAt: now,
		From: entity.Retrying, To: m.Status,
		Class: res.Class, Error: res.Error,
		Topic: claim.Topic, TopicID: claim.TopicID, Partition: res.Partition, Offset: res.Offset,
	})
	return nil
}

// end moves the message to where the verdict leads and lets go of the claim.
func (r *row) end(res repository.Result, now time.Time) error {
	m := &r.message
	r.countRescues(res.Verdict)
	m.Claim, m.Unsettled = entity.Claim{}, false
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
		return r.wait(res.RetryIn, now)
	case entity.Refused, entity.GivenBack, entity.Rescued:
		m.RetryCount = max(0, m.RetryCount-1)
		if r.rescues >= repository.RescueLimit || m.RetryCount >= m.MaxRetries {
			return m.MarkDead(now)
		}
		return r.wait(res.RetryIn, now)
	default: // Rejected; InDoubt never comes here
		return m.MarkDead(now)
	}
}

// wait makes the message PENDING until its next automatic attempt is due.
func (r *row) wait(d time.Duration, now time.Time) error {
	r.message.NextAttemptAt = entity.Moment(now.Add(d))
	return r.message.MarkPending(now)
}

// countRescues counts rescues in a row. An attempt that was given back says
// nothing about them; any other end starts anew.
func (r *row) countRescues(v entity.Verdict) {
	switch v {
	case entity.Rescued:
		r.rescues++
	case entity.GivenBack, entity.InDoubt:
	case entity.Acknowledged, entity.Skipped, entity.Failed, entity.Rejected, entity.Refused, entity.Abandoned:
		r.rescues = 0
	}
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
			for i := range attempts {
				attempts[i].Edit = cloneEdit(r.edits[attempts[i].ID])
			}
		}
		return nil
	})
	for i := range attempts {
		if err == nil {
			err = repository.TakeRoom(ctx, repository.EditSizeInMemory(attempts[i].Edit))
		}
	}
	return attempts, err
}

// AttemptsOf implements repository.Attempts, in the order of ids. Who made an
// attempt that is still a claim is not known.
func (s *Store) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	var attempts []entity.Attempt
	err := s.step(ctx, "find attempts of a redrive", func(time.Time) error {
		for _, id := range unique(ids) {
			r, ok := s.rows[id]
			if !ok || redrive == uuid.Nil {
				continue
			}
			if a, made := r.attemptOf(redrive); made {
				a.ConsumerGroup = r.message.Failure.ConsumerGroup
				attempts = append(attempts, a)
			}
		}
		return nil
	})
	return attempts, err
}

func (r *row) attemptOf(redrive uuid.UUID) (entity.Attempt, bool) {
	m := &r.message
	if m.Claimed() && m.Claim.RedriveID == redrive {
		return entity.Attempt{
			MessageID: m.ID, Number: r.number, ID: m.Claim.ID, RetryCount: m.RetryCount,
			RedriveID: redrive, Verdict: entity.InDoubt, StartedAt: m.LastRetryAt,
			From: entity.Retrying, To: entity.Retrying, Class: m.LastPublishErrorClass, Error: m.LastPublishError,
			Topic: m.Claim.Topic, TopicID: m.Claim.TopicID, Partition: m.Claim.Partition, Offset: -1,
		}, true
	}
	for _, a := range slices.Backward(r.attempts) {
		if a.RedriveID == redrive {
			return a, true
		}
	}
	return entity.Attempt{}, false
}

func unique(ids []uuid.UUID) []uuid.UUID {
	var once []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

// keepEdit stores the edit of a claim with the attempt that it begins; nothing
// when nothing differs. The value that a redrive's patch made is not kept.
func (r *row) keepEdit(c repository.Claim) {
	if c.Edit.Empty() && (c.Edit == nil || c.Edit.Patch == nil) {
		return
	}
	if r.edits == nil {
		r.edits = map[uuid.UUID]*entity.Edit{}
	}
	e := cloneEdit(c.Edit)
	if e.Patch != nil {
		e.Value = nil
	}
	r.edits[c.ID] = e
}
