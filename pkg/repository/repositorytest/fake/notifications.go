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

// notification is a repository.Notification, with further fields that only the store needs.
type notification struct {
	repository.Notification
	readyAt        time.Time // when the notification should first be sent
	dueAt          time.Time
	open           bool
	takenAt        time.Time
	claim          uuid.UUID
	claimExpiresAt time.Time
	endedAt        time.Time
}

// KeepNotifications implements repository.Notifications.
func (s *Store) KeepNotifications(ctx context.Context, k repository.KeptNotifications) (bool, error) {
	kept := false
	err := s.Step(ctx, "store notifications", func(now time.Time) error {
		version, mark, ok := cursorOfEvents(k.Seen.Cursor)
		if !ok || version != s.reported.version {
			return nil
		}
		kept = true
		s.reported.version++
		s.reported.mark, s.reported.watchedAt = mark, now
		s.reported.keep(k.Seen.List, now)
		for _, n := range k.Notifications {
			s.keepNotification(n, k, now)
		}
		for id, n := range s.notifications {
			if !n.endedAt.IsZero() && n.endedAt.Before(now.Add(-repository.NotificationLife)) {
				delete(s.notifications, id)
			}
		}
		return nil
	})
	return kept, err
}

func (s *Store) keepNotification(n repository.NewNotification, k repository.KeptNotifications, now time.Time) {
	due := now.Add(k.Window)
	for _, old := range s.notifications {
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
	n.MessageIDs = slices.Clone(n.MessageIDs[:min(len(n.MessageIDs), repository.MaxNotificationMessages)])
	due = entity.TruncateTime(due)
	s.notifications[n.ID] = &notification{
		Notification: repository.Notification{NewNotification: n, CreatedAt: now}, readyAt: due, dueAt: due, open: true,
	}
}

// add merges more into the notification n, which was stored before and is not sent yet.
func (n *notification) add(more repository.NewNotification) {
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
	n.MessageIDs = ids[:min(len(ids), repository.MaxNotificationMessages)]
	n.Detail = bytes.Clone(more.Detail)
}

func (n *notification) handedOut() repository.Notification {
	out := n.Notification
	out.Topics, out.MessageIDs, out.Detail = slices.Clone(n.Topics), slices.Clone(n.MessageIDs), bytes.Clone(n.Detail)
	return out
}

func (n *notification) free(now time.Time) bool {
	return n.endedAt.IsZero() && (n.claim == uuid.Nil || !n.claimExpiresAt.After(now))
}

// ClaimNotification implements repository.Notifications.
func (s *Store) ClaimNotification(ctx context.Context, c repository.NotificationClaim) (repository.Notification, bool, error) {
	var claimed *notification
	var out repository.Notification
	err := s.Step(ctx, "claim a notification", func(now time.Time) error {
		if s.sinks[c.Sink].After(now) {
			return nil
		}
		for _, n := range s.notifications {
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

func (n *notification) before(other *notification) bool {
	return cmp.Or(n.dueAt.Compare(other.dueAt), bytes.Compare(n.ID[:], other.ID[:])) < 0
}

// SettleNotification implements repository.Notifications.
func (s *Store) SettleNotification(ctx context.Context, r repository.NotificationResult) error {
	return s.Step(ctx, "settle a notification", func(now time.Time) error {
		n := s.notifications[r.Notification]
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

// GiveUpNotifications implements repository.Notifications.
func (s *Store) GiveUpNotifications(ctx context.Context, after time.Duration, limit int) ([]repository.Notification, error) {
	var ended []repository.Notification
	err := s.Step(ctx, "give up notifications", func(now time.Time) error {
		var old []*notification
		for _, n := range s.notifications {
			if n.free(now) && n.CreatedAt.Before(now.Add(-after)) {
				old = append(old, n)
			}
		}
		slices.SortFunc(old, func(a, b *notification) int {
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

// WaitingNotifications implements repository.Notifications.
func (s *Store) WaitingNotifications(ctx context.Context) ([]repository.WaitingNotifications, error) {
	var all []repository.WaitingNotifications
	err := s.Step(ctx, "count waiting notifications", func(now time.Time) error {
		sinks := map[string]*repository.WaitingNotifications{}
		for _, n := range s.notifications {
			if !n.endedAt.IsZero() {
				continue
			}
			w := sinks[n.Sink]
			if w == nil {
				w = &repository.WaitingNotifications{Sink: n.Sink}
				sinks[n.Sink] = w
			}
			w.Notifications++
			w.Overdue = max(w.Overdue, now.Sub(n.readyAt))
		}
		for _, w := range sinks {
			all = append(all, *w)
		}
		slices.SortFunc(all, func(a, b repository.WaitingNotifications) int { return strings.Compare(a.Sink, b.Sink) })
		return nil
	})
	return all, err
}
