package engine

import (
	"context"
	"errors"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// FacetCounter counts facets by reading messages.
type FacetCounter interface {
	Facets(ctx context.Context, q repository.FacetQuery) (repository.Facets, error)
}

// Facets counts the values of messages in the search engine where its documents suffice, and otherwise by reading
// messages.
type Facets struct {
	counter FacetCounter
	engine  *Engine
	masked  entity.MaskedFields
}

// NewFacets returns Facets. The documents lack the masked fields.
func (e *Engine) NewFacets(counter FacetCounter, masked entity.MaskedFields) *Facets {
	return &Facets{counter, e, masked}
}

// Facets counts the live messages that match. While the search engine is away, it reads messages if their filter does not
// need the search index.
func (f *Facets) Facets(ctx context.Context, q repository.FacetQuery) (repository.Facets, error) {
	if !f.suffices(q) {
		return f.counter.Facets(ctx, q)
	}
	question, serves, err := f.engine.askAlways(ctx, q.Filter, false)
	if err != nil {
		return repository.Facets{}, err
	}
	if !serves || question.nothing {
		return f.counter.Facets(ctx, q)
	}
	question.Changed = nil // changed messages are counted with the values that their documents have
	question.AnyState = false
	question.Certain = true // suffices refuses masked fields
	found, err := f.engine.documents.Facets(ctx, question.version, question.Query, q.By, q.Limit)
	if errors.Is(err, repository.ErrEngineAway) && !q.Filter.NeedsSearchIndex() {
		return f.counter.Facets(ctx, q)
	}
	return found, err
}

// suffices reports whether documents have all that is needed. They have neither the status nor the times of retries of
// their messages, and their numbers cannot be added up exactly.
func (f *Facets) suffices(q repository.FacetQuery) bool {
	c := q.Filter
	if q.Sum != "" || len(c.Statuses) > 0 || !c.RetriedAfter.IsZero() || !c.RetriedBefore.IsZero() ||
		c.ErrorClass != "" && f.masked.ErrorClass || c.ConsumerGroup != "" && f.masked.ConsumerGroup {
		return false
	}
	for _, key := range q.By {
		if key.Field == repository.FacetStatus {
			return false
		}
	}
	return true
}
