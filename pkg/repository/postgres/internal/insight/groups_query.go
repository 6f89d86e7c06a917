package insight

import (
	"database/sql"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// groupsQuery is the text of a query for error groups, with its arguments. The text depends only on which conditions of
// a request are set, so there are only few different texts, and each is kept as a prepared statement.
type groupsQuery struct {
	Text string
	Args []any
	with string // common table expressions that come before the query
}

// pageOfGroups returns the query that selects the error groups of a page and then reads their data.
func pageOfGroups(q repository.GroupQuery, visible seenTopics) *groupsQuery {
	made := &groupsQuery{}
	seen := made.seen(visible)
	var pick string
	switch q.Sort {
	case repository.GroupsByOpen:
		pick = made.pickByOpen(q, seen)
	case repository.GroupsByRecent:
		pick = made.pickByRecent(q, seen)
	case repository.GroupsByLastSeen, repository.GroupsByFirstSeen:
		pick = made.pickByTime(q, seen)
	}
	return made.reads(pick, seen, q.Trend)
}

func oneGroup(id uuid.UUID, visible seenTopics, trend repository.Trend) *groupsQuery {
	made := &groupsQuery{}
	seen := made.seen(visible)
	conditions := append([]string{"g.first_seen IS NOT NULL", "g.id = " + made.arg(id, "uuid")}, arrivedIn(seen)...)
	return made.reads(`SELECT g.id, 0::bigint AS place FROM dlq.error_groups g WHERE `+strings.Join(conditions, " AND "), seen, trend)
}

// arrivedIn returns the condition that a message of the error group g arrived in a topic that the caller may see.
func arrivedIn(seen string) []string {
	if seen == "" {
		return nil
	}
	return []string{`(SELECT sum(c.messages) FROM dlq.group_arrivals c
		WHERE c.group_id = g.id AND c.hour = '-infinity'` + seen + `) > 0`}
}

// arrivalTimes returns the SQL for the times of each error group's first and last arrival in the topics that the caller
// may see.
func arrivalTimes(seen string) string {
	return `SELECT s.group_id, min(s.first_seen) AS first_seen, max(s.last_seen) AS last_seen FROM (
			SELECT c.group_id, min(c.first_seen) AS first_seen, max(c.last_seen) AS last_seen FROM dlq.group_arrivals c
			WHERE c.hour = '-infinity'` + seen + ` GROUP BY c.group_id, c.original_topic HAVING sum(c.messages) > 0
		) s GROUP BY 1`
}

// groupRow is a row of the query that the method reads returns. It describes an error group.
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

	// The annotations of the group: each list has one element for each annotated topic. Others reports whether the
	// group also has topics without an annotation.
	Noted  pq.StringArray `db:"noted"`
	Notes  pq.StringArray `db:"notes"`
	Links  pq.StringArray `db:"links"`
	Mutes  pq.BoolArray   `db:"mutes"`
	Others bool           `db:"others"`

	// The numbers of the group's messages: each list has one element for each topic and status.
	Topics   pq.StringArray `db:"topics"`
	Statuses pq.StringArray `db:"statuses"`
	Messages pq.Int64Array  `db:"messages"`
	// The group's arrivals by the hour: Hours contains the beginning of each hour in seconds since 1970, HourMessages
	// the number of messages that arrived in that hour.
	Hours        pq.Int64Array `db:"hours"`
	HourMessages pq.Int64Array `db:"hour_messages"`
	// The group's arrivals by the minute, in the same form as those by the hour.
	Minutes        pq.Int64Array `db:"minutes"`
	MinuteMessages pq.Int64Array `db:"minute_messages"`
	CountedUntil   sql.NullTime  `db:"counted_until"`
}
