package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// creationTime bounds how long messages are selected for a redrive.
const creationTime = 2 * time.Minute

// createRedrive makes a redrive, or says what it would do.
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

// mayBegin refuses a redrive that would leave out what the catalogue does not have
// yet; one that an earlier request with the same key has made is there already.
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

// accepted says that a redrive goes on by itself, and where to look at it.
func accepted(w http.ResponseWriter, redrive redriveJSON) {
	w.Header().Set("Location", "/api/v1/redrives/"+redrive.ID.String())
	writeJSON(w, http.StatusAccepted, redrive)
}

func (s *Server) listRedrives(w http.ResponseWriter, r *http.Request) error {
	l, err := s.listingOf(r, placeSize, "state")
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
	if p := principalOf(r); !p.Everywhere(auth.Viewer) {
		q.Actor = p.Name
	}
	redrives, err := s.db.Redrives(r.Context(), q)
	if err != nil {
		return err
	}
	redrives, next := part(l, redrives, func(last entity.Redrive) []byte { return timePlace(last.CreatedAt, last.ID) })
	list := make([]redriveJSON, 0, len(redrives))
	for _, redrive := range redrives {
		if q.Actor == "" || owns(principalOf(r), &redrive) {
			list = append(list, s.showRedrive(redrive))
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Redrives   []redriveJSON `json:"redrives"`
		NextCursor *string       `json:"next_cursor"`
	}{list, next})
	return nil
}

func (s *Server) getRedrive(w http.ResponseWriter, r *http.Request) error {
	id, err := redriveID(r)
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
	id, err := redriveID(r)
	if err != nil {
		return err
	}
	l, err := s.listingOf(r, numberSize, "result", "outcome")
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
	list := make([]itemJSON, 0, len(items))
	for _, item := range items {
		list = append(list, showItem(item))
	}
	writeJSON(w, http.StatusOK, struct {
		Items      []itemJSON `json:"items"`
		NextCursor *string    `json:"next_cursor"`
	}{list, next})
	return nil
}

// resultsOf reads which results are asked for; nil for all.
func resultsOf(r *http.Request) ([]entity.ItemResult, error) {
	var names []string
	for _, result := range entity.ItemResults() {
		names = append(names, resultName(result))
	}
	switch name, err := wordParameter(r.URL.Query(), "result", names); {
	case err != nil || name == "":
		return nil, err
	case name == resultWaiting:
		return []entity.ItemResult{entity.ItemWaiting}, nil
	default:
		return []entity.ItemResult{entity.ItemResult(name)}, nil
	}
}

func (s *Server) pauseRedrive(w http.ResponseWriter, r *http.Request) error {
	return s.moveRedrive(w, r, s.redriver.Pause)
}

func (s *Server) resumeRedrive(w http.ResponseWriter, r *http.Request) error {
	return s.moveRedrive(w, r, s.redriver.Resume)
}

func (s *Server) cancelRedrive(w http.ResponseWriter, r *http.Request) error {
	return s.moveRedrive(w, r, s.redriver.Cancel)
}

func (s *Server) moveRedrive(w http.ResponseWriter, r *http.Request, step func(context.Context, uuid.UUID, entity.Cause) (entity.Redrive, error)) error {
	id, err := redriveID(r)
	if err != nil {
		return err
	}
	cause, err := s.readChange(w, r, fields{})
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (entity.Redrive, error) { return s.store.Redrive(ctx, id) }
	redrive, err := onceOnly(s, r, look, func(ctx context.Context) (entity.Redrive, error) { return step(ctx, id, cause) })
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.showRedrive(redrive))
	return nil
}
