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
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// errorGroup is the stored part of an error group; its counts are computed when they are read.
type errorGroup struct {
	entity.Fingerprint
	firstSeen   time.Time // zero until a message of the group is stored
	lastSeen    time.Time
	regressedAt time.Time
	annotations map[string]entity.GroupAnnotation // notes and other annotations by topic; under entity.AllTopics those for all other topics
}

// annotation returns the annotation that applies to a topic.
func (g *errorGroup) annotation(topic string) entity.GroupAnnotation {
	if a, own := g.annotations[topic]; own {
		return a
	}
	return g.annotations[entity.AllTopics]
}

// groupArrival is the arrival of a message. It stays when the message is deleted.
type groupArrival struct {
	group uuid.UUID
	topic string
	at    time.Time
}

// SaveFingerprints implements repository.Groups.
func (s *Store) SaveFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error {
	return s.Step(ctx, "store fingerprints", func(time.Time) error {
		for _, f := range fingerprints {
			g := s.errorGroup(f.ID())
			if g.Class == "" && g.Title == "" && g.Rule == "" {
				g.Fingerprint = repository.BoundFingerprint(f)
			}
		}
		return nil
	})
}

// errorGroup returns the error group with this id. If the error group does not exist, it is created without a
// description.
func (s *Store) errorGroup(id uuid.UUID) *errorGroup {
	g := s.errorGroups[id]
	if g == nil {
		g = &errorGroup{annotations: map[string]entity.GroupAnnotation{}}
		s.errorGroups[id] = g
	}
	return g
}

// arrived remembers the arrivals of messages that were just stored with an error group.
func (s *Store) arrived(rows ...*row) {
	came := map[uuid.UUID][]*row{}
	for _, r := range rows {
		if group := r.Message.Group; group != uuid.Nil {
			came[group] = append(came[group], r)
		}
	}
	for id, rows := range came {
		g := s.errorGroup(id)
		if !g.firstSeen.IsZero() && s.openBeside(id, rows) == 0 {
			g.regressedAt = rows[0].Message.CreatedAt
		}
		for _, r := range rows {
			m := &r.Message
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

// openBeside counts the messages of an error group that are not RESOLVED. It leaves out the messages in came, which
// have just arrived.
func (s *Store) openBeside(group uuid.UUID, came []*row) int {
	n := 0
	for _, r := range s.Rows {
		if r.Message.Group == group && r.Message.Status != entity.Resolved && !slices.Contains(came, r) {
			n++
		}
	}
	return n
}

// follow copies the present original topic of a message to the message's groupArrival, because the original topic may
// have changed. It must be called before the message is deleted, and before arrivals are counted.
func (s *Store) follow(r *row) {
	if a := s.arrivals[r.Message.ID]; a != nil {
		a.topic = r.Message.OriginalTopic
	}
}

// ErrorGroups implements repository.Groups.
func (s *Store) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	var found []repository.ListedGroup
	err := s.Step(ctx, "list error groups", func(now time.Time) error {
		until := s.indexedUntil(now)
		for _, g := range s.countGroups(q.Visible, q.Trend) {
			g.CountedUntil = until
			place := repository.GroupCursor{Key: s.keyOf(g.ErrorGroup, q), ID: g.ID}
			if g.listed(q) && (q.After == nil || compareCursors(place, *q.After) < 0) {
				found = append(found, repository.ListedGroup{ErrorGroup: g.ErrorGroup, Cursor: place})
			}
		}
		slices.SortFunc(found, func(a, b repository.ListedGroup) int { return compareCursors(b.Cursor, a.Cursor) })
		found = found[:min(q.Limit, len(found))]
		return nil
	})
	return found, err
}

func (s *Store) keyOf(g entity.ErrorGroup, q repository.GroupQuery) int64 {
	switch q.Sort {
	case repository.GroupsByFirstSeen:
		return g.FirstSeen.UnixMicro()
	case repository.GroupsByOpen:
		return countIn(g.Counts, q.Statuses)
	case repository.GroupsByRecent:
		var arrived int64
		for _, m := range s.minutesOf(g.ID, q.Recent, seenIn(q.Visible)) {
			arrived += m.Messages
		}
		return repository.RecentKey(arrived, g.LastSeen)
	case repository.GroupsByLastSeen:
	}
	return g.LastSeen.UnixMicro()
}

// countIn adds up the counts of the given statuses, or of all statuses except RESOLVED when no statuses are given.
func countIn(counts map[entity.Status]int64, statuses []entity.Status) (n int64) {
	for status, messages := range counts {
		if slices.Contains(statuses, status) || len(statuses) == 0 && status != entity.Resolved {
			n += messages
		}
	}
	return n
}

// seenIn returns a function that reports whether a topic is visible.
func seenIn(visible *entity.TopicPatterns) func(topic string) bool {
	return func(topic string) bool { return visible == nil || topic != "" && visible.Match(topic) }
}

// groupMinute is the key of the counts by the minute: an error group, an original topic and a minute.
type groupMinute struct {
	group uuid.UUID
	topic string
	at    time.Time
}

// minutesOf returns the counts by the minute of an error group, from the time since on, in the topics for which the
// function seen returns true.
func (s *Store) minutesOf(group uuid.UUID, since time.Time, seen func(topic string) bool) []entity.MinuteCount {
	sums := map[time.Time]int64{}
	for m, n := range s.minutes {
		if m.group == group && !m.at.Before(since) && seen(m.topic) {
			sums[m.at] += n
		}
	}
	var list []entity.MinuteCount
	for at, n := range sums {
		if n > 0 {
			list = append(list, entity.MinuteCount{Minute: at, Messages: n})
		}
	}
	slices.SortFunc(list, func(a, b entity.MinuteCount) int { return a.Minute.Compare(b.Minute) })
	return list
}

func compareCursors(a, b repository.GroupCursor) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), bytes.Compare(a.ID[:], b.ID[:]))
}

// ErrorGroup implements repository.Groups.
func (s *Store) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	var found entity.ErrorGroup
	err := s.Step(ctx, "get error group", func(now time.Time) error {
		g := s.countGroups(visible, trend)[id]
		if g == nil {
			return &entity.GroupNotFoundError{ID: id}
		}
		found = g.ErrorGroup
		found.CountedUntil = s.indexedUntil(now)
		return nil
	})
	return found, err
}

// AnnotateGroup implements repository.Groups.
func (s *Store) AnnotateGroup(
	ctx context.Context, id uuid.UUID, a repository.Annotation, where *entity.TopicPatterns, cause entity.AuditInfo,
) ([]string, error) {
	var topics []string
	err := s.Step(ctx, "annotate error group", func(now time.Time) error {
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
		if a == (repository.Annotation{}) || s.Did(cause.Operation, entity.ActionAnnotate)[id] {
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

// countedGroup is an error group with its counts, and with the topics by which lists of groups are filtered.
type countedGroup struct {
	entity.ErrorGroup
	stored map[string]map[entity.Status]int64 // stored messages by topic and status
	came   map[string]bool                    // topics in which messages of the group arrived
}

// listed reports whether the group matches q, apart from the cursor.
func (g *countedGroup) listed(q repository.GroupQuery) bool {
	if q.Regressed && !g.ErrorGroup.Regressed() || !q.FirstAfter.IsZero() && !g.FirstSeen.After(q.FirstAfter) {
		return false
	}
	counts := g.Counts
	if q.Topic != "" {
		counts = g.stored[q.Topic]
	}
	if len(q.Statuses) > 0 {
		return countIn(counts, q.Statuses) > 0
	}
	return q.Topic == "" || len(counts) > 0
}

// countGroups returns the error groups that have arrivals in a visible topic.
func (s *Store) countGroups(visible *entity.TopicPatterns, trend repository.Trend) map[uuid.UUID]*countedGroup {
	seen := seenIn(visible)
	counted := s.countArrivals(seen, trend)
	shares := map[uuid.UUID]map[string]int64{}
	for _, r := range s.Rows {
		m := &r.Message
		g := counted[m.Group]
		if g == nil || !seen(m.OriginalTopic) {
			continue
		}
		g.Counts[m.Status]++
		if g.stored[m.OriginalTopic] == nil {
			g.stored[m.OriginalTopic] = map[entity.Status]int64{}
		}
		g.stored[m.OriginalTopic][m.Status]++
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

// countArrivals returns the error groups with the counts of their arrivals. The caller adds the counts of stored
// messages.
func (s *Store) countArrivals(seen func(topic string) bool, trend repository.Trend) map[uuid.UUID]*countedGroup {
	for _, r := range s.Rows {
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
			g = &countedGroup{ErrorGroup: s.errorGroups[a.group].entity(a.group), stored: map[string]map[entity.Status]int64{}, came: map[string]bool{}}
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
		if !trend.Minutes.IsZero() {
			g.Minutes = s.minutesOf(id, trend.Minutes, seen)
		}
		s.errorGroups[id].annotate(g)
		if g.LastSeen.Before(g.RegressedAt) { // the message with which the group regressed is in a topic that is not visible
			g.RegressedAt = time.Time{}
		}
	}
	return counted
}

// annotate copies to the parameter counted the annotations of the error group for the topics in which messages of the
// group arrived.
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

// mutedIn reports whether the group is muted in each of these topics.
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

// CountRecentGroups implements repository.RecentGroups.
func (s *Store) CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (repository.RecentCount, error) {
	var n repository.RecentCount
	err := s.Step(ctx, "count recent groups", func(now time.Time) error {
		since := now.Add(-within)
		for id, g := range s.errorGroups {
			if g.mutedIn(s.arrivedIn(id, time.Time{})) || slices.Contains(except, id) {
				continue
			}
			if g.firstSeen.After(since) {
				n.New++
			}
			if g.regressedAt.After(since) {
				n.Regressed++
			}
		}
		return nil
	})
	return n, err
}

// groupLimit counts the error groups that a dead-letter topic has created in one hour.
type groupLimit struct {
	hour    time.Time
	created int
	refused bool // a group was refused, so the topic may have messages in the group entity.Unclassified
}

// AdmitFingerprints implements repository.Groups.
func (s *Store) AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error) {
	var admitted []entity.Fingerprint
	var refused []repository.TopicFailure
	err := s.Step(ctx, "admit error groups", func(now time.Time) error {
		admits := map[uuid.UUID]bool{}
		for _, f := range failures {
			id := f.ID()
			if s.errorGroups[id] == nil && !admits[id] && !s.groupLimit(f.DLQTopic, now).take() {
				refused = append(refused, f)
				continue
			}
			admits[id] = true
			admitted = append(admitted, f.Fingerprint)
		}
		refused = slices.DeleteFunc(refused, func(f repository.TopicFailure) bool { return admits[f.ID()] })
		for _, f := range refused {
			admitted = append(admitted, entity.Unclassified(f.DLQTopic))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refused, s.SaveFingerprints(ctx, admitted)
}

// groupLimit returns the groupLimit of a dead-letter topic for the present hour.
func (s *Store) groupLimit(topic string, now time.Time) *groupLimit {
	l := s.groupLimits[topic]
	if l == nil {
		l = &groupLimit{}
		s.groupLimits[topic] = l
	}
	if hour := now.Truncate(time.Hour); !l.hour.Equal(hour) {
		l.hour, l.created = hour, 0
	}
	return l
}

// take reports whether the dead-letter topic may create one more error group in this hour. If so, take counts the error
// group; otherwise it stores that an error group was refused.
func (l *groupLimit) take() bool {
	if l.created >= repository.MaxNewGroups {
		l.refused = true
		return false
	}
	l.created++
	return true
}

// Unclassified implements repository.SearchIndex.
func (s *Store) Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error) {
	var messages []entity.Message
	err := s.Step(ctx, "find unclassified messages", func(now time.Time) error {
		for _, topic := range slices.Sorted(maps.Keys(s.groupLimits)) {
			l := s.groupLimit(topic, now)
			if !l.refused || l.created >= repository.MaxNewGroups {
				continue
			}
			group := entity.Unclassified(topic).ID()
			for _, r := range memory.OldestFirst(s.Rows, func(m *entity.Message) bool { return m.Group == group }) {
				m := r.Loaded(0)
				maxBytes -= memory.Size(&m.Record) + int64(len(m.ErrorMessage))
				if len(messages) >= limit || maxBytes < 0 && len(messages) > 0 {
					return nil
				}
				messages = append(messages, m)
			}
		}
		return nil
	})
	return messages, err
}

// Classify implements repository.SearchIndex.
func (s *Store) Classify(ctx context.Context, moves []repository.Classification) error {
	return s.Step(ctx, "classify messages", func(time.Time) error {
		for _, move := range moves {
			r := s.Rows[move.MessageID]
			if r == nil || r.Message.Group != entity.Unclassified(move.DLQTopic).ID() {
				continue
			}
			if s.documents[move.MessageID] != nil {
				at := groupMinute{r.Message.Group, r.Message.OriginalTopic, r.Message.CreatedAt.UTC().Truncate(time.Minute)}
				s.minutes[at]--
				at.group = move.Group
				s.minutes[at]++
			}
			r.Message.Group = move.Group
			s.arrived(r)
		}
		return nil
	})
}
