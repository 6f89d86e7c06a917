package search

import (
	"context"
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const (
	defaultFacetValues = 10
	maxFacetValues     = 1000

	// maxRepeatedFilter is the size in bytes up to which values repeat the filter; beyond it they have no filter.
	maxRepeatedFilter = 2 << 10

	formatJSON = "json"
)

// Facets answers with the values that occur in the messages which match a filter, and counts the messages of each
// value.
type Facets struct {
	Engine   FacetEngine
	Database FacetDatabase
	Unmask   unmask.Rules
	Now      func() time.Time
}

// FacetEngine counts the values of the messages that match a filter. It may stop early, and its result then says so.
// Every value that it counts must have a term in the search index. Only then does a redrive that selects this value
// include the counted messages.
type FacetEngine interface {
	Facets(ctx context.Context, q repository.FacetQuery) (repository.Facets, error)
}

// FacetDatabase counts messages, and knows up to which time the search index is complete.
type FacetDatabase interface {
	CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error)
	request.Index
}

// facetOrder is a request for facets.
type facetOrder struct {
	conditions request.FilterOrder
	query      repository.FacetQuery
	format     string
}

// Get sends the facets of the live messages that match a filter.
func (h Facets) Get(w http.ResponseWriter, r *http.Request) error {
	order, err := h.read(r)
	if err != nil {
		return err
	}
	asOf, err := h.moment(r.Context(), order.query)
	if err != nil {
		return err
	}
	if until := order.query.Filter.CreatedBefore; until.IsZero() || until.After(asOf) {
		order.query.Filter.CreatedBefore = asOf
		order.conditions, _ = order.conditions.With("created_before", *wire.Stamp(asOf))
	}
	found, err := h.Engine.Facets(r.Context(), order.query)
	if err != nil {
		return request.TooBroad(err)
	}
	if !found.Before.IsZero() {
		asOf = found.Before
		order.query.Filter.CreatedBefore = asOf
		order.conditions, _ = order.conditions.With("created_before", *wire.Stamp(asOf))
	}
	matched, err := h.matched(r.Context(), order.query.Filter, found)
	if err != nil {
		return request.TooBroad(err)
	}
	shown := order.show(found)
	shown.AsOf, shown.Matched = wire.Stamp(asOf), matched
	if order.format == formatCSV {
		w.Header().Set("Content-Disposition", `attachment; filename="facets.csv"`)
		respond.Body(w, http.StatusOK, "text/csv; charset=utf-8; header=present", shown.CSV())
		return nil
	}
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

func (h Facets) read(r *http.Request) (facetOrder, error) {
	var p request.Problems
	values := r.URL.Query()
	order := facetOrder{conditions: request.ReadFilterOrder(values, &p)}
	q := repository.FacetQuery{
		Filter: order.conditions.Read("", &p), By: request.ReadFacetKeys(values, &p), Sum: request.ReadPath(values, "sum", &p),
	}
	p.RefuseSlowWords("", q.Filter)
	if !values.Has("by") && !values.Has("sum") {
		q.By = []repository.FacetKey{{Field: repository.FacetTopic}}
	}
	var err error
	q.Limit, err = request.Int(values, "limit", defaultFacetValues, maxFacetValues)
	p.Add(err)
	order.format, err = request.Word(values, "format", []string{formatJSON, formatCSV})
	p.Add(err)
	if err := p.Err(); err != nil {
		return order, err
	}
	if err := h.refuseMasked(q); err != nil {
		return order, err
	}
	err = h.Unmask.Narrow(r, &q.Filter)
	order.query = q
	return order, err
}

// refuseMasked refuses keys whose values are masked, even for principals with the grant unmask.
func (h Facets) refuseMasked(q repository.FacetQuery) error {
	for _, key := range q.By {
		if err := h.Unmask.RefuseMasked("by", condition(key)); err != nil {
			return err
		}
	}
	if q.Sum == "" {
		return nil
	}
	return h.Unmask.RefuseMasked("sum", condition(repository.FacetKey{Path: q.Sum}))
}

// condition returns a filter with one condition, on the field of the facet key; without a condition for a field that
// needs no check. It shows which checks a filter by this facet must pass; the value of the condition has no meaning.
func condition(key repository.FacetKey) (f entity.Filter) {
	const some = "x"
	switch {
	case key.Header != "":
		f.Headers = []entity.HeaderMatch{{Name: key.Header, Value: []byte(some)}}
	case key.Path != "":
		f.Fields = []entity.FieldMatch{{Path: key.Path, Values: []string{some}}}
	case key.Field == repository.FacetRecordKey:
		f.Key = []byte(some)
	case key.Field == repository.FacetErrorClass:
		f.ErrorClass = some
	case key.Field == repository.FacetConsumerGroup:
		f.ConsumerGroup = some
	}
	return f
}

// moment returns a time such that all messages that were created before it are stored. If the filter or a redrive by a
// value needs the search index, they are also indexed. Only messages that were created before this time are counted.
func (h Facets) moment(ctx context.Context, q repository.FacetQuery) (time.Time, error) {
	asOf := h.Now().UTC().Add(-repository.IndexSettles)
	indexed := q.Filter
	for _, key := range q.By {
		if f := condition(key); f.NeedsSearchIndex() {
			f.CreatedBefore = q.Filter.CreatedBefore
			indexed = f
		}
	}
	searched, err := request.QueryIndex(ctx, h.Database, h.Now, indexed)
	if err != nil {
		return asOf, err
	}
	if err := searched.TooLate("by"); err != nil {
		return asOf, err
	}
	if until := searched.Until(); !until.IsZero() && until.Before(asOf) {
		asOf = until
	}
	return asOf.Truncate(time.Millisecond), nil
}

// matched returns how many messages match the filter, which may be more than the facets have counted.
func (h Facets) matched(ctx context.Context, f entity.Filter, found repository.Facets) (wire.Count, error) {
	switch {
	case found.All:
		return wire.Count{Messages: found.Counted, Exact: true}, nil
	case f.Visible != nil: // the caller sees only some topics, and an estimate could reveal messages of other topics
		return wire.Count{Messages: found.Counted, AtLeast: true}, nil
	}
	n, err := h.Database.CountMatching(ctx, repository.CountQuery{Filter: f, How: repository.CountExact})
	return wire.Count{Messages: max(n.Messages, found.Counted), Exact: n.Exact, AtLeast: n.AtLeast}, err
}

func (o facetOrder) show(found repository.Facets) wire.Facets {
	shown := wire.Facets{
		Filter: o.conditions.Show(), Counted: found.Counted, Exact: found.All,
		Sum: wire.NewFacetSum(o.query.Sum, found.Sum), Facets: []wire.Facet{},
	}
	long := len(wire.Encode(shown.Filter)) > maxRepeatedFilter
	for i, key := range o.query.By {
		shown.Facets = append(shown.Facets, wire.NewFacet(key, found.Facets[i], func(v repository.FacetValue) map[string]any {
			if long {
				return nil
			}
			return o.filterOf(key, v)
		}))
	}
	return shown
}

// filterOf returns the filter for the messages with a value; nil when no filter selects them.
func (o facetOrder) filterOf(key repository.FacetKey, v repository.FacetValue) map[string]any {
	name, value, ok := wire.FacetCondition(key, v)
	if !ok || key.Field == repository.FacetTopic && o.conditions.Has(name) {
		return nil // a filter can have only one condition on topics, and this request already has one, which may mean a dead-letter topic
	}
	if key.Field == repository.FacetRecordKey && (o.conditions.Has("key") || o.conditions.Has("key_base64")) {
		return o.conditions.Show() // the request's filter already selects one record key, so all counted messages have this key
	}
	all, ok := o.conditions.With(name, value)
	if !ok {
		return nil
	}
	return all.Show()
}
