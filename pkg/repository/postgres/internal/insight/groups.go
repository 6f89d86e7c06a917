package insight

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Groups implements repository.Groups and repository.RecentGroups.
type Groups struct{ db *conn.DB }

// NewGroups returns Groups that send their statements to db.
func NewGroups(db *conn.DB) *Groups { return &Groups{db} }

// saveFingerprintsQuery inserts new error groups in the order of their ids. It does not write groups that are stored
// already, which most are. When the first messages of a group were stored before its fingerprint, the group has a row
// without a description, which this query fills in.
const saveFingerprintsQuery = `
	INSERT INTO dlq.error_groups AS g (id, class, title, frames, rule)
	SELECT DISTINCT ON (n.id) n.id, n.class, n.title, ARRAY(SELECT jsonb_array_elements_text(n.frames::jsonb)), n.rule
	FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS n (id, class, title, frames, rule)
	WHERE NOT EXISTS (SELECT FROM dlq.error_groups k WHERE k.id = n.id AND (k.class, k.title, k.rule) <> ('', '', ''))
	ORDER BY n.id
	ON CONFLICT (id) DO UPDATE SET class = excluded.class, title = excluded.title, frames = excluded.frames, rule = excluded.rule
	WHERE (g.class, g.title, g.rule) = ('', '', '') AND (excluded.class, excluded.title, excluded.rule) <> ('', '', '')`

// SaveFingerprints implements repository.Groups.
func (s *Groups) SaveFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error {
	if len(fingerprints) == 0 {
		return nil
	}
	c, err := newFingerprintColumns(fingerprints, func(f entity.Fingerprint) entity.Fingerprint { return f })
	if err != nil {
		return fmt.Errorf("store fingerprints: %w", err)
	}
	return conn.Translate("store fingerprints", s.db.Exec(ctx, saveFingerprintsQuery, c.args()...))
}

// fingerprintColumns contains fingerprints as the arguments of a statement, one array for each column.
type fingerprintColumns struct{ id, class, title, frames, rule *codec.Array }

func newFingerprintColumns[T any](list []T, of func(T) entity.Fingerprint) (fingerprintColumns, error) {
	n := len(list)
	c := fingerprintColumns{
		codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 32), codec.NewArray(codec.OIDText, n, 100), codec.NewArray(codec.OIDText, n, 200), codec.NewArray(codec.OIDText, n, 8),
	}
	for _, item := range list {
		f := of(item)
		kept := repository.BoundFingerprint(f)
		frames := make([]string, len(kept.Frames))
		for i, frame := range kept.Frames {
			frames[i] = codec.Clean(frame)
		}
		packed, err := json.Marshal(frames)
		if err != nil {
			return c, err
		}
		c.id.UUID(f.ID())
		c.class.Text(kept.Class)
		c.title.Text(kept.Title)
		c.frames.Text(string(packed))
		c.rule.Text(kept.Rule)
	}
	return c, nil
}

func (c fingerprintColumns) args() []any {
	return []any{c.id.Arg(), c.class.Arg(), c.title.Arg(), c.frames.Arg(), c.rule.Arg()}
}

// ErrorGroups implements repository.Groups.
func (s *Groups) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	visible, err := s.visibleGroups(ctx, q.Visible)
	if err != nil {
		return nil, conn.Translate("list error groups", err)
	}
	if visible.hides(q.Topic) || q.Topic != codec.Clean(q.Topic) {
		return nil, nil
	}
	groups, err := s.readGroups(ctx, pageOfGroups(q, visible))
	return groups, conn.Translate("list error groups", err)
}

// ErrorGroup implements repository.Groups.
func (s *Groups) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	seen, err := s.visibleGroups(ctx, visible)
	if err != nil {
		return entity.ErrorGroup{}, conn.Translate("get error group", err)
	}
	groups, err := s.readGroups(ctx, oneGroup(id, seen, trend))
	if err != nil {
		return entity.ErrorGroup{}, conn.Translate("get error group", err)
	}
	if len(groups) == 0 {
		return entity.ErrorGroup{}, &entity.GroupNotFoundError{ID: id}
	}
	return groups[0].ErrorGroup, nil
}

// seenTopics are the original topics that the caller may see.
type seenTopics struct {
	All   bool
	Names []string
}

func (t seenTopics) hides(topic string) bool {
	return topic != "" && !t.All && !slices.Contains(t.Names, topic)
}

// groupTopicsQuery returns each original topic in the counters once, by going from one topic to the next along an
// index.
const groupTopicsQuery = `
	WITH RECURSIVE step AS (
		(SELECT original_topic AS name FROM dlq.group_counters ORDER BY original_topic LIMIT 1)
		UNION ALL
		SELECT (SELECT n.original_topic FROM dlq.group_counters n WHERE n.original_topic > step.name
			ORDER BY n.original_topic LIMIT 1)
		FROM step WHERE step.name IS NOT NULL
	)
	SELECT name FROM step WHERE name <> ''`

// visibleGroups returns the original topics that the caller may see. They are read before the main query, because topic
// patterns cannot be matched in SQL. Topics whose messages were all deleted are included, because their counters still
// exist.
func (s *Groups) visibleGroups(ctx context.Context, visible *entity.TopicPatterns) (seenTopics, error) {
	if visible == nil {
		return seenTopics{All: true}, nil
	}
	var names []string
	if err := s.db.Select(ctx, &names, groupTopicsQuery); err != nil {
		return seenTopics{}, err
	}
	return seenTopics{Names: slices.DeleteFunc(names, func(name string) bool { return !visible.Match(name) })}, nil
}

func (s *Groups) readGroups(ctx context.Context, q *groupsQuery) ([]repository.ListedGroup, error) {
	var found []groupRow
	if err := s.db.Select(ctx, &found, q.Text, q.Args...); err != nil {
		return nil, err
	}
	groups := make([]repository.ListedGroup, len(found))
	for i := range found {
		g := found[i].group()
		groups[i] = repository.ListedGroup{ErrorGroup: g, Cursor: repository.GroupCursor{Key: found[i].Place, ID: g.ID}}
	}
	return groups, nil
}

// annotateQuery annotates an error group and returns the annotated topics. When the same operation has annotated the
// group before, it changes nothing. '*' stands for all topics. The first annotation of a single topic starts as a copy
// of the annotation for all topics.
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
		INSERT INTO dlq.audit (at, action, kind, object_id, last_error, topics, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), 'annotate', 'group', $1::uuid, $11::text, t.names, ` + audit.CauseFrom3 + `
		FROM (
			SELECT CASE WHEN $12::text[] IS NOT NULL THEN array_agg(original_topic ORDER BY original_topic) END AS names
			FROM changed HAVING count(*) > 0
		) t
	)
	SELECT t.topic FROM noted CROSS JOIN topics t WHERE $12::text[] IS NOT NULL OR t.topic = '*' ORDER BY 1`

// AnnotateGroup implements repository.Groups.
func (s *Groups) AnnotateGroup(
	ctx context.Context, id uuid.UUID, a repository.Annotation, where *entity.TopicPatterns, cause entity.AuditInfo,
) ([]string, error) {
	about, err := s.visibleGroups(ctx, where)
	if err != nil {
		return nil, conn.Translate("annotate error group", err)
	}
	args := append([]any{id, s.db.Clock()}, audit.CauseArgs(audit.WithOperation(cause))...)
	for _, text := range []*string{a.Note, a.Link} {
		var arg any
		if text != nil {
			arg = codec.Clean(*text)
		}
		args = append(args, arg)
	}
	var muted, names any
	if a.Muted != nil {
		muted = *a.Muted
	}
	if !about.All {
		names = codec.TextArray(about.Names)
	}
	var topics []string
	if err := s.db.Select(ctx, &topics, annotateQuery, append(args, muted, codec.Clean(a.String()), names)...); err != nil {
		return nil, conn.Translate("annotate error group", err)
	}
	if len(topics) == 0 {
		return nil, &entity.GroupNotFoundError{ID: id}
	}
	return topics, nil
}

// mutedIn returns the SQL condition that an error group is muted in a topic. The parameter row is the SQL name of a row
// with the columns group_id and original_topic.
func mutedIn(row string) string {
	return `coalesce((SELECT n.muted FROM dlq.group_annotations n
		WHERE n.group_id = ` + row + `.group_id AND n.original_topic IN (` + row + `.original_topic, '*')
		ORDER BY n.original_topic = '*' LIMIT 1), false)`
}

// arg adds an argument to the query and returns the SQL of its parameter, with a cast.
func (q *groupsQuery) arg(value any, cast string) string {
	q.Args = append(q.Args, value)
	return fmt.Sprintf("$%d::%s", len(q.Args), cast)
}

// seen returns the SQL condition that a counter c belongs to a topic that the caller may see; "" when the caller may
// see all topics. IS TRUE keeps PostgreSQL from using an index for it, because PostgreSQL would search the index once
// for each topic.
func (q *groupsQuery) seen(visible seenTopics) string {
	if visible.All {
		return ""
	}
	q.with = "seen AS MATERIALIZED (SELECT unnest(" + q.arg(codec.TextArray(visible.Names), "text[]") + ") AS name), "
	return " AND (c.original_topic IN (SELECT name FROM seen)) IS TRUE"
}

// exactLastSeen joins the exact time of the last arrival of the error group g, for callers who may see all topics. The
// time in the column last_seen of the group's own row may be up to a minute earlier.
const exactLastSeen = ` CROSS JOIN LATERAL (
		SELECT coalesce(max(s.last_seen), g.last_seen) AS last_seen FROM (
			SELECT max(c.last_seen) AS last_seen FROM dlq.group_arrivals c
			WHERE c.group_id = g.id AND c.hour = '-infinity' GROUP BY c.original_topic HAVING sum(c.messages) > 0
		) s
	) e`

// pickByTime selects the error groups of a page by their first or last arrival. It walks an index of these times, and
// tests each group until the page is full. When the caller may see only some topics, it uses the times of the group's
// arrivals in these topics, because times in other topics must not be revealed.
func (q *groupsQuery) pickByTime(asked repository.GroupQuery, seen string) string {
	from, column := q.from(seen), "g.last_seen"
	if asked.Sort == repository.GroupsByFirstSeen {
		column = "g.first_seen"
	}
	if seen != "" {
		column = "a" + column[1:]
	}
	conditions, limit := append(q.conditions(asked, seen, true), column+" IS NOT NULL"), q.arg(asked.Limit, "bigint")
	if seen == "" && asked.Sort == repository.GroupsByLastSeen {
		return q.pickByLastSeen(asked, conditions, "e.last_seen", limit)
	}
	conditions = append(conditions, q.after(asked, column)...)
	return fmt.Sprintf(`SELECT g.id, (extract(epoch FROM %[1]s) * 1000000)::bigint AS place FROM %[2]s
		WHERE %[3]s ORDER BY %[1]s DESC, g.id DESC LIMIT %[4]s`, column, from, strings.Join(conditions, " AND "), limit)
}

// pickByLastSeen selects the error groups of a page by their last arrival. The index contains the column last_seen of
// error groups, which may be up to a minute earlier than the last arrival. So the query first walks the index for as
// many groups as the page has, and reads their exact times. Then it sorts, by their exact times, all groups whose
// last_seen is at most a minute before the earliest of these times; no other group can belong to the page. order is the
// SQL of the exact time, with or without fractions of a second.
func (q *groupsQuery) pickByLastSeen(asked repository.GroupQuery, conditions []string, order, limit string) string {
	if asked.After != nil {
		conditions = append(conditions, "g.last_seen < "+q.arg(time.UnixMicro(asked.After.Key).UTC(), "timestamptz")+" + interval '1 second'")
	}
	where := strings.Join(append(conditions, q.after(asked, order)...), " AND ")
	return fmt.Sprintf(`SELECT g.id, (extract(epoch FROM %[4]s) * 1000000)::bigint AS place
		FROM dlq.error_groups g%[1]s
		WHERE %[2]s AND g.last_seen >= (
			SELECT min(walked.last_seen) - interval '1 minute' FROM (
				SELECT %[4]s AS last_seen FROM dlq.error_groups g%[1]s WHERE %[2]s ORDER BY g.last_seen DESC, g.id DESC LIMIT %[3]s
			) walked)
		ORDER BY %[4]s DESC, g.id DESC LIMIT %[3]s`, exactLastSeen, where, limit, order)
}

// after returns the SQL condition that a group comes after the cursor in the order of the column; it returns no
// condition for the first page.
func (q *groupsQuery) after(asked repository.GroupQuery, column string) []string {
	if asked.After == nil {
		return nil
	}
	return []string{fmt.Sprintf("(%s, g.id) < (%s, %s)", column,
		q.arg(time.UnixMicro(asked.After.Key).UTC(), "timestamptz"), q.arg(asked.After.ID, "uuid"))}
}

// from returns the SQL after FROM: the error groups and, if the caller may see only some topics, the times of the
// groups' arrivals in these topics.
func (q *groupsQuery) from(seen string) string {
	if seen == "" {
		return "dlq.error_groups g"
	}
	return "dlq.error_groups g JOIN (" + arrivalTimes(seen) + ") a ON a.group_id = g.id"
}

// conditions returns the SQL conditions of the request on the error groups. When walk is true, PostgreSQL can only test
// a condition on statuses, without a topic, for one group after the other; otherwise it may first find all matching
// groups.
func (q *groupsQuery) conditions(asked repository.GroupQuery, seen string, walk bool) []string {
	conditions, times := []string{"g.first_seen IS NOT NULL"}, "g"
	if seen != "" {
		times = "a"
	}
	switch {
	case asked.Topic != "":
		conditions = append(conditions, q.anyOf("c.original_topic = "+q.arg(asked.Topic, "text")+q.in(asked.Statuses)))
	case len(asked.Statuses) > 0 && walk:
		conditions = append(conditions, `(SELECT sum(c.messages) FROM dlq.group_counters c
			WHERE c.group_id = g.id`+q.in(asked.Statuses)+seen+`) > 0`)
	case len(asked.Statuses) > 0:
		conditions = append(conditions, q.anyOf("true"+q.in(asked.Statuses)+seen))
	}
	if !asked.FirstAfter.IsZero() {
		conditions = append(conditions, times+".first_seen > "+q.arg(asked.FirstAfter.UTC(), "timestamptz"))
	}
	if asked.Regressed {
		conditions = append(conditions, "g.regressed_at IS NOT NULL", q.anyOf("c.status <> 'RESOLVED'"+seen))
		if seen != "" {
			conditions = append(conditions, "a.last_seen >= g.regressed_at")
		}
	}
	return conditions
}

// in returns the SQL condition that a counter c has one of the statuses; "" when no statuses are given.
func (q *groupsQuery) in(statuses []entity.Status) string {
	if len(statuses) == 0 {
		return ""
	}
	names := make([]string, len(statuses))
	for i, status := range statuses {
		names[i] = string(status)
	}
	return " AND c.status = ANY (" + q.arg(codec.TextArray(names), "text[]") + ")"
}

// anyOf returns the SQL condition that the error group g has messages that are counted in those counters c for which
// the given condition is true.
func (q *groupsQuery) anyOf(condition string) string {
	return "g.id IN (SELECT c.group_id FROM dlq.group_counters c WHERE " + condition + " GROUP BY 1 HAVING sum(c.messages) > 0)"
}

// pickByOpen selects the error groups of a page by their number of open messages. It adds up the counters of all
// groups, because no index can contain a sum.
func (q *groupsQuery) pickByOpen(asked repository.GroupQuery, seen string) string {
	counted := q.in(asked.Statuses)
	if counted == "" {
		counted = " AND c.status <> 'RESOLVED'"
	}
	conditions := append(q.conditions(asked, seen, false), arrivedIn(seen)...)
	if asked.After != nil {
		conditions = append(conditions, fmt.Sprintf("(coalesce(o.open, 0), g.id) < (%s, %s)",
			q.arg(asked.After.Key, "bigint"), q.arg(asked.After.ID, "uuid")))
	}
	return `SELECT g.id, coalesce(o.open, 0) AS place FROM ` + q.from(seen) + ` LEFT JOIN (
			SELECT c.group_id, sum(c.messages)::bigint AS open FROM dlq.group_counters c
			WHERE true` + counted + seen + ` GROUP BY 1
		) o ON o.group_id = g.id
		WHERE ` + strings.Join(conditions, " AND ") + ` ORDER BY 2 DESC, g.id DESC LIMIT ` + q.arg(asked.Limit, "bigint")
}

// pickByRecent selects the error groups of a page by the number of their recent messages, and then by their last
// arrival. It adds up the recent messages from the table group_minutes. The column place combines the number and the
// time of the last arrival in one number; see repository.RecentKey. When all topics are visible, the groups without
// recent messages come from pickQuiet, which walks the index of the last arrival, so that these many groups need not be
// sorted.
func (q *groupsQuery) pickByRecent(asked repository.GroupQuery, seen string) string {
	const place = "SELECT g.id, (least(coalesce(n.messages, 0), 1073741823) << 33) + floor(extract(epoch FROM %s.last_seen))::bigint AS place FROM "
	q.with += `lately AS MATERIALIZED (
			SELECT c.group_id, sum(c.messages::int) AS messages FROM dlq.group_minutes c
			WHERE c.at >= ` + q.arg(asked.Recent.UTC(), "timestamptz") + seen + ` GROUP BY 1 HAVING sum(c.messages::int) > 0
		), `
	after := ""
	if asked.After != nil {
		after = fmt.Sprintf("WHERE (r.place, r.id) < (%s, %s)", q.arg(asked.After.Key, "bigint"), q.arg(asked.After.ID, "uuid"))
	}
	var all string
	if seen == "" {
		where := strings.Join(q.conditions(asked, seen, true), " AND ")
		all = fmt.Sprintf(place, "e") + "lately n JOIN dlq.error_groups g ON g.id = n.group_id" + exactLastSeen + " WHERE " + where +
			" UNION ALL SELECT w.id, w.place / 1000000 FROM (" + q.pickQuiet(asked, where) + ") w"
	} else {
		all = fmt.Sprintf(place, "a") + q.from(seen) + " LEFT JOIN lately n ON n.group_id = g.id WHERE " + strings.Join(q.conditions(asked, seen, false), " AND ")
	}
	return "SELECT r.id, r.place FROM (" + all + ") r " + after + " ORDER BY r.place DESC, r.id DESC LIMIT " + q.arg(asked.Limit, "bigint")
}

// pickQuiet selects those error groups that have no recent messages, by the time of their last arrival in whole
// seconds.
func (q *groupsQuery) pickQuiet(asked repository.GroupQuery, where string) string {
	if after := asked.After; after != nil && after.Key < repository.RecentKey(1, time.Unix(0, 0)) {
		asked.After = &repository.GroupCursor{Key: time.Unix(after.Key, 0).UnixMicro(), ID: after.ID}
	} else {
		asked.After = nil
	}
	return q.pickByLastSeen(asked, []string{where, "g.last_seen IS NOT NULL", "g.id NOT IN (SELECT group_id FROM lately)"}, "date_trunc('second', e.last_seen)", q.arg(asked.Limit, "bigint"))
}

// reads returns the complete query for error groups; the parameter pick is the SQL that selects the groups. The query
// reads the groups' descriptions, and adds up their counters and arrivals, which it finds by the id of the group. It
// returns lists as arrays, because JSON would take twice the time.
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
	minutes := "SELECT NULL::bigint[] AS minutes, NULL::bigint[] AS minute_messages"
	if !trend.Minutes.IsZero() {
		minutes = `
		SELECT array_agg(date_part('epoch', s.at)::bigint) AS minutes, array_agg(s.messages) AS minute_messages
		FROM (
			SELECT c.at, sum(c.messages::int) AS messages FROM dlq.group_minutes c
			WHERE c.group_id = p.id AND c.at >= ` + q.arg(trend.Minutes.UTC(), "timestamptz") + seen + `
			GROUP BY 1 HAVING sum(c.messages) > 0
		) s`
	}
	regressed := "g.regressed_at"
	if seen != "" {
		regressed = "CASE WHEN a.last_seen >= g.regressed_at THEN g.regressed_at END AS regressed_at"
	}
	q.Text = `
	WITH ` + q.with + `page AS MATERIALIZED (` + pick + `)
	SELECT p.id, p.place, g.class, g.title, g.frames, g.rule, ` + regressed + `, o.noted, o.notes, o.links, o.mutes, o.others,
		coalesce(a.first_seen, g.first_seen) AS first_seen, coalesce(a.last_seen, g.last_seen) AS last_seen, a.arrived,
		n.topics, n.statuses, n.messages, t.hours, t.hour_messages, m.minutes, m.minute_messages,
		(SELECT found_until FROM dlq.search_index) AS counted_until
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
	CROSS JOIN LATERAL (` + minutes + `) m
	ORDER BY p.place DESC, p.id DESC`
	return q
}

func (r *groupRow) group() entity.ErrorGroup {
	g := entity.ErrorGroup{
		ID:          r.ID,
		Fingerprint: entity.Fingerprint{Class: r.Class, Title: r.Title, Frames: r.Frames, Rule: r.Rule},
		FirstSeen:   codec.TimeOf(r.FirstSeen), LastSeen: codec.TimeOf(r.LastSeen), RegressedAt: codec.TimeOf(r.RegressedAt),
		Counts: map[entity.Status]int64{}, Arrived: r.Arrived, CountedUntil: codec.TimeOf(r.CountedUntil),
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
	for i, n := range r.MinuteMessages {
		g.Minutes = append(g.Minutes, entity.MinuteCount{Minute: time.Unix(r.Minutes[i], 0).UTC(), Messages: n})
	}
	slices.SortFunc(g.Minutes, func(a, b entity.MinuteCount) int { return a.Minute.Compare(b.Minute) })
	return g
}

// recentGroupsQuery counts new and regressed error groups; it reads only the newest entries of two indexes. It must be
// planned for its arguments: when PostgreSQL does not know the cut-off time, it expects a third of all groups to match,
// and reads all of them.
var recentGroupsQuery = `
	SELECT
		(SELECT count(*) FROM dlq.error_groups g
		 WHERE first_seen > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT (` + mutedEverywhere + `) AND id <> ALL ($3::uuid[])) AS new,
		(SELECT count(*) FROM dlq.error_groups g
		 WHERE regressed_at > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT (` + mutedEverywhere + `) AND id <> ALL ($3::uuid[])) AS regressed`

// mutedEverywhere is the SQL condition that the error group g is muted in every topic in which its messages ever
// arrived. It uses scalar subqueries, which PostgreSQL runs for each group; for EXISTS, PostgreSQL would read all
// annotations.
var mutedEverywhere = `(SELECT true FROM dlq.group_annotations n WHERE n.group_id = g.id AND n.muted LIMIT 1) IS NOT NULL AND (
		SELECT true FROM dlq.group_arrivals a
		WHERE a.group_id = g.id AND a.hour = '-infinity' AND a.messages > 0 AND NOT ` + mutedIn("a") + ` LIMIT 1) IS NULL`

// CountRecentGroups implements repository.RecentGroups.
func (s *Groups) CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (repository.RecentCount, error) {
	left := codec.NewArray(codec.OIDUUID, len(except), 16)
	for _, id := range except {
		left.UUID(id)
	}
	var found []struct {
		New       int64 `db:"new"`
		Regressed int64 `db:"regressed"`
	}
	if err := s.db.Select(ctx, &found, recentGroupsQuery, s.db.Clock(), within.Microseconds(), left.Arg()); err != nil {
		return repository.RecentCount{}, conn.Translate("count recent groups", err)
	}
	return repository.RecentCount{New: found[0].New, Regressed: found[0].Regressed}, nil
}
