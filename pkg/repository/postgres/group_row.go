package postgres

import (
	"cmp"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

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

	// What operators say, an element a topic. Others: there are topics beside these.
	Noted  pq.StringArray `db:"noted"`
	Notes  pq.StringArray `db:"notes"`
	Links  pq.StringArray `db:"links"`
	Mutes  pq.BoolArray   `db:"mutes"`
	Others bool           `db:"others"`

	// What there is, an element a topic and status.
	Topics   pq.StringArray `db:"topics"`
	Statuses pq.StringArray `db:"statuses"`
	Messages pq.Int64Array  `db:"messages"`
	// What came, an element an hour: seconds since 1970.
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

// timeOfPlace is the time that a place in a list of groups stands for.
func timeOfPlace(key int64) time.Time { return time.UnixMicro(key).UTC() }
