package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Redriver sends messages back to their original topics, and changes messages that an attempt may hold. It first
// settles an attempt without a result; the error *entity.ClaimedError means that the attempt is still running or
// cannot be settled.
type Redriver interface {
	// Retry makes one attempt and waits for its end. The error is an *entity.PublishError, or the reason why no
	// attempt was made.
	Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error)

	// GiveUp marks a message dead.
	GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// Delete removes a message for good.
	Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error

	// Begin creates a redrive, which continues without the caller. If a redrive with the id of the cause's operation
	// exists, it is returned unchanged.
	Begin(ctx context.Context, order repository.NewRedrive) (entity.Redrive, error)

	// Preview returns the expected result of Begin, and changes nothing.
	Preview(ctx context.Context, order repository.NewRedrive) (entity.Preview, error)

	// Wait returns a redrive once it is over, or *entity.InterruptedError when the redriver stops or ctx ends before
	// that.
	Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error)

	// Pause, Resume and Cancel change the state of a redrive.
	Pause(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error)
	Resume(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error)
	Cancel(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error)
}

type retryJSON struct {
	ID        uuid.UUID     `json:"id"`
	Status    entity.Status `json:"status"`
	Message   string        `json:"message"`
	Published bool          `json:"published"`
	Topic     *string       `json:"topic"`
	Partition *int32        `json:"partition"`
	Offset    *int64        `json:"offset"`
	Attempt   *uuid.UUID    `json:"dlq_redrive_id"`
	Edited    bool          `json:"edited"`
}

func (s *Server) retryMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "message")
	if err != nil {
		return err
	}
	order := entity.RetryOrder{ID: id, Resumed: taskOf(r.Context()).resumed}
	var edit editOrder
	if order.Cause, err = s.readChange(w, r, fields{"accept_duplicate": &order.AcceptDuplicate, "edit": edit.object()}); err != nil {
		return err
	}
	if order.Edit, err = edit.read(); err != nil {
		return err
	}
	if order.Edit != nil {
		if err := s.mayEdit(r, id, order.Edit, edit.kept); err != nil {
			return err
		}
	}
	if err := s.mayRetry(r, id); err != nil {
		return err
	}
	order.Message = exchangeOf(r).message
	result, err := s.redriver.Retry(r.Context(), order)
	if err != nil {
		return s.unlessGivenBack(r.Context(), order, err)
	}
	shown := showRetry(result)
	shown.Edited = order.Edit != nil
	writeJSON(w, http.StatusOK, shown)
	return nil
}

// messageToRetry returns the message of a retry. A request reads it only once, so that the checked message is the one
// that is sent.
func (s *Server) messageToRetry(r *http.Request, id uuid.UUID) (*entity.Message, error) {
	x := exchangeOf(r)
	if x.message == nil {
		m, err := s.store.Get(r.Context(), id, entity.RetryValueLimit)
		if err != nil {
			return nil, err
		}
		x.message = &m
	}
	return x.message, nil
}

// mayEdit checks an edit of a message: its author, its topic and its headers. It fills in the headers that the edit
// keeps.
func (s *Server) mayEdit(r *http.Request, id uuid.UUID, edit *entity.Edit, kept map[int]bool) error {
	m, err := s.messageToRetry(r, id)
	if err != nil {
		return err
	}
	if err := mayMessage(principalOf(r), auth.Edit, m); err != nil {
		return err
	}
	if edit.Topic != "" {
		if err := s.mayTopic(r, auth.Edit, edit.Topic); err != nil {
			return err
		}
	}
	if err := s.checkEdit(edit, m); err != nil {
		return err
	}
	return keepHeaders(edit, kept, m)
}

// unlessGivenBack marks the error of an attempt that was given back, so that the next request with the same key
// starts a new attempt.
func (s *Server) unlessGivenBack(ctx context.Context, order entity.RetryOrder, err error) error {
	if order.Cause.Operation == uuid.Nil || !errors.Is(err, entity.ErrUnavailable) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyTimeout)
	defer cancel()
	attempts, unknown := s.store.History(ctx, order.ID)
	if unknown != nil {
		return err
	}
	if slices.ContainsFunc(attempts, func(a entity.Attempt) bool {
		return a.ID == order.Cause.Operation && (a.Verdict == entity.GivenBack || a.Verdict == entity.Rescued)
	}) {
		return &unbegunError{err}
	}
	return err
}

func showRetry(result entity.RetryResult) retryJSON {
	shown := retryJSON{ID: result.ID, Status: result.Status, Message: "message retry initiated", Published: result.Published}
	if result.Published {
		shown.Topic = orNull(result.Topic)
		shown.Partition = sentTo(result.Topic, result.Partition)
		shown.Offset = sentTo(result.Topic, result.Offset)
		if result.Attempt != uuid.Nil {
			shown.Attempt = &result.Attempt
		}
	}
	return shown
}

type retryAllJSON struct {
	Retried   int            `json:"retried"`
	Message   string         `json:"message"`
	RedriveID *uuid.UUID     `json:"redrive_id"`
	Selected  int            `json:"selected"`
	Failed    int            `json:"failed"`
	Dead      int            `json:"dead"`
	InDoubt   int            `json:"in_doubt"`
	Skipped   int            `json:"skipped"`
	Waiting   int            `json:"waiting"` // 0 unless the redrive was cancelled
	Reasons   map[string]int `json:"reasons"`
}

// retryTopic redrives a whole topic, and answers at the end of the redrive.
func (s *Server) retryTopic(w http.ResponseWriter, r *http.Request) error {
	cause, err := s.readChange(w, r, fields{})
	if err != nil {
		return err
	}
	name := topic(r)
	if !possibleTopic(name) {
		writeJSON(w, http.StatusOK, showRetryAll(name, entity.Redrive{}))
		return nil
	}
	redrive, err := s.beginTopic(r.Context(), name, cause)
	if err != nil {
		return err
	}
	if prefersAsync(r.Header) {
		w.Header().Set("Preference-Applied", respondAsync)
		accepted(w, s.showRedrive(redrive))
		return nil
	}
	if redrive, err = s.redriver.Wait(r.Context(), redrive.ID); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, showRetryAll(name, redrive))
	return nil
}

func (s *Server) beginTopic(ctx context.Context, topic string, cause entity.Cause) (entity.Redrive, error) {
	ctx, cancel := context.WithTimeout(ctx, creationTime)
	defer cancel()
	return s.redriver.Begin(ctx, repository.NewRedrive{
		Action: entity.RedriveRetry, Cause: cause,
		Selection: entity.Selection{Filter: entity.Filter{Topic: topic, Visible: principalFrom(ctx).Scope(auth.Operator)}},
	})
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

func showRetryAll(topic string, redrive entity.Redrive) retryAllJSON {
	counts := redrive.Counts
	return retryAllJSON{
		Retried: counts.Succeeded, Message: fmt.Sprintf("%d messages retried in topic %s", counts.Succeeded, topic),
		RedriveID: orNull(redrive.ID), Selected: redrive.Selected, Failed: counts.Failed, Dead: counts.Dead,
		InDoubt: counts.InDoubt, Skipped: counts.Skipped, Waiting: counts.Waiting,
		Reasons: showReasons(counts.Reasons),
	}
}
