package fake

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// reported remembers which events were completed with KeepNotifications, so that Events does not find them again. A
// spike that goes on is found again, with Again set.
type reported struct {
	version   int64 // increases with every change of this state
	mark      int64 // id of the last completed entry of the audit trail
	beganAt   time.Time
	watchedAt time.Time // when Events last began anew, or KeepNotifications was last called; zero: never
	groups    map[uuid.UUID]reportedGroup
	spikes    map[string]time.Time // when a spike of each topic was last completed
}

// reportedGroup says that the first arrival of an error group was reported as an event. regressedAt is the time of the
// last regression of the group that was reported.
type reportedGroup struct{ regressedAt time.Time }

// Events implements repository.Notifications.
func (s *Store) Events(ctx context.Context, q repository.EventQuery) (repository.Events, error) {
	var found repository.Events
	err := s.Step(ctx, "find events", func(now time.Time) error {
		if s.reported.watchedAt.IsZero() || s.reported.watchedAt.Before(now.Add(-q.Patience)) {
			s.reported.version++
			s.reported.beganAt, s.reported.watchedAt = now, now
		}
		found = repository.Events{Now: now, Since: s.reported.beganAt}
		mark := s.trailEvents(&found, q.Limit)
		s.groupEvents(&found, q.Limit)
		if q.Spikes != nil {
			s.spikeEvents(&found, *q.Spikes, now)
		}
		found.Cursor = strconv.FormatInt(s.reported.version, 10) + ":" + strconv.FormatInt(mark, 10)
		return nil
	})
	return found, err
}

// trailEvents adds to found the events of those audit entries that come after the last completed entry, at most limit
// events. It returns the id of the last entry that it has read.
func (s *Store) trailEvents(found *repository.Events, limit int) int64 {
	mark := s.reported.mark
	n, from := 0, 0
	if len(s.trail) > 0 { // audit entries have consecutive ids, so the index of an entry follows from its id
		from = min(int(max(0, mark+1-s.trail[0].ID)), len(s.trail))
	}
	for _, e := range s.trail[from:] {
		event, isReported := s.trailEvent(e)
		if isReported && n == limit {
			found.More = true
			return mark
		}
		mark = e.ID
		if isReported {
			n++
			found.List = append(found.List, event)
		}
	}
	return mark
}

func (s *Store) trailEvent(e entity.AuditEntry) (repository.Event, bool) {
	event := repository.Event{At: e.At, Object: e.ObjectID}
	switch {
	case e.Kind == entity.KindMessage && e.To == string(entity.Dead):
		event.Kind = repository.MessageDead
		if e.Action == entity.ActionDead && e.Cause.Actor == entity.ActorIngest {
			event.Kind = repository.LoopStopped
		}
		s.ofMessage(&event)
	case e.Kind == entity.KindRedrive && e.To == string(entity.RedriveFinished):
		event.Kind = repository.RedriveFinished
		s.ofRedrive(&event, e.To)
	case e.Kind == entity.KindRedrive && e.To == string(entity.RedriveStopped):
		event.Kind = repository.RedriveStopped
		s.ofRedrive(&event, e.To)
	default:
		return event, false
	}
	return event, true
}

func (s *Store) ofMessage(event *repository.Event) {
	r := s.Rows[event.Object]
	if r == nil {
		return
	}
	if topic := r.Message.OriginalTopic; topic != "" {
		event.Topics = []string{topic}
	} else if topic := r.Message.Source.Topic; topic != "" {
		event.Topics = []string{topic}
	}
	if g := s.errorGroups[r.Message.Group]; g != nil {
		event.Muted = g.annotation(r.Message.OriginalTopic).Muted
	}
}

func (s *Store) ofRedrive(event *repository.Event, state string) {
	r := s.core.Redrives[event.Object]
	if r == nil {
		return
	}
	e := s.ShownRedrive(r)
	event.Redrive = repository.EndOf(e, entity.RedriveState(state))
	topics := map[string]bool{}
	if e.Selection.Topic != "" {
		topics[e.Selection.Topic] = true
	}
	for _, b := range r.Batches {
		for _, item := range b.Items {
			if item.Topic != "" {
				topics[item.Topic] = true
			}
		}
	}
	event.Topics = slices.Sorted(maps.Keys(topics))
}

func (s *Store) groupEvents(found *repository.Events, limit int) {
	unreported := slices.Collect(maps.Keys(s.errorGroups))
	slices.SortFunc(unreported, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	n := 0
	for _, id := range unreported {
		g := s.errorGroups[id]
		known, isReported := s.reported.groups[id]
		if g.firstSeen.IsZero() || isReported && known.regressedAt.Equal(g.regressedAt) {
			continue
		}
		if n == limit {
			found.More = true
			return
		}
		n++
		event := repository.Event{
			Kind: repository.GroupNew, At: g.firstSeen, Object: id, Class: g.Class, Title: g.Title,
			RegressedAt: g.regressedAt,
		}
		if isReported {
			event.Kind, event.At = repository.GroupRegressed, g.regressedAt
		}
		came := s.arrivedIn(id, event.At)
		event.Muted = g.mutedIn(came)
		event.Topics = slices.DeleteFunc(came, func(topic string) bool { return topic == "" || g.annotation(topic).Muted })
		found.List = append(found.List, event)
	}
}

// arrivedIn returns the original topics of the messages of an error group that arrived at the time since or later. ""
// stands for an unknown original topic.
func (s *Store) arrivedIn(group uuid.UUID, since time.Time) []string {
	for _, r := range s.Rows {
		s.follow(r)
	}
	topics := map[string]bool{}
	for _, a := range s.arrivals {
		if a.group == group && !a.at.Before(since) {
			topics[a.topic] = true
		}
	}
	return slices.Sorted(maps.Keys(topics))
}

func (s *Store) spikeEvents(found *repository.Events, rule repository.SpikeRule, now time.Time) {
	recent := map[string]int64{}
	since := now.Add(-repository.SpikeRecent).Truncate(repository.FineArrivalsStep)
	for a, n := range s.activity {
		if a.step == repository.FineArrivalsStep && !a.at.Before(since) && a.topic != "" {
			recent[a.topic] += n.arrived
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(recent)) {
		usual := s.usual(topic, now)
		if arrived := recent[topic]; arrived < rule.Minimum || float64(arrived) <= rule.Factor*usual {
			continue
		}
		seen, again := s.reported.spikes[topic]
		found.List = append(found.List, repository.Event{
			Kind: repository.Spike, At: now, Topics: []string{topic}, Arrived: recent[topic], Usual: usual,
			Again: again && seen.After(now.Add(-repository.SpikeOver)),
		})
	}
}

// usual returns the average number of a topic's arrivals in a quarter of an hour. It averages over the hours from the
// topic's first arrival within repository.SpikeUsual on, without the present hour and the hour before it.
func (s *Store) usual(topic string, now time.Time) float64 {
	until := now.Truncate(time.Hour).Add(-time.Hour)
	first, arrived := until, int64(0)
	for a, n := range s.activity {
		if a.topic != topic || a.step != repository.ArrivalsStep || !a.at.Before(until) || a.at.Before(now.Add(-repository.SpikeUsual)) {
			continue
		}
		arrived += n.arrived
		if a.at.Before(first) {
			first = a.at
		}
	}
	return float64(arrived) / max(1, until.Sub(first).Hours()) / 4
}

// cursorOfEvents parses Events.Cursor.
func cursorOfEvents(text string) (version, mark int64, ok bool) {
	v, m, _ := bytes.Cut([]byte(text), []byte(":"))
	version, errVersion := strconv.ParseInt(string(v), 10, 64)
	mark, errMark := strconv.ParseInt(string(m), 10, 64)
	return version, mark, errVersion == nil && errMark == nil
}

// keep remembers that events were reported. It is called when KeepNotifications has completed them.
func (t *reported) keep(events []repository.Event, now time.Time) {
	for _, e := range events {
		switch e.Kind {
		case repository.GroupNew, repository.GroupRegressed:
			t.groups[e.Object] = reportedGroup{regressedAt: e.RegressedAt}
		case repository.Spike:
			t.spikes[e.Topics[0]] = now
		case repository.LoopStopped, repository.MessageDead, repository.RedriveFinished, repository.RedriveStopped:
		}
	}
}

// active is the key under which arrivals are counted: an original topic, and the beginning and the length of a time
// step.
type active struct {
	topic string
	step  time.Duration
	at    time.Time
}

// arrivals is a number of messages that arrived, and the number of returns among them.
type arrivals struct{ arrived, returned int64 }

var arrivalsLives = map[time.Duration]time.Duration{
	repository.ArrivalsMinute:   repository.ArrivalsMinuteLife,
	repository.FineArrivalsStep: repository.FineArrivalsLife,
	repository.ArrivalsStep:     repository.ArrivalsLife,
}

// forgetActivity deletes counts that need not be kept any longer.
func (s *Store) forgetActivity(now time.Time) {
	for a := range s.activity {
		if a.at.Before(now.Add(-arrivalsLives[a.step])) {
			delete(s.activity, a)
		}
	}
	for m := range s.minutes {
		if m.at.Before(now.Add(-repository.ArrivalsMinuteLife)) {
			delete(s.minutes, m)
		}
	}
}

// count adds the arrival of a message to the counts, unless the message is too old or is from more than a day in the
// future. If the message has no error group, it is counted for the error group of the fingerprint f.
func (s *Store) count(now time.Time, r *row, f *entity.Fingerprint) {
	m := &r.Message
	if !m.CreatedAt.Before(now.Add(24 * time.Hour)) {
		return
	}
	for step, life := range arrivalsLives {
		a := active{m.OriginalTopic, step, m.CreatedAt.UTC().Truncate(step)}
		if a.at.Before(now.Add(-life)) {
			continue
		}
		came := s.activity[a]
		came.arrived++
		if m.Parent != uuid.Nil {
			came.returned++
		}
		s.activity[a] = came
	}
	group := m.Group
	if group == uuid.Nil && f != nil {
		group = f.ID()
	}
	at := m.CreatedAt.UTC().Truncate(time.Minute)
	if group != uuid.Nil && !at.Before(now.Add(-repository.ArrivalsMinuteLife)) {
		s.minutes[groupMinute{group, m.OriginalTopic, at}]++
	}
}

// Arrivals implements repository.Activity.
func (s *Store) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	came := repository.Arrivals{Points: q.Empty()}
	err := s.Step(ctx, "count arrivals", func(now time.Time) error {
		came.Until = s.indexedUntil(now)
		for a, n := range s.activity {
			seen := q.Visible == nil || a.topic != "" && q.Visible.Match(a.topic)
			if seen && a.step == q.Kept() && (q.Topic == "" || a.topic == q.Topic) {
				q.Add(came.Points, a.at, n.arrived, n.returned)
			}
		}
		return nil
	})
	return came, err
}
