package notify

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// collect makes notices of what happened. more reports that there may be more. That
// another process was faster is no error: it has kept the notices.
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
	if len(found.List) == 0 && !spikes { // with spikes it is kept that somebody looked
		return false, nil
	}
	_, err = n.store.KeepNotices(ctx, repository.KeptNotices{
		Seen: found, Notices: n.notices(found), Window: n.cfg.Window, Repeat: n.cfg.Repeat,
	})
	return found.More, err
}

// about is what notices of one sink are gathered by.
type about struct {
	sink   string
	kind   repository.EventKind
	object string
}

// notices are what is to be said of events, in the order in which they come.
func (n *Notifier) notices(found repository.Events) []repository.NewNotice {
	places := map[about]int{}
	var all []repository.NewNotice
	for _, e := range found.List {
		if n.silent(e, found) {
			continue
		}
		for _, s := range n.sinks {
			if !s.wants(e) {
				continue
			}
			key := about{s.name, e.Kind, objectOf(e)}
			at, known := places[key]
			if !known {
				at = len(all)
				places[key] = at
				all = append(all, repository.NewNotice{
					ID: entity.NewID(), Sink: s.name, Kind: e.Kind, Object: key.object, First: e.At, Last: e.At,
				})
			}
			add(&all[at], e)
		}
	}
	return all
}

// silent reports whether nobody is told: of a muted group, of a spike that is known,
// of what a program makes happen itself, and of what is too long ago.
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

// objectOf is what an event is about, for people: messages are told of by their topic.
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

// add has a notice tell of an event too.
func add(n *repository.NewNotice, e repository.Event) {
	n.Events++
	n.First, n.Last = earlier(n.First, e.At), later(n.Last, e.At)
	for _, topic := range e.Topics {
		if !slices.Contains(n.Topics, topic) {
			n.Topics = append(n.Topics, topic)
		}
	}
	slices.Sort(n.Topics)
	if ofMessages(e.Kind) && e.Object != uuid.Nil && len(n.MessageIDs) < repository.MaxNoticeMessages {
		n.MessageIDs = append(n.MessageIDs, e.Object)
	}
	n.Detail = packDetail(e)
}

func ofMessages(kind repository.EventKind) bool {
	return kind == repository.MessageDead || kind == repository.LoopStopped
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
