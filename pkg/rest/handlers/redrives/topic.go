package redrives

import (
	"context"
	"net/http"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// RetryTopic redrives a whole topic, and answers at the end of the redrive.
func (h Redrives) RetryTopic(w http.ResponseWriter, r *http.Request) error {
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{})
	if err != nil {
		return err
	}
	name := request.Topic(r)
	if !request.PossibleTopic(name) {
		respond.JSON(w, http.StatusOK, wire.NewRetryAllResult(name, entity.Redrive{}))
		return nil
	}
	redrive, err := h.beginTopic(r.Context(), name, cause)
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

func (h Redrives) beginTopic(ctx context.Context, topic string, cause entity.Cause) (entity.Redrive, error) {
	ctx, cancel := context.WithTimeout(ctx, creationTime)
	defer cancel()
	return h.Redriver.Begin(ctx, repository.NewRedrive{
		Action: entity.RedriveRetry, Cause: cause,
		Selection: entity.Selection{Filter: entity.Filter{Topic: topic, Visible: access.PrincipalFrom(ctx).Scope(auth.Operator)}},
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
