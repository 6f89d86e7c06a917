package repository

import (
	"context"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Activity is how much comes in over time. It is kept beside the catalogue: a message
// is counted, once, when StoreDocuments first keeps a document of it, in the same
// step. One that is deleted before that is never counted; whatever becomes of it later
// changes nothing, and it stays with the original topic that it had then.
type Activity interface {
	// Arrivals returns how many messages were stored in each step of the time that is
	// asked for, those without any too, oldest first. Messages of unknown origin are
	// visible to those who see all topics, and are of no Topic. A topic that does not
	// exist, or is not visible, has points of nothing.
	Arrivals(ctx context.Context, q ArrivalsQuery) (Arrivals, error)
}

// ArrivalsQuery asks for the steps from Since on that begin before Until. Step is
// FineArrivalsStep, or a multiple of ArrivalsStep, and Since one of Step, counted from
// 1970 on. What is older than FineArrivalsLife, or ArrivalsLife, may be forgotten, and
// what was older when its document was made was never counted.
type ArrivalsQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	Topic   string                // only this original topic; "": all
	Since   time.Time
	Until   time.Time
	Step    time.Duration
}

// The steps that are told apart, and for how long it is kept at least how much came
// in each.
const (
	FineArrivalsStep = 5 * time.Minute
	FineArrivalsLife = 2 * time.Hour

	ArrivalsStep = time.Hour
	ArrivalsLife = 8 * 24 * time.Hour
)

// Fine reports whether the query is for steps that are shorter than ArrivalsStep.
func (q ArrivalsQuery) Fine() bool { return q.Step < ArrivalsStep }

// Arrivals is what came, and CataloguedUntil of the same moment: what came later may
// not be counted yet.
type Arrivals struct {
	Points []ArrivalsPoint
	Until  time.Time
}

// ArrivalsPoint is a step that begins at At. Returned are those of Arrived that came
// back from a replay.
type ArrivalsPoint struct {
	At       time.Time
	Arrived  int64
	Returned int64
}

// Empty returns the points that q asks for, with nothing in them, in UTC.
func (q ArrivalsQuery) Empty() []ArrivalsPoint {
	var points []ArrivalsPoint
	for at := q.Since.UTC(); at.Before(q.Until); at = at.Add(q.Step) {
		points = append(points, ArrivalsPoint{At: at})
	}
	return points
}

// Add puts what came at a moment into the point that it belongs to, if there is one.
func (q ArrivalsQuery) Add(points []ArrivalsPoint, at time.Time, arrived, returned int64) {
	if at.Before(q.Since) || !at.Before(q.Until) {
		return
	}
	p := &points[at.Sub(q.Since)/q.Step]
	p.Arrived += arrived
	p.Returned += returned
}
