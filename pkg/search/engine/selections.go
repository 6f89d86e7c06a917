package engine

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxSelected is the number of matching documents up to which a redrive can be created.
const maxSelected = 1_000_000

// Redrives creates redrives in the store.
type Redrives interface {
	CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error)
	PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error)
	Overlaps(ctx context.Context, n repository.NewRedrive) ([]entity.Overlap, error)
}

// Selections finds the messages of redrives in the search engine, and gives them to the store, which decides about each
// of them.
type Selections struct {
	store  Redrives
	engine *Engine
}

// NewSelections returns the Selections of a store.
func (e *Engine) NewSelections(store Redrives) *Selections { return &Selections{store, e} }

// CreateRedrive implements repository.Redrives.
func (s *Selections) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	n, err := s.find(ctx, n)
	if err != nil {
		return entity.Redrive{}, err
	}
	return s.store.CreateRedrive(ctx, n)
}

// PreviewRedrive implements repository.Selections.
func (s *Selections) PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error) {
	n, err := s.find(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.store.PreviewRedrive(ctx, n)
}

// Overlaps implements repository.Selections.
func (s *Selections) Overlaps(ctx context.Context, n repository.NewRedrive) ([]entity.Overlap, error) {
	n, err := s.find(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.store.Overlaps(ctx, n)
}

func (s *Selections) find(ctx context.Context, n repository.NewRedrive) (repository.NewRedrive, error) {
	question, serves, err := s.engine.ask(ctx, n.Selection.Filter, false)
	if err != nil || !serves {
		return n, err
	}
	found := []uuid.UUID{}
	if !question.nothing {
		err := s.engine.each(ctx, question, maxSelected, func(some []repository.Cursor) {
			for _, c := range some {
				found = append(found, c.ID)
			}
		})
		if err != nil {
			return n, err
		}
	}
	n.Found = &found
	return n, nil
}
