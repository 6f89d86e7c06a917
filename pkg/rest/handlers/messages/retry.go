package messages

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// historyTimeout limits the query that finds out how a failed attempt ended.
const historyTimeout = 5 * time.Second

// Retries sends single messages.
type Retries struct {
	Store    HistoryStore
	Redriver Redriver
	Origins  Origins
	Dialects Dialects
	Masking  wire.Masking
	Bodies   request.Bodies

	Redirects Redirects // nil: no topic is redirected
	Encoder   Encoder   // nil: no message has a schema
	Reader    func(ctx context.Context) entity.PartReader
}

// Redriver sends messages back to their original topics, marks messages dead, and deletes them. When the message is
// claimed by an attempt without a result, each method first tries to settle that attempt. The error
// *entity.ClaimedError means that the attempt is still running or cannot be settled.
type Redriver interface {
	// Retry makes one attempt and waits for its end. The error is an *entity.PublishError, or the reason why no
	// attempt was made.
	Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error)

	// MarkDead marks a message dead.
	MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)

	// Delete removes a message for good.
	Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// Retry makes one attempt to send a message, and waits for its end.
func (h Retries) Retry(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	order := entity.RetryOrder{ID: id, Resumed: request.TaskOf(r.Context()).Resumed}
	var edit editOrder
	if order.Cause, err = h.Bodies.ReadChange(w, r, request.Fields{
		"accept_duplicate": &order.AcceptDuplicate, "accept_envelope": &order.AcceptEnvelope, "edit": edit.object(),
	}); err != nil {
		return err
	}
	if order.Edit, err = edit.read(); err != nil {
		return err
	}
	if order.Edit != nil {
		if err := h.mayEdit(r, id, order.Edit, &edit); err != nil {
			return err
		}
	}
	if err := h.mayRetry(r, id, order.AcceptEnvelope); err != nil {
		return err
	}
	order.Message = request.InfoOf(r).Message
	result, err := h.Redriver.Retry(r.Context(), order)
	if err != nil {
		return h.unlessGivenBack(r.Context(), order, err)
	}
	shown := wire.NewRetryResult(result)
	shown.Edited = order.Edit != nil
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

// mayEdit checks an edit of a message: the principal's roles, the topic and the headers. It fills in the headers that
// the edit keeps, and encodes the payload and the key if they have a schema.
func (h Retries) mayEdit(r *http.Request, id uuid.UUID, edit *entity.Edit, order *editOrder) error {
	m, err := request.RetriedMessage(r, id, h.Store.Get)
	if err != nil {
		return err
	}
	if err := access.MayMessage(access.Principal(r), auth.Edit, m); err != nil {
		return err
	}
	if edit.Topic != "" {
		if err := access.MayTopic(r, auth.Edit, edit.Topic); err != nil {
			return err
		}
	}
	if err := h.checkEdit(r.Context(), edit, m); err != nil {
		return err
	}
	if err := keepHeaders(edit, order.kept, m); err != nil {
		return err
	}
	return h.encode(r.Context(), edit, order, m)
}

// unlessGivenBack returns err as a request.UnbegunError if the history says that the attempt did not send its record.
// The next request with the same Idempotency-Key then starts a new attempt.
func (h Retries) unlessGivenBack(ctx context.Context, order entity.RetryOrder, err error) error {
	if order.Cause.Operation == uuid.Nil || !errors.Is(err, entity.ErrUnavailable) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTimeout)
	defer cancel()
	attempts, unknown := h.Store.History(ctx, order.ID)
	if unknown != nil {
		return err
	}
	if slices.ContainsFunc(attempts, func(a entity.Attempt) bool {
		return a.ID == order.Cause.Operation && (a.Verdict == entity.GivenBack || a.Verdict == entity.Rescued)
	}) {
		return &request.UnbegunError{Err: err}
	}
	return err
}

// If only the record's headers name the original topic of a message, mayRetry requires the role operator also on its
// dead-letter topic. Otherwise a producer of one dead-letter topic could make operators of any topic send records to
// that topic. So it does for a message whose envelope is accepted.
func (h Retries) mayRetry(r *http.Request, id uuid.UUID, envelope bool) error {
	p := access.Principal(r)
	if p.Everywhere(auth.Operator) {
		return nil
	}
	m, err := request.RetriedMessage(r, id, h.Store.Get)
	if err != nil {
		return err
	}
	if envelope {
		if err := access.MayTopic(r, auth.Operator, m.Source.Topic); m.Source.Topic != "" && err != nil {
			return err
		}
	}
	standing, err := h.Origins.Standing(r.Context())
	if err != nil || m.OriginalTopic == "" || standing(m).Declared() {
		return err
	}
	return maySource(r, m)
}
