package fake

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// errorGroup is what is kept of a group; its numbers are counted when they are
// asked for.
type errorGroup struct {
	entity.Fingerprint
	firstSeen   time.Time // zero while no message of it was stored
	lastSeen    time.Time
	regressedAt time.Time
	annotations map[string]entity.GroupAnnotation // by topic, or entity.AllTopics
}

// annotation is what holds for a topic.
func (g *errorGroup) annotation(topic string) entity.GroupAnnotation {
	if a, own := g.annotations[topic]; own {
		return a
	}
	return g.annotations[entity.AllTopics]
}

// groupArrival is that a message came, which stays known when the message is gone.
type groupArrival struct {
	group uuid.UUID
	topic string
	at    time.Time
}

// NoteFingerprints implements repository.Groups.
func (s *Store) NoteFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error {
	return s.step(ctx, "note fingerprints", func(time.Time) error {
		for _, f := range fingerprints {
			g := s.errorGroup(f.ID())
			if g.Class == "" && g.Title == "" && g.Rule == "" {
				g.Fingerprint = repository.BoundFingerprint(f)
			}
		}
		return nil
	})
}

// errorGroup is the group, made without a name where there is none.
func (s *Store) errorGroup(id uuid.UUID) *errorGroup {
	g := s.errorGroups[id]
	if g == nil {
		g = &errorGroup{annotations: map[string]entity.GroupAnnotation{}}
		s.errorGroups[id] = g
	}
	return g
}

// arrived notes that rows, which are in the store by now, have come into their
// groups.
func (s *Store) arrived(rows ...*row) {
	came := map[uuid.UUID][]*row{}
	for _, r := range rows {
		if group := r.message.Group; group != uuid.Nil {
			came[group] = append(came[group], r)
		}
	}
	for id, rows := range came {
		g := s.errorGroup(id)
		if !g.firstSeen.IsZero() && s.openBeside(id, rows) == 0 {
			g.regressedAt = rows[0].message.CreatedAt
		}
		for _, r := range rows {
			m := &r.message
			s.arrivals[m.ID] = &groupArrival{group: id, topic: m.OriginalTopic, at: m.CreatedAt}
			if g.firstSeen.IsZero() || m.CreatedAt.Before(g.firstSeen) {
				g.firstSeen = m.CreatedAt
			}
			if m.CreatedAt.After(g.lastSeen) {
				g.lastSeen = m.CreatedAt
			}
		}
	}
}

// openBeside counts the messages of a group that are not RESOLVED, without those
// that have just come.
func (s *Store) openBeside(group uuid.UUID, came []*row) int {
	n := 0
	for _, r := range s.rows {
		if r.message.Group == group && r.message.Status != entity.Resolved && !slices.Contains(came, r) {
			n++
		}
	}
	return n
}

// follow has an arrival go along with its message, which may have been given
// another topic. It is asked for before the message goes, and before arrivals are
// counted.
func (s *Store) follow(r *row) {
	if a := s.arrivals[r.message.ID]; a != nil {
		a.topic = r.message.OriginalTopic
	}
}

// ErrorGroups implements repository.Groups.
func (s *Store) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	var found []repository.ListedGroup
	err := s.step(ctx, "list error groups", func(time.Time) error {
		for _, g := range s.countGroups(q.Visible, q.Trend) {
			place := repository.GroupPlace{Key: placeOf(g.ErrorGroup, q.Sort), ID: g.ID}
			if g.listed(q) && (q.After == nil || comparePlaces(place, *q.After) < 0) {
				found = append(found, repository.ListedGroup{ErrorGroup: g.ErrorGroup, Place: place})
			}
		}
		slices.SortFunc(found, func(a, b repository.ListedGroup) int { return comparePlaces(b.Place, a.Place) })
		found = found[:min(q.Limit, len(found))]
		return nil
	})
	return found, err
}

func placeOf(g entity.ErrorGroup, sort repository.GroupSort) int64 {
	switch sort {
	case repository.GroupsByFirstSeen:
		return g.FirstSeen.UnixMicro()
	case repository.GroupsByOpen:
		return g.Open()
	case repository.GroupsByLastSeen:
	}
	return g.LastSeen.UnixMicro()
}

func comparePlaces(a, b repository.GroupPlace) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), bytes.Compare(a.ID[:], b.ID[:]))
}

// ErrorGroup implements repository.Groups.
func (s *Store) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	var found entity.ErrorGroup
	err := s.step(ctx, "get error group", func(time.Time) error {
		g := s.countGroups(visible, trend)[id]
		if g == nil {
			return &entity.GroupNotFoundError{ID: id}
		}
		found = g.ErrorGroup
		return nil
	})
	return found, err
}

// AnnotateGroup implements repository.Groups.
func (s *Store) AnnotateGroup(
	ctx context.Context, id uuid.UUID, a repository.Annotation, where *entity.TopicPatterns, cause entity.Cause,
) ([]string, error) {
	var topics []string
	err := s.step(ctx, "annotate error group", func(now time.Time) error {
		g := s.errorGroups[id]
		if g == nil || g.firstSeen.IsZero() {
			return &entity.GroupNotFoundError{ID: id}
		}
		topics = []string{entity.AllTopics}
		changed, about := append(slices.Collect(maps.Keys(g.annotations)), entity.AllTopics), []string(nil)
		if where != nil {
			topics = slices.DeleteFunc(s.arrivedIn(id, time.Time{}), func(topic string) bool { return !where.Match(topic) })
			changed, about = topics, topics
		}
		if len(topics) == 0 {
			return &entity.GroupNotFoundError{ID: id}
		}
		if a == (repository.Annotation{}) || s.performedOn(cause.Operation, entity.ActionAnnotate)[id] {
			return nil
		}
		for _, topic := range changed {
			g.annotations[topic] = annotated(g.annotation(topic), topic, a)
		}
		s.record(entity.AuditEntry{
			At: now, Action: entity.ActionAnnotate, Kind: entity.KindGroup, ObjectID: id, LastError: a.String(), Topics: strings.Join(about, ","), Cause: cause,
		})
		return nil
	})
	return topics, err
}

func annotated(said entity.GroupAnnotation, topic string, a repository.Annotation) entity.GroupAnnotation {
	said.Topic = topic
	if a.Note != nil {
		said.Note = *a.Note
	}
	if a.Link != nil {
		said.Link = *a.Link
	}
	if a.Muted != nil {
		said.Muted = *a.Muted
	}
	return said
}

// countedGroup is a group with its numbers, and those that its lists need besides.
type countedGroup struct {
	entity.ErrorGroup
	open map[string]int64 // messages that are not RESOLVED, by topic
	came map[string]bool  // the topics in which something arrived
}

// listed reports whether the group is what q asks for.
func (g *countedGroup) listed(q repository.GroupQuery) bool {
	if q.Topic == "" {
		return !q.Open || g.Open() > 0
	}
	if q.Open {
		return g.open[q.Topic] > 0
	}
	return slices.ContainsFunc(g.Topics, func(t entity.TopicShare) bool { return t.Topic == q.Topic })
}

// countGroups returns the groups of which something arrived in a visible topic.
func (s *Store) countGroups(visible *entity.TopicPatterns, trend repository.Trend) map[uuid.UUID]*countedGroup {
	seen := func(topic string) bool { return visible == nil || topic != "" && visible.Match(topic) }
	counted := s.countArrivals(seen, trend)
	shares := map[uuid.UUID]map[string]int64{}
	for _, r := range s.rows {
		m := &r.message
		g := counted[m.Group]
		if g == nil || !seen(m.OriginalTopic) {
			continue
		}
		g.Counts[m.Status]++
		if m.Status != entity.Resolved {
			g.open[m.OriginalTopic]++
		}
		if shares[m.Group] == nil {
			shares[m.Group] = map[string]int64{}
		}
		shares[m.Group][m.OriginalTopic]++
	}
	for id, topics := range shares {
		counted[id].Topics = sharesOf(topics)
	}
	return counted
}

func sharesOf(topics map[string]int64) []entity.TopicShare {
	var shares []entity.TopicShare
	for topic, n := range topics {
		shares = append(shares, entity.TopicShare{Topic: topic, Messages: n})
	}
	slices.SortFunc(shares, func(a, b entity.TopicShare) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.Topic, b.Topic))
	})
	return shares
}

// countArrivals makes the groups from what came, without what is there.
func (s *Store) countArrivals(seen func(topic string) bool, trend repository.Trend) map[uuid.UUID]*countedGroup {
	for _, r := range s.rows {
		s.follow(r)
	}
	counted := map[uuid.UUID]*countedGroup{}
	hours := map[uuid.UUID]map[time.Time]int64{}
	for _, a := range s.arrivals {
		if !seen(a.topic) {
			continue
		}
		g := counted[a.group]
		if g == nil {
			g = &countedGroup{ErrorGroup: s.errorGroups[a.group].entity(a.group), open: map[string]int64{}, came: map[string]bool{}}
			g.FirstSeen, g.LastSeen = a.at, a.at
			counted[a.group], hours[a.group] = g, map[time.Time]int64{}
		}
		g.Arrived++
		g.came[a.topic] = true
		if a.at.Before(g.FirstSeen) {
			g.FirstSeen = a.at
		}
		if a.at.After(g.LastSeen) {
			g.LastSeen = a.at
		}
		if hour := a.at.Truncate(time.Hour); !hour.Before(trend.Since.Truncate(time.Hour)) && hour.Before(trend.Until) {
			hours[a.group][hour]++
		}
	}
	for id, g := range counted {
		g.Trend = trendOf(hours[id])
		s.errorGroups[id].annotate(g)
		if g.LastSeen.Before(g.RegressedAt) { // it came back in a topic that is not visible
			g.RegressedAt = time.Time{}
		}
	}
	return counted
}

// annotate adds what is said of the topics in which it came.
func (g *errorGroup) annotate(counted *countedGroup) {
	var list []entity.GroupAnnotation
	own := 0
	for topic, a := range g.annotations {
		if counted.came[topic] {
			own++
		}
		if counted.came[topic] || topic == entity.AllTopics {
			list = append(list, a)
		}
	}
	counted.Annotate(list, own < len(counted.came))
}

// mutedIn reports whether nobody wants to hear of what came in any of the topics.
func (g *errorGroup) mutedIn(topics []string) bool {
	return !slices.ContainsFunc(topics, func(topic string) bool { return !g.annotation(topic).Muted })
}

func trendOf(hours map[time.Time]int64) []entity.HourCount {
	var trend []entity.HourCount
	for hour, n := range hours {
		trend = append(trend, entity.HourCount{Hour: hour, Messages: n})
	}
	slices.SortFunc(trend, func(a, b entity.HourCount) int { return a.Hour.Compare(b.Hour) })
	return trend
}

func (g *errorGroup) entity(id uuid.UUID) entity.ErrorGroup {
	out := entity.ErrorGroup{
		ID: id, Fingerprint: g.Fingerprint, RegressedAt: g.regressedAt, Counts: map[entity.Status]int64{},
	}
	out.Frames = slices.Clone(out.Frames)
	return out
}
