package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// noteQuery inserts new groups in one order and does not touch known ones: most are known. A group whose messages
// came first has a row without a name, which is filled in.
const noteQuery = `
	INSERT INTO dlq.error_groups AS g (id, class, title, frames, rule)
	SELECT DISTINCT ON (n.id) n.id, n.class, n.title, ARRAY(SELECT jsonb_array_elements_text(n.frames::jsonb)), n.rule
	FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS n (id, class, title, frames, rule)
	WHERE NOT EXISTS (SELECT FROM dlq.error_groups k WHERE k.id = n.id AND (k.class, k.title, k.rule) <> ('', '', ''))
	ORDER BY n.id
	ON CONFLICT (id) DO UPDATE SET class = excluded.class, title = excluded.title, frames = excluded.frames, rule = excluded.rule
	WHERE (g.class, g.title, g.rule) = ('', '', '') AND (excluded.class, excluded.title, excluded.rule) <> ('', '', '')`

// NoteFingerprints implements repository.Groups.
func (s *Store) NoteFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error {
	if len(fingerprints) == 0 {
		return nil
	}
	c, err := newFingerprintColumns(fingerprints, func(f entity.Fingerprint) entity.Fingerprint { return f })
	if err != nil {
		return fmt.Errorf("store fingerprints: %w", err)
	}
	return translate("store fingerprints", s.exec(ctx, noteQuery, c.args()...))
}

// fingerprintColumns are fingerprints as arguments of a statement.
type fingerprintColumns struct{ id, class, title, frames, rule *column }

func newFingerprintColumns[T any](list []T, of func(T) entity.Fingerprint) (fingerprintColumns, error) {
	n := len(list)
	c := fingerprintColumns{
		newColumn(oidUUID, n, 16), newColumn(oidText, n, 32), newColumn(oidText, n, 100), newColumn(oidText, n, 200), newColumn(oidText, n, 8),
	}
	for _, item := range list {
		f := of(item)
		kept := repository.BoundFingerprint(f)
		frames := make([]string, len(kept.Frames))
		for i, frame := range kept.Frames {
			frames[i] = clean(frame)
		}
		packed, err := json.Marshal(frames)
		if err != nil {
			return c, err
		}
		c.id.uuid(f.ID())
		c.class.text(kept.Class)
		c.title.text(kept.Title)
		c.frames.text(string(packed))
		c.rule.text(kept.Rule)
	}
	return c, nil
}

func (c fingerprintColumns) args() []any {
	return []any{c.id.arg(), c.class.arg(), c.title.arg(), c.frames.arg(), c.rule.arg()}
}

// ErrorGroups implements repository.Groups.
func (s *Store) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	visible, err := s.visibleGroups(ctx, q.Visible)
	if err != nil {
		return nil, translate("list error groups", err)
	}
	if visible.hides(q.Topic) || q.Topic != clean(q.Topic) {
		return nil, nil
	}
	groups, err := s.readGroups(ctx, pageOfGroups(q, visible))
	return groups, translate("list error groups", err)
}

// ErrorGroup implements repository.Groups.
func (s *Store) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	seen, err := s.visibleGroups(ctx, visible)
	if err != nil {
		return entity.ErrorGroup{}, translate("get error group", err)
	}
	groups, err := s.readGroups(ctx, oneGroup(id, seen, trend))
	if err != nil {
		return entity.ErrorGroup{}, translate("get error group", err)
	}
	if len(groups) == 0 {
		return entity.ErrorGroup{}, &entity.GroupNotFoundError{ID: id}
	}
	return groups[0].ErrorGroup, nil
}

// seenTopics are the original topics that the caller may see.
type seenTopics struct {
	all   bool
	names []string
}

func (t seenTopics) hides(topic string) bool {
	return topic != "" && !t.all && !slices.Contains(t.names, topic)
}

// groupTopicsQuery steps from topic to topic along an index.
const groupTopicsQuery = `
	WITH RECURSIVE step AS (
		(SELECT original_topic AS name FROM dlq.group_counters ORDER BY original_topic LIMIT 1)
		UNION ALL
		SELECT (SELECT n.original_topic FROM dlq.group_counters n WHERE n.original_topic > step.name
			ORDER BY n.original_topic LIMIT 1)
		FROM step WHERE step.name IS NOT NULL
	)
	SELECT name FROM step WHERE name <> ''`

// visibleGroups reads the visible topics before the query, because SQL cannot match patterns. Counters outlive their
// messages, so topics without messages are included.
func (s *Store) visibleGroups(ctx context.Context, visible *entity.TopicPatterns) (seenTopics, error) {
	if visible == nil {
		return seenTopics{all: true}, nil
	}
	var names []string
	if err := s.selectRows(ctx, &names, groupTopicsQuery); err != nil {
		return seenTopics{}, err
	}
	return seenTopics{names: slices.DeleteFunc(names, func(name string) bool { return !visible.Match(name) })}, nil
}

func (s *Store) readGroups(ctx context.Context, q *groupsQuery) ([]repository.ListedGroup, error) {
	var found []groupRow
	if err := s.selectRows(ctx, &found, q.text, q.args...); err != nil {
		return nil, err
	}
	groups := make([]repository.ListedGroup, len(found))
	for i := range found {
		g := found[i].group()
		groups[i] = repository.ListedGroup{ErrorGroup: g, Place: repository.GroupPlace{Key: found[i].Place, ID: g.ID}}
	}
	return groups, nil
}

// annotateQuery changes nothing a second time for one operation, and returns the topics in which the group has
// messages. A topic's first annotation begins as a copy of that for all topics.
const annotateQuery = `
	WITH noted AS MATERIALIZED (
		SELECT id FROM dlq.error_groups WHERE id = $1::uuid AND first_seen IS NOT NULL
	), topics AS MATERIALIZED (
		SELECT a.original_topic AS topic FROM dlq.group_arrivals a
		WHERE $12::text[] IS NOT NULL AND a.group_id = $1::uuid AND a.hour = '-infinity' AND a.original_topic = ANY ($12::text[])
		GROUP BY 1 HAVING sum(a.messages) > 0
		UNION ALL
		SELECT '*' WHERE $12::text[] IS NULL
		UNION ALL
		SELECT n.original_topic FROM dlq.group_annotations n
		WHERE $12::text[] IS NULL AND n.group_id = $1::uuid AND n.original_topic <> '*'
	), changed AS (
		INSERT INTO dlq.group_annotations AS n (group_id, original_topic, note, link, muted)
		SELECT g.id, t.topic, coalesce($8::text, o.note, ''), coalesce($9::text, o.link, ''), coalesce($10::bool, o.muted, false)
		FROM noted g CROSS JOIN topics t
		LEFT JOIN dlq.group_annotations o ON o.group_id = g.id AND o.original_topic = '*'
		WHERE num_nonnulls($8::text, $9::text, $10::bool) > 0
		  AND NOT EXISTS (
			SELECT FROM dlq.audit a
			WHERE a.operation_id = $7::uuid AND a.action = 'annotate' AND (a.object_id = $1::uuid) IS TRUE)
		ORDER BY t.topic
		ON CONFLICT (group_id, original_topic) DO UPDATE
		SET note = coalesce($8::text, n.note), link = coalesce($9::text, n.link), muted = coalesce($10::bool, n.muted)
		RETURNING n.original_topic
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, last_error, topics, actor, reason, request_id, trace_id, operation_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), 'annotate', 'group', $1::uuid, $11::text, t.names, ` + causeFrom3 + `
		FROM (
			SELECT CASE WHEN $12::text[] IS NOT NULL THEN array_agg(original_topic ORDER BY original_topic) END AS names
			FROM changed HAVING count(*) > 0
		) t
	)
	SELECT t.topic FROM noted CROSS JOIN topics t WHERE $12::text[] IS NOT NULL OR t.topic = '*' ORDER BY 1`

// AnnotateGroup implements repository.Groups.
func (s *Store) AnnotateGroup(
	ctx context.Context, id uuid.UUID, a repository.Annotation, where *entity.TopicPatterns, cause entity.Cause,
) ([]string, error) {
	about, err := s.visibleGroups(ctx, where)
	if err != nil {
		return nil, translate("annotate error group", err)
	}
	args := append([]any{id, s.clock()}, causeArgs(withOperation(cause))...)
	for _, text := range []*string{a.Note, a.Link} {
		var arg any
		if text != nil {
			arg = clean(*text)
		}
		args = append(args, arg)
	}
	var muted, names any
	if a.Muted != nil {
		muted = *a.Muted
	}
	if !about.all {
		names = texts(about.names)
	}
	var topics []string
	if err := s.selectRows(ctx, &topics, annotateQuery, append(args, muted, clean(a.String()), names)...); err != nil {
		return nil, translate("annotate error group", err)
	}
	if len(topics) == 0 {
		return nil, &entity.GroupNotFoundError{ID: id}
	}
	return topics, nil
}

// mutedIn is the condition that a group is muted in a topic; the row of that name has both.
func mutedIn(row string) string {
	return `coalesce((SELECT n.muted FROM dlq.group_annotations n
		WHERE n.group_id = ` + row + `.group_id AND n.original_topic IN (` + row + `.original_topic, '*')
		ORDER BY n.original_topic = '*' LIMIT 1), false)`
}

// groupsQuery is the text and the arguments of a query for groups. There is one text for each combination of
// conditions, so they are prepared.
type groupsQuery struct {
	text string
	args []any
	with string // the common table expression that the conditions use
}

// arg adds a value and returns its parameter.
func (q *groupsQuery) arg(value any, cast string) string {
	q.args = append(q.args, value)
	return fmt.Sprintf("$%d::%s", len(q.args), cast)
}

// pageOfGroups selects the groups of a page, then reads their data.
func pageOfGroups(q repository.GroupQuery, visible seenTopics) *groupsQuery {
	made := &groupsQuery{}
	seen := made.seen(visible)
	var pick string
	if q.Sort == repository.GroupsByOpen {
		pick = made.pickByOpen(q, seen)
	} else {
		pick = made.pickByTime(q, seen)
	}
	pick += " LIMIT " + made.arg(q.Limit, "bigint")
	return made.reads(pick, seen, q.Trend)
}

func oneGroup(id uuid.UUID, visible seenTopics, trend repository.Trend) *groupsQuery {
	made := &groupsQuery{}
	seen := made.seen(visible)
	conditions := append([]string{"g.first_seen IS NOT NULL", "g.id = " + made.arg(id, "uuid")}, arrivedIn(seen)...)
	return made.reads(`SELECT g.id, 0::bigint AS place FROM dlq.error_groups g WHERE `+strings.Join(conditions, " AND "), seen, trend)
}

// seen is the condition that a counter c is of a visible topic; "" when all are. No index can be used for it, because
// the index would be searched once for each topic.
func (q *groupsQuery) seen(visible seenTopics) string {
	if visible.all {
		return ""
	}
	q.with = "seen AS MATERIALIZED (SELECT unnest(" + q.arg(texts(visible.names), "text[]") + ") AS name), "
	return " AND (c.original_topic IN (SELECT name FROM seen)) IS TRUE"
}

// arrivedIn is the condition that a message of a group g arrived in a visible topic.
func arrivedIn(seen string) []string {
	if seen == "" {
		return nil
	}
	return []string{`(SELECT sum(c.messages) FROM dlq.group_arrivals c
		WHERE c.group_id = g.id AND c.hour = '-infinity'` + seen + `) > 0`}
}

// pickByTime walks an index of the groups and tests each until the page is full. Where not all topics are visible, it
// reads each group's times in the visible topics only: the times of others must not be revealed.
func (q *groupsQuery) pickByTime(asked repository.GroupQuery, seen string) string {
	from, column := "dlq.error_groups g", "g.last_seen"
	if asked.Sort == repository.GroupsByFirstSeen {
		column = "g.first_seen"
	}
	if seen != "" {
		from += " JOIN (" + arrivalTimes(seen) + ") a ON a.group_id = g.id"
		column = "a" + column[1:]
	}
	conditions := []string{column + " IS NOT NULL"}
	if asked.After != nil {
		conditions = append(conditions, fmt.Sprintf("(%s, g.id) < (%s, %s)", column,
			q.arg(time.UnixMicro(asked.After.Key).UTC(), "timestamptz"), q.arg(asked.After.ID, "uuid")))
	}
	switch {
	case asked.Topic != "":
		conditions = append(conditions, q.ofTopic(asked))
	case asked.Open:
		conditions = append(conditions, `(SELECT sum(c.messages) FROM dlq.group_counters c
			WHERE c.group_id = g.id AND c.status <> 'RESOLVED'`+seen+`) > 0`)
	}
	return fmt.Sprintf(`SELECT g.id, (extract(epoch FROM %[1]s) * 1000000)::bigint AS place FROM %[3]s
		WHERE %[2]s ORDER BY %[1]s DESC, g.id DESC`, column, strings.Join(conditions, " AND "), from)
}

// arrivalTimes are the times of the first and the last arrival of each group in visible topics.
func arrivalTimes(seen string) string {
	return `SELECT s.group_id, min(s.first_seen) AS first_seen, max(s.last_seen) AS last_seen FROM (
			SELECT c.group_id, min(c.first_seen) AS first_seen, max(c.last_seen) AS last_seen FROM dlq.group_arrivals c
			WHERE c.hour = '-infinity'` + seen + ` GROUP BY c.group_id, c.original_topic HAVING sum(c.messages) > 0
		) s GROUP BY 1`
}

// ofTopic is the condition that a group has messages of a topic, open ones if asked.Open is set.
func (q *groupsQuery) ofTopic(asked repository.GroupQuery) string {
	condition := "c.original_topic = " + q.arg(asked.Topic, "text")
	if asked.Open {
		condition += " AND c.status <> 'RESOLVED'"
	}
	return "g.id IN (SELECT c.group_id FROM dlq.group_counters c WHERE " + condition +
		" GROUP BY 1 HAVING sum(c.messages) > 0)"
}

// pickByOpen adds up the counters of all groups: no index can hold a sum.
func (q *groupsQuery) pickByOpen(asked repository.GroupQuery, seen string) string {
	conditions := append([]string{"g.first_seen IS NOT NULL"}, arrivedIn(seen)...)
	if asked.After != nil {
		conditions = append(conditions, fmt.Sprintf("(coalesce(o.open, 0), g.id) < (%s, %s)",
			q.arg(asked.After.Key, "bigint"), q.arg(asked.After.ID, "uuid")))
	}
	if asked.Topic != "" {
		conditions = append(conditions, q.ofTopic(asked))
	}
	if asked.Open {
		conditions = append(conditions, "o.open > 0")
	}
	return `SELECT g.id, coalesce(o.open, 0) AS place FROM dlq.error_groups g LEFT JOIN (
			SELECT c.group_id, sum(c.messages)::bigint AS open FROM dlq.group_counters c
			WHERE c.status <> 'RESOLVED'` + seen + ` GROUP BY 1
		) o ON o.group_id = g.id
		WHERE ` + strings.Join(conditions, " AND ") + ` ORDER BY 2 DESC, g.id DESC`
}

// reads is the whole query for the groups that pick selects: names, and sums of counters and arrivals, found by the
// group. Lists are returned as arrays, which take half the work of JSON.
func (q *groupsQuery) reads(pick, seen string, trend repository.Trend) *groupsQuery {
	hours := "SELECT NULL::bigint[] AS hours, NULL::bigint[] AS hour_messages"
	if !trend.Until.IsZero() {
		hours = `
		SELECT array_agg(date_part('epoch', s.hour)::bigint) AS hours, array_agg(s.messages) AS hour_messages
		FROM (
			SELECT c.hour, sum(c.messages)::bigint AS messages FROM dlq.group_arrivals c
			WHERE c.group_id = p.id AND c.hour >= date_trunc('hour', ` + q.arg(trend.Since.UTC(), "timestamptz") + `, 'UTC')
			  AND c.hour < ` + q.arg(trend.Until.UTC(), "timestamptz") + seen + `
			GROUP BY 1 HAVING sum(c.messages) > 0
		) s`
	}
	regressed := "g.regressed_at"
	if seen != "" {
		regressed = "CASE WHEN a.last_seen >= g.regressed_at THEN g.regressed_at END AS regressed_at"
	}
	q.text = `
	WITH ` + q.with + `page AS MATERIALIZED (` + pick + `)
	SELECT p.id, p.place, g.class, g.title, g.frames, g.rule, ` + regressed + `, o.noted, o.notes, o.links, o.mutes, o.others,
		coalesce(a.first_seen, g.first_seen) AS first_seen, coalesce(a.last_seen, g.last_seen) AS last_seen, a.arrived,
		n.topics, n.statuses, n.messages, t.hours, t.hour_messages
	FROM page p JOIN dlq.error_groups g ON g.id = p.id
	CROSS JOIN LATERAL (
		SELECT min(s.first_seen) AS first_seen, max(s.last_seen) AS last_seen, coalesce(sum(s.arrived), 0)::bigint AS arrived
		FROM (
			SELECT min(c.first_seen) AS first_seen, max(c.last_seen) AS last_seen, sum(c.messages) AS arrived
			FROM dlq.group_arrivals c
			WHERE c.group_id = p.id AND c.hour = '-infinity'` + seen + `
			GROUP BY c.original_topic HAVING sum(c.messages) > 0
		) s
	) a
	CROSS JOIN LATERAL (
		SELECT array_agg(s.original_topic) AS topics, array_agg(s.status) AS statuses, array_agg(s.messages) AS messages
		FROM (
			SELECT c.original_topic, c.status, sum(c.messages)::bigint AS messages FROM dlq.group_counters c
			WHERE c.group_id = p.id` + seen + ` GROUP BY 1, 2 HAVING sum(c.messages) > 0
		) s
	) n
	CROSS JOIN LATERAL (
		SELECT array_agg(n.original_topic) AS noted, array_agg(n.note) AS notes, array_agg(n.link) AS links, array_agg(n.muted) AS mutes,
			count(*) FILTER (WHERE n.original_topic <> '*') < (
				SELECT count(*) FROM (
					SELECT FROM dlq.group_arrivals c WHERE c.group_id = p.id AND c.hour = '-infinity'` + seen + `
					GROUP BY c.original_topic HAVING sum(c.messages) > 0
				) t
			) AS others
		FROM (
			SELECT c.* FROM dlq.group_annotations c
			WHERE c.group_id = p.id AND (c.original_topic = '*' OR EXISTS (
				SELECT FROM dlq.group_arrivals a WHERE a.group_id = p.id AND a.hour = '-infinity' AND a.original_topic = c.original_topic
				HAVING sum(a.messages) > 0)` + seen + `)
		) n
	) o
	CROSS JOIN LATERAL (` + hours + `) t
	ORDER BY p.place DESC, p.id DESC`
	return q
}

// groupRow is an error group as readGroups selects it.
type groupRow struct {
	ID          uuid.UUID      `db:"id"`
	Place       int64          `db:"place"`
	Class       string         `db:"class"`
	Title       string         `db:"title"`
	Frames      pq.StringArray `db:"frames"`
	Rule        string         `db:"rule"`
	FirstSeen   sql.NullTime   `db:"first_seen"`
	LastSeen    sql.NullTime   `db:"last_seen"`
	RegressedAt sql.NullTime   `db:"regressed_at"`
	Arrived     int64          `db:"arrived"`

	// Annotations, one element a topic. Others: the group has topics without one.
	Noted  pq.StringArray `db:"noted"`
	Notes  pq.StringArray `db:"notes"`
	Links  pq.StringArray `db:"links"`
	Mutes  pq.BoolArray   `db:"mutes"`
	Others bool           `db:"others"`

	// Counts, one element a topic and status.
	Topics   pq.StringArray `db:"topics"`
	Statuses pq.StringArray `db:"statuses"`
	Messages pq.Int64Array  `db:"messages"`
	// Arrivals, one element an hour: seconds since 1970.
	Hours        pq.Int64Array `db:"hours"`
	HourMessages pq.Int64Array `db:"hour_messages"`
}

func (r *groupRow) group() entity.ErrorGroup {
	g := entity.ErrorGroup{
		ID:          r.ID,
		Fingerprint: entity.Fingerprint{Class: r.Class, Title: r.Title, Frames: r.Frames, Rule: r.Rule},
		FirstSeen:   moment(r.FirstSeen), LastSeen: moment(r.LastSeen), RegressedAt: moment(r.RegressedAt),
		Counts: map[entity.Status]int64{}, Arrived: r.Arrived,
	}
	var annotations []entity.GroupAnnotation
	for i, topic := range r.Noted {
		annotations = append(annotations, entity.GroupAnnotation{Topic: topic, Note: r.Notes[i], Link: r.Links[i], Muted: r.Mutes[i]})
	}
	g.Annotate(annotations, r.Others)
	if len(g.Frames) == 0 {
		g.Frames = nil
	}
	shares := map[string]int64{}
	for i, n := range r.Messages {
		g.Counts[entity.Status(r.Statuses[i])] += n
		shares[r.Topics[i]] += n
	}
	for topic, n := range shares {
		g.Topics = append(g.Topics, entity.TopicShare{Topic: topic, Messages: n})
	}
	slices.SortFunc(g.Topics, func(a, b entity.TopicShare) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.Topic, b.Topic))
	})
	for i, n := range r.HourMessages {
		g.Trend = append(g.Trend, entity.HourCount{Hour: time.Unix(r.Hours[i], 0).UTC(), Messages: n})
	}
	slices.SortFunc(g.Trend, func(a, b entity.HourCount) int { return a.Hour.Compare(b.Hour) })
	return g
}

// recentGroupsQuery reads the ends of two indexes. The planner must know the cut-off: otherwise it expects a third of
// all groups and reads them all.
var recentGroupsQuery = `
	SELECT
		(SELECT count(*) FROM dlq.error_groups g
		 WHERE first_seen > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT (` + mutedEverywhere + `) AND id <> ALL ($3::uuid[])) AS new,
		(SELECT count(*) FROM dlq.error_groups g
		 WHERE regressed_at > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT (` + mutedEverywhere + `) AND id <> ALL ($3::uuid[])) AS regressed`

// mutedEverywhere is the condition that a group g is muted in every topic in which it ever arrived. It is tested for
// each group separately: for an EXISTS the planner would read all annotations.
var mutedEverywhere = `(SELECT true FROM dlq.group_annotations n WHERE n.group_id = g.id AND n.muted LIMIT 1) IS NOT NULL AND (
		SELECT true FROM dlq.group_arrivals a
		WHERE a.group_id = g.id AND a.hour = '-infinity' AND a.messages > 0 AND NOT ` + mutedIn("a") + ` LIMIT 1) IS NULL`

// CountRecentGroups implements repository.RecentGroups.
func (s *Store) CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (repository.RecentCount, error) {
	left := newColumn(oidUUID, len(except), 16)
	for _, id := range except {
		left.uuid(id)
	}
	var found []struct {
		New       int64 `db:"new"`
		Regressed int64 `db:"regressed"`
	}
	if err := s.selectRows(ctx, &found, recentGroupsQuery, s.clock(), within.Microseconds(), left.arg()); err != nil {
		return repository.RecentCount{}, translate("count recent groups", err)
	}
	return repository.RecentCount{New: found[0].New, Regressed: found[0].Regressed}, nil
}
