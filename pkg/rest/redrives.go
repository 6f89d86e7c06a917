package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const creationTime = 2 * time.Minute

// createRedrive creates a redrive, or answers a dry run.
func (s *Server) createRedrive(w http.ResponseWriter, r *http.Request) error {
	order, dryRun, err := s.readOrder(w, r)
	if err != nil {
		return err
	}
	if err := narrowOrder(principalOf(r), &order); err != nil {
		return err
	}
	if err := s.narrowMasked(principalOf(r), &order); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), creationTime)
	defer cancel()
	searched, err := s.askSearched(ctx, order.Selection.Filter)
	if err != nil {
		return err
	}
	if dryRun {
		preview, err := s.redriver.Preview(ctx, order)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, s.showPreview(order.Action, preview, searched))
		return nil
	}
	if err := s.mayBegin(ctx, order, searched); err != nil {
		return err
	}
	redrive, err := s.redriver.Begin(ctx, order)
	if err != nil {
		return err
	}
	shown, until := s.showRedrive(redrive), searched.show()
	shown.SearchedUntil = &until
	accepted(w, shown)
	return nil
}

// mayBegin refuses a redrive that could miss messages that are not indexed yet, unless an earlier request with the
// same key has created it.
func (s *Server) mayBegin(ctx context.Context, order repository.NewRedrive, searched searchedUntil) error {
	late := searched.tooLate("filter")
	if late == nil {
		return nil
	}
	if !taskOf(ctx).resumed {
		return &unbegunError{late}
	}
	_, err := s.store.Redrive(ctx, order.Cause.Operation)
	if errors.Is(err, entity.ErrNotFound) {
		return &unbegunError{late}
	}
	return err
}

// accepted answers 202 with the redrive and its address: it continues without the request.
func accepted(w http.ResponseWriter, redrive redriveJSON) {
	w.Header().Set("Location", "/api/v1/redrives/"+redrive.ID.String())
	writeJSON(w, http.StatusAccepted, redrive)
}

func (s *Server) listRedrives(w http.ResponseWriter, r *http.Request) error {
	l, err := s.listingOf(r, placeSize, defaultLimit, "state")
	if err != nil {
		return err
	}
	state, err := wordParameter(r.URL.Query(), "state", entity.RedriveStates())
	if err != nil {
		return err
	}
	q := repository.RedriveQuery{Before: l.before(), Limit: l.limit + 1}
	if state != "" {
		q.States = []entity.RedriveState{state}
	}
	p := principalOf(r)
	if !p.Everywhere(auth.Viewer) {
		q.Actor = p.Name
	}
	redrives, err := s.db.Redrives(r.Context(), q)
	if err != nil {
		return err
	}
	redrives, next := part(l, redrives, func(last entity.Redrive) []byte { return timePlace(last.CreatedAt, last.ID) })
	others := func(redrive entity.Redrive) bool { return q.Actor != "" && !owns(p, &redrive) }
	writeList(w, "redrives", each(slices.DeleteFunc(redrives, others), s.showRedrive), next)
	return nil
}

func (s *Server) getRedrive(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "redrive")
	if err != nil {
		return err
	}
	redrive, err := s.store.Redrive(r.Context(), id)
	if err != nil {
		return err
	}
	shown := s.showRedrive(redrive)
	if s.db != nil {
		outcomes, err := s.db.RedriveOutcomes(r.Context(), id, false)
		if err != nil {
			return err
		}
		shown.Outcomes = &outcomesJSON{outcomes.Published, outcomes.Consumed, outcomes.Returned}
	}
	writeJSON(w, http.StatusOK, shown)
	return nil
}

func (s *Server) listItems(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "redrive")
	if err != nil {
		return err
	}
	l, err := s.listingOf(r, numberSize, defaultLimit, "result", "outcome")
	if err != nil {
		return err
	}
	q := repository.ItemQuery{From: int(l.number()), Limit: l.limit + 1}
	if q.Results, err = resultsOf(r); err != nil {
		return err
	}
	outcomes := []entity.Outcome{entity.Published, entity.Consumed, entity.Returned}
	if q.Outcome, err = wordParameter(r.URL.Query(), "outcome", outcomes); err != nil {
		return err
	}
	items, err := s.db.RedriveItems(r.Context(), id, q)
	if err != nil {
		return err
	}
	items, next := part(l, items, func(last entity.RedriveItem) []byte { return numberPlace(int64(last.Number) + 1) })
	writeList(w, "items", each(items, showItem), next)
	return nil
}

// resultsOf reads the requested results; nil for all.
func resultsOf(r *http.Request) ([]entity.ItemResult, error) {
	name, err := wordParameter(r.URL.Query(), "result", each(entity.ItemResults(), resultName))
	switch {
	case err != nil || name == "":
		return nil, err
	case name == resultWaiting:
		return []entity.ItemResult{entity.ItemWaiting}, nil
	default:
		return []entity.ItemResult{entity.ItemResult(name)}, nil
	}
}

// moveRedrive changes the state of a redrive by a method of the redriver.
func (s *Server) moveRedrive(step step[entity.Redrive]) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, cause, err := s.changeOf(w, r, "redrive")
		if err != nil {
			return err
		}
		redrive, err := onceOnly(s, r,
			func(ctx context.Context) (entity.Redrive, error) { return s.store.Redrive(ctx, id) },
			func(ctx context.Context) (entity.Redrive, error) { return step(ctx, id, cause) })
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, s.showRedrive(redrive))
		return nil
	}
}
