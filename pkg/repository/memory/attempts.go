package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Claim implements repository.Attempts. Only one method of the store runs at a time, so no other session ever holds a
// lock on a message. For this reason the option Wait has no effect.
func (s *messages) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	var taken []entity.Message
	err := s.Step(ctx, "claim messages", func(now time.Time) error {
		for _, c := range claims {
			r, ok := s.Rows[c.MessageID]
			if !ok {
				continue
			}
			if r.Message.Claimed() && r.Message.Claim.ID == c.ID { // the caller repeats a claim that it has already made
				taken = append(taken, r.answer(how))
				continue
			}
			if c.OriginalTopic != "" && c.OriginalTopic != r.Message.OriginalTopic { // the original topic was changed after the caller chose the target
				continue
			}
			before := r.Message
			if r.claim(c, now, how) != nil {
				continue
			}
			if how.Audit {
				s.changed(now, entity.ActionRetry, before, r, how.Cause)
			}
			taken = append(taken, r.answer(how))
		}
		return nil
	})
	return taken, err
}

// Claimable implements repository.Attempts.
func (s *messages) Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	var free []uuid.UUID
	err := s.Step(ctx, "find claimable messages", func(time.Time) error {
		for _, id := range ids {
			if r, ok := s.Rows[id]; ok && r.Message.CanClaim() == nil {
				free = append(free, id)
			}
		}
		return nil
	})
	return free, err
}

// answer returns the claimed message as Claim returns it: without key, headers and value, and with Brief only the
// fields that Claiming.Brief names.
func (r *Row) answer(how repository.Claiming) entity.Message {
	m := r.Bare()
	if !how.Brief {
		return m
	}
	return entity.Message{
		ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
		UpdatedAt: m.UpdatedAt, LastRetryAt: m.LastRetryAt, Claim: m.Claim,
	}
}

func (r *Row) claim(c repository.Claim, now time.Time, how repository.Claiming) error {
	if c.TakeOver && r.Message.Unsettled {
		r.abandon(now, how.Cause.Actor, entity.Retrying)
		r.Message.Status = entity.Pending
		r.Message.MaxRetries++ // for this claim only: the retry limit does not apply to a claim with TakeOver
		defer func() { r.Message.MaxRetries-- }()
	}
	if err := r.Message.MarkRetrying(now); err != nil {
		return err
	}
	r.Number++
	r.Message.Claim = entity.Claim{
		ID: c.ID, ExpiresAt: entity.TruncateTime(now.Add(how.Expiry)),
		Topic: c.Topic, TopicID: c.TopicID, Partition: c.Partition, EndOffset: c.EndOffset, RedriveID: c.RedriveID,
	}
	r.keepEdit(c)
	r.Message.Unsettled = false
	r.Message.NextAttemptAt = time.Time{}
	r.Message.LastPublishError, r.Message.LastPublishErrorClass = "", ""
	return nil
}

// Finish implements repository.Attempts. When a result has a verdict that does not exist, no result is stored, and the
// error is entity.ErrInvalid.
func (s *messages) Finish(ctx context.Context, results []repository.Result, cause entity.AuditInfo) ([]repository.Finished, error) {
	var finished []repository.Finished
	err := s.Step(ctx, "finish attempts", func(now time.Time) error {
		for _, res := range results {
			if !res.Verdict.Valid() {
				return fmt.Errorf("verdict %q: %w", res.Verdict, entity.ErrInvalid)
			}
		}
		for _, res := range results {
			r, ok := s.Rows[res.MessageID]
			if !ok || !r.Message.Claimed() || r.Message.Claim.ID != res.ClaimID {
				continue
			}
			before := r.Message
			if err := r.finish(res, now, cause.Actor); err != nil {
				return err
			}
			if res.Verdict != entity.InDoubt {
				s.changed(now, entity.ActionAttempt, before, r, cause)
			}
			finished = append(finished, r.finished())
		}
		return nil
	})
	return finished, err
}

// abandon appends an attempt that could not be settled to the history. The caller must replace or clear the claim of
// the message.
func (r *Row) abandon(now time.Time, actor string, to entity.Status) {
	m := &r.Message
	r.Attempts = append(r.Attempts, entity.Attempt{
		MessageID: m.ID, Number: r.Number, ID: m.Claim.ID, RetryCount: m.RetryCount,
		RedriveID: m.Claim.RedriveID, Verdict: entity.Abandoned, Actor: actor,
		StartedAt: m.LastRetryAt, EndedAt: now,
		From: entity.Retrying, To: to,
		Class: entity.UnknownClass, Error: m.LastPublishError,
		Topic: m.Claim.Topic, TopicID: m.Claim.TopicID, Partition: m.Claim.Partition, Offset: -1,
	})
}

func (r *Row) finish(res repository.Result, now time.Time, actor string) error {
	m := &r.Message
	m.LastPublishError, m.LastPublishErrorClass, m.NextAttemptAt = res.Error, res.Class, time.Time{}
	if res.Verdict == entity.InDoubt {
		r.Message.Unsettled = res.Class == entity.UnknownClass && expired(m, now)
		m.UpdatedAt = now
		return nil
	}
	claim, count := m.Claim, m.RetryCount
	if err := r.end(res, now); err != nil {
		return err
	}
	r.Attempts = append(r.Attempts, entity.Attempt{
		MessageID: m.ID, Number: r.Number, ID: claim.ID, RetryCount: count,
		RedriveID: claim.RedriveID, Verdict: res.Verdict, Actor: actor,
		StartedAt: m.LastRetryAt, EndedAt: now,
		From: entity.Retrying, To: m.Status,
		Class: res.Class, Error: res.Error,
		Topic: claim.Topic, TopicID: claim.TopicID, Partition: res.Partition, Offset: res.Offset,
	})
	return nil
}

// end changes the message's status as the verdict of the result says, and ends the claim.
func (r *Row) end(res repository.Result, now time.Time) error {
	m := &r.Message
	r.countRescues(res.Verdict)
	m.Claim, m.Unsettled = entity.Claim{}, false
	switch res.Verdict {
	case entity.Acknowledged:
		if m.Outcome == "" { // if the record has already come back, the outcome stays returned
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
		if r.Rescues >= repository.RescueLimit || m.RetryCount >= m.MaxRetries {
			return m.MarkDead(now)
		}
		return r.wait(res.RetryIn, now)
	default: // the verdict Rejected; end is never called for the verdict InDoubt
		return m.MarkDead(now)
	}
}

// wait makes the message PENDING. Its next automatic attempt is due when the time d has passed.
func (r *Row) wait(d time.Duration, now time.Time) error {
	r.Message.NextAttemptAt = nextAttempt(&r.Message, now.Add(d))
	return r.Message.MarkPending(now)
}

// nextAttempt returns the NextAttemptAt of a PENDING message: the time at, or none for a repeat of a final message, which
// automatic retry leaves out.
func nextAttempt(m *entity.Message, at time.Time) time.Time {
	if m.Repeats.Of != uuid.Nil {
		return time.Time{}
	}
	return entity.TruncateTime(at)
}

// countRescues updates the number of attempts in a row that ended as rescues. An attempt with the verdict GivenBack
// does not change this number; any other end of an attempt resets it.
func (r *Row) countRescues(v entity.Verdict) {
	switch v {
	case entity.Rescued:
		r.Rescues++
	case entity.GivenBack, entity.InDoubt:
	case entity.Acknowledged, entity.Skipped, entity.Failed, entity.Rejected, entity.Refused, entity.Abandoned:
		r.Rescues = 0
	}
}

// resolve makes the message RESOLVED and clears its last error; the errors of the attempts stay in the history.
func (r *Row) resolve(now time.Time) error {
	r.Message.LastPublishError, r.Message.LastPublishErrorClass = "", ""
	return r.Message.MarkResolved(now)
}

func (r *Row) finished() repository.Finished {
	m := &r.Message
	return repository.Finished{
		MessageID: m.ID, Status: m.Status,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, NextAttemptAt: m.NextAttemptAt,
	}
}

// Expired implements repository.Attempts.
func (s *messages) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	var messages []entity.Message
	err := s.Step(ctx, "find expired claims", func(now time.Time) error {
		for _, r := range OldestFirst(s.Rows, func(m *entity.Message) bool { return wanted(m, q, now) }) {
			if len(messages) == q.Limit {
				return nil
			}
			messages = append(messages, r.Bare())
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

// expired reports whether m is RETRYING and its claim has expired.
func expired(m *entity.Message, now time.Time) bool {
	return m.Claimed() && !m.Claim.ExpiresAt.After(now)
}

// History implements repository.Attempts.
func (s *messages) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	var attempts []entity.Attempt
	err := s.Step(ctx, "read history", func(time.Time) error {
		if r := cmp.Or(s.Rows[id], s.Archived[id]); r != nil {
			attempts = slices.Clone(r.Attempts)
			for i := range attempts {
				attempts[i].Edit = cloneEdit(r.Edits[attempts[i].ID].Edit)
			}
		}
		return nil
	})
	for i := range attempts {
		if err == nil {
			err = repository.ReserveMemory(ctx, repository.EditSizeInMemory(attempts[i].Edit))
		}
	}
	return attempts, err
}

// AttemptsOf implements repository.Attempts. It returns the attempts in the order of ids. An attempt that is still
// claimed has no actor.
func (s *messages) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	var attempts []entity.Attempt
	err := s.Step(ctx, "find attempts of a redrive", func(time.Time) error {
		for _, id := range Unique(ids) {
			r, ok := s.Rows[id]
			if !ok || redrive == uuid.Nil {
				continue
			}
			if a, made := r.attemptOf(redrive); made {
				a.ConsumerGroup = r.Message.Failure.ConsumerGroup
				attempts = append(attempts, a)
			}
		}
		return nil
	})
	return attempts, err
}

func (r *Row) attemptOf(redrive uuid.UUID) (entity.Attempt, bool) {
	m := &r.Message
	if m.Claimed() && m.Claim.RedriveID == redrive {
		return entity.Attempt{
			MessageID: m.ID, Number: r.Number, ID: m.Claim.ID, RetryCount: m.RetryCount,
			RedriveID: redrive, Verdict: entity.InDoubt, StartedAt: m.LastRetryAt,
			From: entity.Retrying, To: entity.Retrying, Class: m.LastPublishErrorClass, Error: m.LastPublishError,
			Topic: m.Claim.Topic, TopicID: m.Claim.TopicID, Partition: m.Claim.Partition, Offset: -1,
		}, true
	}
	for _, a := range slices.Backward(r.Attempts) {
		if a.RedriveID == redrive {
			return a, true
		}
	}
	return entity.Attempt{}, false
}

// Unique returns ids in their order, each once.
func Unique(ids []uuid.UUID) []uuid.UUID {
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

// keepEdit stores the edit of a claim under the id of its attempt. It stores nothing when the edit changes nothing.
// When a redrive's patch made the value, it stores the patch without the value.
func (r *Row) keepEdit(c repository.Claim) {
	if c.Edit.Empty() && (c.Edit == nil || c.Edit.Patch == nil) {
		return
	}
	if r.Edits == nil {
		r.Edits = map[uuid.UUID]repository.Claim{}
	}
	c.Edit = cloneEdit(c.Edit)
	if c.Edit.Patch != nil {
		c.Edit.Value = nil
	}
	r.Edits[c.ID] = c
}

// Due implements repository.Attempts. Each call scans all messages. It returns a cursor only when the limit leaves out
// a due message that was never attempted.
func (s *messages) Due(ctx context.Context, q repository.DueQuery) ([]uuid.UUID, repository.Cursor, error) {
	var due []uuid.UUID
	var next repository.Cursor
	err := s.Step(ctx, "find due messages", func(now time.Time) error {
		last := q.After
		for _, r := range OldestFirst(s.Rows, func(m *entity.Message) bool { return dueNow(m, q, now) }) {
			m := &r.Message
			fresh := m.NextAttemptAt.IsZero()
			switch {
			case len(due) < q.Limit:
				due = append(due, m.ID)
				if fresh {
					last = repository.Cursor{CreatedAt: m.CreatedAt, ID: m.ID}
				}
			case fresh:
				next = last
				return nil
			}
		}
		return nil
	})
	return due, next, err
}

func dueNow(m *entity.Message, q repository.DueQuery, now time.Time) bool {
	switch {
	case m.CanClaim() != nil || m.Repeats.Of != uuid.Nil || !slices.Contains(q.Topics, m.OriginalTopic):
		return false
	case m.Share != nil && m.Share.State != entity.Completed: // the message may be a return, which is not known before completion has stored its record
		return false
	case m.Origin.Confidence != entity.FromOperator && slices.Contains(q.Except, repository.TopicPair{Original: m.OriginalTopic, DLQ: m.Source.Topic}):
		return false
	case m.NextAttemptAt.IsZero():
		return behind(m, q.After)
	default:
		return !m.NextAttemptAt.After(now)
	}
}

// behind reports whether m comes after the cursor p in the order of created_at and id.
func behind(m *entity.Message, p repository.Cursor) bool {
	if order := m.CreatedAt.Compare(p.CreatedAt); order != 0 {
		return order > 0
	}
	return bytes.Compare(m.ID[:], p.ID[:]) > 0
}

// Stuck implements repository.Attempts.
func (s *messages) Stuck(ctx context.Context, age time.Duration) (int64, error) {
	var n int64
	err := s.Step(ctx, "count stuck messages", func(now time.Time) error {
		for _, r := range s.Rows {
			if r.Message.Claimed() && r.Message.LastRetryAt.Before(now.Add(-age)) {
				n++
			}
		}
		return nil
	})
	return n, err
}
