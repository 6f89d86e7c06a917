package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxBehind is how late the search index may be for facets that can be counted by reading messages instead.
const maxBehind = time.Minute

// FacetCounter counts facets by reading messages.
type FacetCounter interface {
	Facets(ctx context.Context, q repository.FacetQuery) (repository.Facets, error)
}

// Facets counts the values of messages in the search engine where its documents suffice, and otherwise by reading
// messages.
type Facets struct {
	counter FacetCounter
	store   repository.Searcher
	engine  *Engine
	now     func() time.Time
}

// NewFacets returns Facets. The store decides about messages whose documents are out of date.
func (e *Engine) NewFacets(counter FacetCounter, store repository.Searcher) *Facets {
	return &Facets{counter: counter, store: store, engine: e, now: time.Now}
}

// Facets counts the live messages that match, of those that are indexed. While the search engine is away, it reads
// messages if their filter does not need the search index.
func (f *Facets) Facets(ctx context.Context, q repository.FacetQuery) (repository.Facets, error) {
	if !f.suffices(q) {
		return f.counter.Facets(ctx, q)
	}
	question, serves, err := f.engine.askAlways(ctx, q.Filter, false)
	if err != nil {
		return repository.Facets{}, err
	}
	if !serves || question.nothing || question.AnyState || !question.state.Begun {
		return f.counter.Facets(ctx, q)
	}
	until := question.state.Until.Truncate(time.Millisecond) // the precision in which users see and repeat it
	limit := q.Filter.CreatedBefore
	if limit.IsZero() {
		limit = f.now()
	}
	var before time.Time
	if behind := limit.Sub(until); until.IsZero() || behind > maxBehind && !q.Filter.NeedsSearchIndex() {
		return f.counter.Facets(ctx, q)
	} else if behind > 0 {
		before, question.Filter.CreatedBefore = until, until
	}
	known, err := f.decide(ctx, &question, q.By)
	if err != nil {
		return repository.Facets{}, err
	}
	if !known {
		return f.counter.Facets(ctx, q)
	}
	question.Certain = true // suffices refuses masked fields
	found, err := f.engine.documents.Facets(ctx, question.state.Version, question.Query, q.By, q.Limit)
	if errors.Is(err, repository.ErrEngineAway) && !q.Filter.NeedsSearchIndex() {
		return f.counter.Facets(ctx, q)
	}
	found.Before = before
	return found, err
}

// decide lets the store decide which of the changed messages match: the documents of the others do not count. It returns
// false when a facet would count what has changed in a document.
func (f *Facets) decide(ctx context.Context, q *question, by []repository.FacetKey) (known bool, err error) {
	changed := q.Changed
	if q.Changed = nil; len(changed) == 0 {
		return true, nil
	}
	filter := withoutDocuments(q.Filter)
	filter.MessageIDs = changed
	found, err := f.store.Search(ctx, repository.SearchQuery{Filter: filter, Limit: len(changed), NoValues: true})
	if err != nil {
		return false, err
	}
	matches := map[uuid.UUID]bool{}
	for _, m := range found.Messages {
		matches[m.ID] = true
		q.Changed = append(q.Changed, m.ID)
	}
	q.Excluded = slices.DeleteFunc(changed, func(id uuid.UUID) bool { return matches[id] })
	return len(matches) == 0 || !slices.ContainsFunc(by, func(key repository.FacetKey) bool {
		return key.Field == repository.FacetTopic || key.Field == repository.FacetErrorGroup
	}), nil
}

// suffices reports whether documents have all that is needed. They have neither the status nor the times of retries of
// their messages, and their numbers cannot be added up exactly.
func (f *Facets) suffices(q repository.FacetQuery) bool {
	c := q.Filter
	if q.Sum != "" || len(c.Statuses) > 0 || !c.RetriedAfter.IsZero() || !c.RetriedBefore.IsZero() || !f.engine.canTell(c) {
		return false
	}
	return !slices.ContainsFunc(q.By, func(key repository.FacetKey) bool { return key.Field == repository.FacetStatus })
}
