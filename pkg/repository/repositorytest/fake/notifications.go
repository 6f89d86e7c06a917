package fake

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// notice is a notice and internal data of the store.
type notice struct {
	repository.Notice
	readyAt        time.Time // when it was to be sent first
	dueAt          time.Time
	open           bool
	takenAt        time.Time
	claim          uuid.UUID
	claimExpiresAt time.Time
	endedAt        time.Time
}

// KeepNotices implements repository.Notifications.
func (s *Store) KeepNotices(ctx context.Context, k repository.KeptNotices) (bool, error) {
	kept := false
	err := s.Step(ctx, "store notices", func(now time.Time) error {
		version, mark, ok := cursorOfEvents(k.Seen.Cursor)
		if !ok || version != s.reported.version {
			return nil
		}
		kept = true
		s.reported.version++
		s.reported.mark, s.reported.watchedAt = mark, now
		s.reported.keep(k.Seen.List, now)
		for _, n := range k.Notices {
			s.keepNotice(n, k, now)
		}
		for id, n := range s.notices {
			if !n.endedAt.IsZero() && n.endedAt.Before(now.Add(-repository.NoticeLife)) {
				delete(s.notices, id)
			}
		}
		return nil
	})
	return kept, err
}

func (s *Store) keepNotice(n repository.NewNotice, k repository.KeptNotices, now time.Time) {
	due := now.Add(k.Window)
	for _, old := range s.notices {
		if old.Sink != n.Sink || old.Kind != n.Kind || old.Object != n.Object {
			continue
		}
		if old.open {
			old.add(n)
			return
		}
		if again := old.takenAt.Add(k.Repeat); !old.takenAt.IsZero() && again.After(due) {
			due = again
		}
	}
	n.First, n.Last = entity.TruncateTime(n.First), entity.TruncateTime(n.Last)
	n.Topics, n.Detail = slices.Clone(n.Topics), bytes.Clone(n.Detail)
	n.MessageIDs = slices.Clone(n.MessageIDs[:min(len(n.MessageIDs), repository.MaxNoticeMessages)])
	due = entity.TruncateTime(due)
	s.notices[n.ID] = &notice{
		Notice: repository.Notice{NewNotice: n, CreatedAt: now}, readyAt: due, dueAt: due, open: true,
	}
}

// add adds an event to an open notice.
func (n *notice) add(more repository.NewNotice) {
	n.Events += more.Events
	if first := entity.TruncateTime(more.First); first.Before(n.First) {
		n.First = first
	}
	if last := entity.TruncateTime(more.Last); last.After(n.Last) {
		n.Last = last
	}
	for _, topic := range more.Topics {
		if !slices.Contains(n.Topics, topic) {
			n.Topics = append(n.Topics, topic)
		}
	}
	slices.Sort(n.Topics)
	ids := append(n.MessageIDs, more.MessageIDs...)
	n.MessageIDs = ids[:min(len(ids), repository.MaxNoticeMessages)]
	n.Detail = bytes.Clone(more.Detail)
}

func (n *notice) handedOut() repository.Notice {
	out := n.Notice
	out.Topics, out.MessageIDs, out.Detail = slices.Clone(n.Topics), slices.Clone(n.MessageIDs), bytes.Clone(n.Detail)
	return out
}

func (n *notice) free(now time.Time) bool {
	return n.endedAt.IsZero() && (n.claim == uuid.Nil || !n.claimExpiresAt.After(now))
}

// ClaimNotice implements repository.Notifications.
func (s *Store) ClaimNotice(ctx context.Context, c repository.NoticeClaim) (repository.Notice, bool, error) {
	var claimed *notice
	var out repository.Notice
	err := s.Step(ctx, "claim a notice", func(now time.Time) error {
		if s.sinks[c.Sink].After(now) {
			return nil
		}
		for _, n := range s.notices {
			if n.Sink == c.Sink && n.free(now) && !n.dueAt.After(now) && (claimed == nil || n.before(claimed)) {
				claimed = n
			}
		}
		if claimed == nil {
			return nil
		}
		s.sinks[c.Sink] = entity.TruncateTime(now.Add(c.Pace))
		claimed.open, claimed.takenAt = false, now
		claimed.claim, claimed.claimExpiresAt = c.ID, entity.TruncateTime(now.Add(c.Lease))
		claimed.Attempts++
		out = claimed.handedOut()
		return nil
	})
	return out, claimed != nil && err == nil, err
}

func (n *notice) before(other *notice) bool {
	return cmp.Or(n.dueAt.Compare(other.dueAt), bytes.Compare(n.ID[:], other.ID[:])) < 0
}

// SettleNotice implements repository.Notifications.
func (s *Store) SettleNotice(ctx context.Context, r repository.NoticeResult) error {
	return s.Step(ctx, "settle a notice", func(now time.Time) error {
		n := s.notices[r.Notice]
		if n == nil || n.claim != r.Claim || !n.endedAt.IsZero() {
			return nil
		}
		n.claim, n.claimExpiresAt, n.LastError = uuid.Nil, time.Time{}, r.Error
		if r.Sent {
			n.endedAt = now
			return nil
		}
		n.dueAt = entity.TruncateTime(now.Add(r.RetryIn))
		if until := entity.TruncateTime(now.Add(r.Pause)); until.After(s.sinks[n.Sink]) {
			s.sinks[n.Sink] = until
		}
		return nil
	})
}

// GiveUpNotices implements repository.Notifications.
func (s *Store) GiveUpNotices(ctx context.Context, after time.Duration, limit int) ([]repository.Notice, error) {
	var ended []repository.Notice
	err := s.Step(ctx, "give up notices", func(now time.Time) error {
		var old []*notice
		for _, n := range s.notices {
			if n.free(now) && n.CreatedAt.Before(now.Add(-after)) {
				old = append(old, n)
			}
		}
		slices.SortFunc(old, func(a, b *notice) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
		})
		for _, n := range old[:min(len(old), limit)] {
			n.open, n.endedAt = false, now
			ended = append(ended, n.handedOut())
		}
		return nil
	})
	return ended, err
}

// WaitingNotices implements repository.Notifications.
func (s *Store) WaitingNotices(ctx context.Context) ([]repository.WaitingNotices, error) {
	var all []repository.WaitingNotices
	err := s.Step(ctx, "count waiting notices", func(now time.Time) error {
		sinks := map[string]*repository.WaitingNotices{}
		for _, n := range s.notices {
			if !n.endedAt.IsZero() {
				continue
			}
			w := sinks[n.Sink]
			if w == nil {
				w = &repository.WaitingNotices{Sink: n.Sink}
				sinks[n.Sink] = w
			}
			w.Notices++
			w.Overdue = max(w.Overdue, now.Sub(n.readyAt))
		}
		for _, w := range sinks {
			all = append(all, *w)
		}
		slices.SortFunc(all, func(a, b repository.WaitingNotices) int { return strings.Compare(a.Sink, b.Sink) })
		return nil
	})
	return all, err
}
