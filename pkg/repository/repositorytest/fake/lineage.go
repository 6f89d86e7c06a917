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
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// arrival is a message that is a return, together with its parent and the attempt that sent its record.
type arrival struct {
	message   *entity.Message
	parent    *row
	attempt   entity.Attempt // the attempt that sent the record; when the attempt has no result yet, only some of the fields are set
	byContent bool
	confirmed bool
}

// findReturns finds the returns among messages that will be stored, and their attempts. It finds returns by headers
// first. An attempt with a confirmed return by headers among these messages gets no return by key and value.
func (s *Store) findReturns(messages []*entity.Message, batch repository.Batch, now time.Time) []repository.Arrival {
	var found []arrival
	named := map[uuid.UUID]bool{}
	for _, m := range messages {
		if parent, attempt, ok := s.ParentOf(m); ok {
			a := arrival{m, parent, attempt, false, memory.Confirms(m, parent, batch)}
			if a.confirmed {
				named[attempt.ID] = true
			}
			found = append(found, a)
		}
	}
	if batch.ReturnWindow > 0 {
		found = append(found, s.returnsByContent(messages, batch, now, named)...)
	}
	var arrivals []repository.Arrival
	for _, a := range found {
		arrivals = append(arrivals, s.arrive(a, now))
	}
	return arrivals
}

// returnsByContent finds the messages that are returns because an attempt has sent the same key and value, and returns
// them with these attempts. It does not consider the attempts in named, for which the headers of another message in the
// batch prove the return.
func (s *Store) returnsByContent(messages []*entity.Message, batch repository.Batch, now time.Time, named map[uuid.UUID]bool) []arrival {
	var found []arrival
	sent := s.sentSince(now.Add(-batch.ReturnWindow), named)
	taken := map[slot]bool{}
	for _, m := range messages {
		if m.Return != nil || m.OriginalTopic == "" || m.Repeats.Of != uuid.Nil {
			continue
		}
		hash := entity.RecordHash(m.Record.Key, m.Record.Value)
		if hash == 0 {
			continue
		}
		for _, kind := range []bool{true, false} {
			attempts := sent[contentKey{m.OriginalTopic, hash}]
			n := slices.IndexFunc(attempts, func(a arrival) bool {
				return memory.Confirms(m, a.parent, batch) == kind && s.open(a, kind) && !taken[slot{a.attempt.ID, kind}] &&
					sentSame(a, m)
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

// slot is a return that an attempt may have by key and value. An attempt has two slots: one for a confirmed return, and
// one for an unconfirmed return.
type slot struct {
	attempt   uuid.UUID
	confirmed bool
}

// open reports whether a further return by key and value can belong to the attempt of a. With confirmed, the attempt
// must have no confirmed return; otherwise it must have no unconfirmed one by key and value.
func (s *Store) open(a arrival, confirmed bool) bool {
	if !confirmed {
		return !s.byContent[slot{a.attempt.ID, false}]
	}
	_, cameBack := a.parent.Returned[a.attempt.ID]
	return !cameBack
}

// contentKey is the key under which attempts are found by the record that they sent: the original topic and the hash of
// key and value.
type contentKey struct {
	topic string
	hash  int64
}

// sentSince returns the attempts that were acknowledged at the time then or later, and the attempts that began at that
// time or later and have no result. The latest attempts come first. It leaves out the attempts in the parameter named.
func (s *Store) sentSince(then time.Time, named map[uuid.UUID]bool) map[contentKey][]arrival {
	found := map[contentKey][]arrival{}
	for _, r := range s.Rows {
		for _, a := range sent(r) {
			hash := sentHash(r, a.ID)
			if hash == 0 || a.EndedAt.Before(then) || named[a.ID] {
				continue
			}
			l := contentKey{a.Topic, hash}
			found[l] = append(found[l], arrival{parent: r, attempt: a})
		}
	}
	for _, attempts := range found {
		slices.SortFunc(attempts, func(a, b arrival) int {
			return cmp.Or(b.attempt.EndedAt.Compare(a.attempt.EndedAt),
				bytes.Compare(b.parent.Message.ID[:], a.parent.Message.ID[:]))
		})
	}
	return found
}

// sent returns the attempts of a message that have, or may have, sent a record. These are the acknowledged attempts,
// and the attempt of the present claim, which has no result yet. The EndedAt of the latter is the time at which the
// claim began.
func sent(r *row) []entity.Attempt {
	var sent []entity.Attempt
	for _, a := range r.Attempts {
		if a.Verdict == entity.Acknowledged {
			sent = append(sent, a)
		}
	}
	if m := &r.Message; m.Claimed() {
		sent = append(sent, entity.Attempt{
			ID: m.Claim.ID, RetryCount: m.RetryCount, RedriveID: m.Claim.RedriveID, Topic: m.Claim.Topic, EndedAt: m.LastRetryAt,
		})
	}
	return sent
}

// sentHash returns the hash of the record that an attempt sent; 0 when the record has no hash.
func sentHash(r *row, attempt uuid.UUID) int64 {
	if c, ok := r.Edits[attempt]; ok {
		return c.SentHash
	}
	return entity.RecordHash(r.Message.Record.Key, r.Message.Record.Value)
}

// sentSame reports whether an attempt sent the key and the value of m. When a patch made the value, the value is not
// stored, and the equal hash decides.
func sentSame(a arrival, m *entity.Message) bool {
	record := a.parent.Message.Record
	if e := a.parent.Edits[a.attempt.ID].Edit; e != nil {
		record = e.Apply(record)
		if e.Patch != nil {
			record.Value = m.Record.Value
		}
	}
	return bytes.Equal(record.Key, m.Record.Key) && bytes.Equal(record.Value, m.Record.Value)
}

// refute is called for an attempt that sent nothing. If a confirmed return of this attempt was recognised by key and
// value, its record came from another producer, and refute removes the return. The message of that record stays a child
// of the attempt's message.
func (s *Store) refute(r *row, attempt uuid.UUID) {
	if !s.byContent[slot{attempt, true}] {
		return
	}
	delete(s.byContent, slot{attempt, true})
	delete(r.Returned, attempt)
	if len(r.Returned) == 0 {
		r.Message.Outcome = ""
	}
}

// arrive makes a message the child of its parent. When the message becomes DEAD by this, arrive appends an audit entry.
func (s *Store) arrive(a arrival, now time.Time) repository.Arrival {
	before := *a.message
	if a.byContent && s.open(a, a.confirmed) {
		s.byContent[slot{a.attempt.ID, a.confirmed}] = true
	}
	came := memory.Arrive(a.message, a.parent, a.attempt, a.confirmed)
	came.ByContent = a.byContent
	if came.Status == entity.Dead {
		before.Status, before.LastPublishError, before.LastPublishErrorClass = "", "", ""
		s.append(messageEntry(now, entity.ActionDead, before, came.Status, came.RetryCount, entity.AuditInfo{
			Actor:  entity.ActorIngest,
			Reason: fmt.Sprintf("came back after %d of %d attempts", came.RetryCount, came.MaxRetries),
		}))
	}
	return came
}
