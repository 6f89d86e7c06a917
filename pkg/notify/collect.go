package notify

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// collect stores notifications of new events. The result more reports that the store may have further events. If
// another process has collected the same events before, the store keeps the notifications of that process.
func (n *Notifier) collect(ctx context.Context, spikes bool) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q := repository.EventQuery{Limit: eventLimit, Patience: n.cfg.GiveUp}
	if spikes {
		q.Spikes = &repository.SpikeRule{Factor: n.cfg.Spike.Factor, Minimum: n.cfg.Spike.Minimum}
	}
	found, err := n.store.Events(ctx, q)
	if err != nil {
		return false, err
	}
	if len(found.List) == 0 && !spikes { // the store also remembers a search for spikes that found no event
		return false, nil
	}
	_, err = n.store.KeepNotifications(ctx, repository.KeptNotifications{
		Seen: found, Notifications: n.notifications(found), Window: n.cfg.Window, Repeat: n.cfg.Repeat,
	})
	return found.More, err
}

type about struct {
	sink   string
	kind   repository.EventKind
	object string
}

func (n *Notifier) notifications(found repository.Events) []repository.NewNotification {
	places := map[about]int{}
	var all []repository.NewNotification
	for _, e := range found.List {
		if n.silent(e, found) {
			continue
		}
		for _, s := range n.sinks {
			e, wanted := s.hear(e)
			if !wanted {
				continue
			}
			key := about{s.name, e.Kind, objectOf(e)}
			at, known := places[key]
			if !known {
				at = len(all)
				places[key] = at
				all = append(all, repository.NewNotification{
					ID: entity.NewID(), Sink: s.name, Kind: e.Kind, Object: key.object, First: e.At, Last: e.At,
				})
			}
			add(&all[at], e)
		}
	}
	return all
}

// silent reports whether an event causes no notification: its error group is muted, its spike is already known, Quiet
// excludes it, or it is older than Config.GiveUp or than found.Since.
func (n *Notifier) silent(e repository.Event, found repository.Events) bool {
	since := found.Now.Add(-n.cfg.GiveUp)
	if found.Since.After(since) {
		since = found.Since
	}
	return e.Muted || e.Again || n.quiet.has(e) || e.At.Before(since)
}

func (q Quiet) has(e repository.Event) bool {
	if slices.Contains(q.Groups, e.Object) {
		return true
	}
	loud := func(topic string) bool { return !slices.Contains(q.Topics, topic) }
	return len(e.Topics) > 0 && !slices.ContainsFunc(e.Topics, loud)
}

// objectOf returns the object that an event concerns, such as a redrive. For a spike and for events of messages, this
// is the first topic, or "" when no topic is known.
func objectOf(e repository.Event) string {
	switch e.Kind {
	case repository.GroupNew, repository.GroupRegressed, repository.RedriveFinished, repository.RedriveStopped:
		return e.Object.String()
	case repository.Spike, repository.LoopStopped, repository.MessageDead:
		if len(e.Topics) > 0 {
			return e.Topics[0]
		}
	}
	return ""
}

func add(n *repository.NewNotification, e repository.Event) {
	n.Events++
	n.First = slices.MinFunc([]time.Time{n.First, e.At}, time.Time.Compare)
	n.Last = slices.MaxFunc([]time.Time{n.Last, e.At}, time.Time.Compare)
	n.Topics = append(n.Topics, e.Topics...)
	slices.Sort(n.Topics)
	n.Topics = slices.Compact(n.Topics)
	if ofMessages(e.Kind) && e.Object != uuid.Nil && len(n.MessageIDs) < repository.MaxNotificationMessages {
		n.MessageIDs = append(n.MessageIDs, e.Object)
	}
	n.Detail = packDetail(e)
}
