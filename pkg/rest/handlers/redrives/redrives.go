// Package redrives answers requests about redrives. It creates redrives by a selection or for a whole topic, shows them
// and changes them. A redrive selects only messages of topics on which its creator has the roles that its action needs.
package redrives

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// creationTime bounds the creation of a redrive, which selects its messages.
const creationTime = 2 * time.Minute

// Redrives creates, shows and changes redrives.
type Redrives struct {
	Store    Store
	Database Database // nil: the store is in memory
	Redriver Redriver
	Unmask   unmask.Rules
	Cursors  request.Cursors
	Bodies   request.Bodies
	Now      func() time.Time
}

// Store reads single redrives, and knows which operations have been performed.
type Store interface {
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)
	request.Performer
}

// Database lists redrives, and the messages, outcomes, overlaps and errors of a redrive.
type Database interface {
	Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
	RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error)
	RedriveOverlaps(ctx context.Context, id uuid.UUID) ([]entity.Overlap, error)
	ReturnedErrors(ctx context.Context, id uuid.UUID) ([]entity.ReturnedError, error)
	request.Index
}

// Redriver runs redrives.
type Redriver interface {
	// Begin creates a redrive, which continues without the caller. If a redrive with the id of the cause's operation
	// exists already, Begin returns that redrive unchanged.
	Begin(ctx context.Context, order repository.NewRedrive) (entity.Redrive, error)

	// Preview returns the expected result of Begin, and changes nothing.
	Preview(ctx context.Context, order repository.NewRedrive) (entity.Preview, error)

	// Wait returns a redrive once it is over, or *entity.InterruptedError when the redriver stops or ctx ends before
	// that.
	Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error)

	// Continue ends the wait of a redrive for outcomes; *entity.NothingWaitsError when it does not wait.
	Continue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error)

	// Pause, Resume and Cancel change the state of a redrive.
	Pause(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error)
	Resume(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error)
	Cancel(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error)
}

// Create creates a redrive, or answers a dry run.
func (h Redrives) Create(w http.ResponseWriter, r *http.Request) error {
	order, dryRun, err := h.readOrder(w, r)
	if err != nil {
		return err
	}
	if err := access.NarrowRedrive(access.Principal(r), &order); err != nil {
		return err
	}
	if err := h.Unmask.NarrowRedrive(access.Principal(r), &order); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), creationTime)
	defer cancel()
	var searched request.SearchedUntil
	if !order.Selection.Archived { // archived messages are not found by the search index
		if searched, err = request.QueryIndex(ctx, h.Database, h.Now, order.Selection.Filter); err != nil {
			return err
		}
	}
	if err := h.mayAcceptEnvelopes(ctx, order); err != nil {
		return err
	}
	if dryRun {
		preview, err := h.Redriver.Preview(ctx, order)
		if err != nil {
			return err
		}
		respond.JSON(w, http.StatusOK, wire.NewPreview(order.Action, preview, searched.Show(), h.Unmask.Masking, access.Principal(r).Everywhere(auth.Unmask)))
		return nil
	}
	if err := h.mayBegin(ctx, order, searched); err != nil {
		return err
	}
	redrive, err := h.Redriver.Begin(ctx, order)
	if err != nil {
		return err
	}
	shown, until := h.show(redrive), searched.Show()
	shown.SearchedUntil = &until
	respond.Accepted(w, shown)
	return nil
}

// mayAcceptEnvelopes refuses a redrive that accepts envelopes if its creator is not operator on their dead-letter topic.
// It plans only a sample of the messages; the redrive itself skips the others.
func (h Redrives) mayAcceptEnvelopes(ctx context.Context, order repository.NewRedrive) error {
	if !order.Options.AcceptEnvelope || order.Selection.Visible == nil {
		return nil
	}
	preview, err := h.Redriver.Preview(ctx, order)
	if err == nil && preview.Reasons[string(entity.Envelope)] > 0 {
		return access.Forbidden(auth.Operator, "the dead-letter topics of the envelopes too")
	}
	return err
}

// mayBegin refuses a redrive while the search index is late, because the redrive could miss messages that are not
// indexed yet. It accepts the redrive if an earlier request with the same Idempotency-Key has already created it.
func (h Redrives) mayBegin(ctx context.Context, order repository.NewRedrive, searched request.SearchedUntil) error {
	late := searched.TooLate("filter")
	if late == nil {
		return nil
	}
	if !request.TaskOf(ctx).Resumed {
		return &request.UnbegunError{Err: late}
	}
	_, err := h.Store.Redrive(ctx, order.Cause.Operation)
	if errors.Is(err, entity.ErrNotFound) {
		return &request.UnbegunError{Err: late}
	}
	return err
}

// List sends a page of the redrives, the newest first. Callers without viewer on all topics get only redrives that they
// created and whose topics they all see.
func (h Redrives) List(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Cursors.List(r, request.TimeSize, request.DefaultLimit, "state")
	if err != nil {
		return err
	}
	state, err := request.Word(r.URL.Query(), "state", entity.RedriveStates())
	if err != nil {
		return err
	}
	q := repository.RedriveQuery{Before: l.Before(), Limit: l.Limit + 1}
	if state != "" {
		q.States = []entity.RedriveState{state}
	}
	p := access.Principal(r)
	if !p.Everywhere(auth.Viewer) {
		q.Actor = p.Name
	}
	redrives, err := h.Database.Redrives(r.Context(), q)
	if err != nil {
		return err
	}
	redrives, next := request.Part(l, redrives, func(last entity.Redrive) []byte { return request.TimePosition(last.CreatedAt, last.ID) })
	others := func(redrive entity.Redrive) bool { return q.Actor != "" && !access.Owns(p, &redrive) }
	respond.List(w, "redrives", wire.Each(slices.DeleteFunc(redrives, others), h.show), next)
	return nil
}

// Get sends a redrive with its progress.
func (h Redrives) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "redrive")
	if err != nil {
		return err
	}
	var outcomes entity.OutcomeCounts
	// The outcomes are read before the counts, so that the counts include every message with an outcome.
	if h.Database != nil {
		if outcomes, err = h.Database.RedriveOutcomes(r.Context(), id, false); err != nil {
			return err
		}
	}
	redrive, err := h.Store.Redrive(r.Context(), id)
	if err != nil {
		return err
	}
	shown := h.show(redrive)
	if h.Database != nil {
		shown.Outcomes = &wire.Outcomes{Published: outcomes.Published, Consumed: outcomes.Consumed, Returned: outcomes.Returned}
	}
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

// Items sends a page of the messages of a redrive.
func (h Redrives) Items(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "redrive")
	if err != nil {
		return err
	}
	l, err := h.Cursors.List(r, request.NumberSize, request.DefaultLimit, "result", "outcome")
	if err != nil {
		return err
	}
	q := repository.ItemQuery{From: int(l.Number()), Limit: l.Limit + 1}
	if q.Results, err = resultsOf(r); err != nil {
		return err
	}
	outcomes := []entity.Outcome{entity.Published, entity.Consumed, entity.Returned}
	if q.Outcome, err = request.Word(r.URL.Query(), "outcome", outcomes); err != nil {
		return err
	}
	items, err := h.Database.RedriveItems(r.Context(), id, q)
	if err != nil {
		return err
	}
	items, next := request.Part(l, items, func(last entity.RedriveItem) []byte { return request.NumberPosition(int64(last.Number) + 1) })
	respond.List(w, "items", wire.Each(items, wire.NewRedriveItem), next)
	return nil
}

// Overlaps sends the other redrives in which messages wait that also wait in this redrive.
func (h Redrives) Overlaps(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "redrive")
	if err != nil {
		return err
	}
	overlaps, err := h.Database.RedriveOverlaps(r.Context(), id)
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, map[string]any{"overlaps": wire.Each(overlaps, wire.NewOverlap)})
	return nil
}

// Errors sends the errors with which messages of a redrive came back. The errors of topics that the caller may not see
// are counted together, without an error group.
func (h Redrives) Errors(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "redrive")
	if err != nil {
		return err
	}
	unmasked, err := h.Unmask.ErrorGroups(r)
	if err != nil {
		return err
	}
	list, err := h.Database.ReturnedErrors(r.Context(), id)
	if err != nil {
		return err
	}
	shown := wire.NewReturnedErrors(list, access.Principal(r).Scope(auth.Viewer), unmasked)
	respond.JSON(w, http.StatusOK, map[string]any{"errors": shown})
	return nil
}

// resultsOf reads the requested results; nil for all.
func resultsOf(r *http.Request) ([]entity.ItemResult, error) {
	name, err := request.Word(r.URL.Query(), "result", wire.Each(entity.ItemResults(), wire.ResultName))
	switch {
	case err != nil || name == "":
		return nil, err
	case name == wire.ResultWaiting:
		return []entity.ItemResult{entity.ItemWaiting}, nil
	default:
		return []entity.ItemResult{entity.ItemResult(name)}, nil
	}
}

// Pause pauses a redrive.
func (h Redrives) Pause(w http.ResponseWriter, r *http.Request) error {
	return h.move(w, r, h.Redriver.Pause)
}

// Continue ends the wait of a redrive for unknown outcomes.
func (h Redrives) Continue(w http.ResponseWriter, r *http.Request) error {
	return h.move(w, r, h.Redriver.Continue)
}

// Resume continues a paused or stopped redrive.
func (h Redrives) Resume(w http.ResponseWriter, r *http.Request) error {
	return h.move(w, r, h.Redriver.Resume)
}

// Cancel ends a redrive.
func (h Redrives) Cancel(w http.ResponseWriter, r *http.Request) error {
	return h.move(w, r, h.Redriver.Cancel)
}

// move changes the state of a redrive by a method of the redriver.
func (h Redrives) move(
	w http.ResponseWriter, r *http.Request, step func(context.Context, uuid.UUID, entity.AuditInfo) (entity.Redrive, error),
) error {
	id, cause, err := h.Bodies.ReadReason(w, r, "redrive")
	if err != nil {
		return err
	}
	redrive, err := request.Once(r, h.Store,
		func(ctx context.Context) (entity.Redrive, error) { return h.Store.Redrive(ctx, id) },
		func(ctx context.Context) (entity.Redrive, error) { return step(ctx, id, cause) })
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, h.show(redrive))
	return nil
}

func (h Redrives) show(redrive entity.Redrive) wire.Redrive {
	return wire.NewRedrive(redrive, h.Now(), h.Unmask.Masking)
}

// RetryTopic redrives a whole topic. It answers at the end of the redrive or, with Prefer: respond-async, at its
// beginning.
func (h Redrives) RetryTopic(w http.ResponseWriter, r *http.Request) error {
	var o redriveOrder
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{
		"canary": &o.canary, "max_return_share": &o.returnShare, "min_sample": &o.minSample, "accept_envelope": &o.acceptEnvelope,
	})
	if err != nil {
		return err
	}
	options := o.options(entity.RedriveRetry)
	if err := o.Err(); err != nil {
		return err
	}
	name := request.Topic(r)
	if !request.PossibleTopic(name) {
		respond.JSON(w, http.StatusOK, wire.NewRetryAllResult(name, entity.Redrive{}))
		return nil
	}
	redrive, err := h.beginTopic(r.Context(), name, options, cause)
	if err != nil {
		return err
	}
	if prefersAsync(r.Header) {
		w.Header().Set("Preference-Applied", respondAsync)
		respond.Accepted(w, h.show(redrive))
		return nil
	}
	if redrive, err = h.Redriver.Wait(r.Context(), redrive.ID); err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.NewRetryAllResult(name, redrive))
	return nil
}

func (h Redrives) beginTopic(ctx context.Context, topic string, options entity.RedriveOptions, cause entity.AuditInfo) (entity.Redrive, error) {
	ctx, cancel := context.WithTimeout(ctx, creationTime)
	defer cancel()
	order := repository.NewRedrive{
		Action: entity.RedriveRetry, Cause: cause, Options: options,
		Selection: entity.Selection{Filter: entity.Filter{Topic: topic, Visible: access.PrincipalFrom(ctx).Scope(auth.Operator)}},
	}
	if err := h.mayAcceptEnvelopes(ctx, order); err != nil {
		return entity.Redrive{}, err
	}
	return h.Redriver.Begin(ctx, order)
}

const respondAsync = "respond-async"

// prefersAsync reports whether the client asks not to wait (RFC 7240).
func prefersAsync(header http.Header) bool {
	for _, preferences := range header.Values("Prefer") {
		for preference := range strings.SplitSeq(preferences, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), respondAsync) {
				return true
			}
		}
	}
	return false
}
