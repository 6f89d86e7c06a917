package fake

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// comeback is the first return of an attempt.
type comeback struct {
	child, redrive uuid.UUID // uuid.Nil: no redrive made the attempt
	byContent      bool
	at             time.Time
}

// arrival is a message that comes back, and the attempt that sent it.
type arrival struct {
	message   *entity.Message
	parent    *row
	attempt   entity.Attempt // or what is known of it while it is a claim
	byContent bool
	confirmed bool
}

// findReturns looks for the attempts of messages that are about to be stored.
// What headers name goes first: an attempt that has such a return is not found by
// content any more.
func (s *Store) findReturns(messages []*entity.Message, batch repository.Batch, now time.Time) []arrival {
	confirmed := func(parent *row, m *entity.Message) bool {
		return parent.message.Source.TopicID == m.Source.TopicID && m.Source.TopicID != 0 || batch.Declared != nil && batch.Declared(m)
	}
	var found []arrival
	named := map[uuid.UUID]bool{}
	for _, m := range messages {
		if parent, attempt, ok := s.named(m); ok {
			a := arrival{m, parent, attempt, false, confirmed(parent, m)}
			if a.confirmed {
				named[attempt.ID] = true
			}
			found = append(found, a)
		}
	}
	if batch.ReturnWindow <= 0 {
		return found
	}
	sent := s.sentSince(now.Add(-batch.ReturnWindow), named)
	taken := map[slot]bool{}
	for _, m := range messages {
		if m.Return != nil || m.OriginalTopic == "" {
			continue
		}
		hash := entity.RecordHash(m.Record.Key, m.Record.Value)
		if hash == 0 {
			continue
		}
		for _, kind := range []bool{true, false} {
			attempts := sent[likeness{m.OriginalTopic, hash}]
			n := slices.IndexFunc(attempts, func(a arrival) bool {
				return confirmed(a.parent, m) == kind && a.parent.open(a.attempt.ID, kind) && !taken[slot{a.attempt.ID, kind}] &&
					a.parent.sentSame(a.attempt.ID, m)
			})
			if n >= 0 {
				taken[slot{attempts[n].attempt.ID, kind}] = true
				found = append(found, arrival{m, attempts[n].parent, attempts[n].attempt, true, kind})
				break
			}
		}
	}
	return found
}

// slot is for the one return of an attempt that is known by content, confirmed or not.
type slot struct {
	attempt   uuid.UUID
	confirmed bool
}

// open reports whether the slot of an attempt is free.
func (r *row) open(attempt uuid.UUID, confirmed bool) bool {
	if !confirmed {
		return !r.unconfirmed[attempt]
	}
	_, cameBack := r.returns[attempt]
	return !cameBack
}

// named returns the attempt that m says it is the return of; false without a
// proof.
func (s *Store) named(m *entity.Message) (*row, entity.Attempt, bool) {
	if m.Return == nil {
		return nil, entity.Attempt{}, false
	}
	r, ok := s.rows[m.Return.Parent]
	if !ok {
		return nil, entity.Attempt{}, false
	}
	for _, a := range r.attempts {
		if a.ID == m.Return.Attempt && a.Topic == m.OriginalTopic {
			return r, a, true
		}
	}
	if claim := r.message.Claim; claim.ID == m.Return.Attempt && claim.Topic == m.OriginalTopic {
		return r, entity.Attempt{ID: claim.ID, RetryCount: r.message.RetryCount, RedriveID: claim.RedriveID}, true
	}
	return nil, entity.Attempt{}, false
}

// likeness is what messages have in common that may be returns of the same
// attempts.
type likeness struct {
	topic string
	hash  int64
}

// sentSince returns the attempts that were acknowledged since then, or that began since
// then and have no result, without those that headers name, the latest first.
func (s *Store) sentSince(then time.Time, named map[uuid.UUID]bool) map[likeness][]arrival {
	sent := map[likeness][]arrival{}
	for _, r := range s.rows {
		for _, a := range r.sent() {
			hash := r.sentHash(a.ID)
			if hash == 0 || a.EndedAt.Before(then) || named[a.ID] {
				continue
			}
			l := likeness{a.Topic, hash}
			sent[l] = append(sent[l], arrival{parent: r, attempt: a})
		}
	}
	for _, attempts := range sent {
		slices.SortFunc(attempts, func(a, b arrival) int {
			return cmp.Or(b.attempt.EndedAt.Compare(a.attempt.EndedAt),
				bytes.Compare(b.parent.message.ID[:], a.parent.message.ID[:]))
		})
	}
	return sent
}

// sent returns the attempts that were acknowledged, and that which claims the message now
// as if it ended when it began.
func (r *row) sent() []entity.Attempt {
	var sent []entity.Attempt
	for _, a := range r.attempts {
		if a.Verdict == entity.Acknowledged {
			sent = append(sent, a)
		}
	}
	if m := &r.message; m.Claimed() {
		sent = append(sent, entity.Attempt{
			ID: m.Claim.ID, RetryCount: m.RetryCount, RedriveID: m.Claim.RedriveID, Topic: m.Claim.Topic, EndedAt: m.LastRetryAt,
		})
	}
	return sent
}

// refute takes back what a return by content said of an attempt that then sent nothing:
// an equal record had come in meanwhile. Its message stays a child.
func (r *row) refute(attempt uuid.UUID) {
	if !r.returns[attempt].byContent {
		return
	}
	delete(r.returns, attempt)
	if len(r.returns) == 0 {
		r.message.Outcome = ""
	}
}

// arrive makes a message the child of its parent, and notes what that means for
// both.
func (s *Store) arrive(a arrival, now time.Time) repository.Arrival {
	m, parent := a.message, a.parent
	at := parent.message
	at.RetryCount = a.attempt.RetryCount
	before := *m
	m.Descend(&at)
	if !a.confirmed {
		m.UnconfirmedReturn = true
		if a.byContent {
			if parent.unconfirmed == nil {
				parent.unconfirmed = map[uuid.UUID]bool{}
			}
			parent.unconfirmed[a.attempt.ID] = true
		}
	} else if parent.message.Outcome = entity.Returned; parent.open(a.attempt.ID, true) {
		if parent.returns == nil {
			parent.returns = map[uuid.UUID]comeback{}
		}
		parent.returns[a.attempt.ID] = comeback{m.ID, a.attempt.RedriveID, a.byContent, now}
	}
	if m.Status == entity.Dead {
		before.Status, before.LastPublishError, before.LastPublishErrorClass = "", "", ""
		s.note(now, entity.ActionDead, before, m.Status, m.RetryCount, entity.Cause{
			Actor:  entity.ActorIngest,
			Reason: fmt.Sprintf("came back after %d of %d attempts", m.RetryCount, m.MaxRetries),
		})
	}
	return repository.Arrival{
		MessageID: m.ID, Parent: m.Parent, Root: m.Root, Topic: m.OriginalTopic,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Status: m.Status, ByContent: a.byContent, Confirmed: a.confirmed,
	}
}
