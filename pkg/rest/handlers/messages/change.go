// Package messages answers requests about single messages, live or archived: it shows them, sends them back and changes
// them. The caller has checked that the principal has the route's role on the message.
package messages

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Changes changes single messages.
type Changes struct {
	Store    ChangeStore
	Database ChangeDatabase // nil: the store is in memory
	Redriver Redriver
	Origins  Origins
	Dialects Dialects
	Bodies   request.Bodies
}

// ChangeStore is the part of the store that changes messages.
type ChangeStore interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Requeue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)
	request.Performer
}

// ChangeDatabase is the part of the database that changes messages.
type ChangeDatabase interface {
	Change(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error)
	Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)
	Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (repository.Erased, error)
}

// Dialects reads the headers of dead-letter producers.
type Dialects interface {
	// IsPointer reports whether the record has no value because it only points to the record that failed.
	IsPointer(m *entity.Message) bool

	// StripsHeader reports whether a replay of the message to the topic loses the named header, because it belongs to
	// the failure. An edit must not set such a header.
	StripsHeader(m *entity.Message, topic, name string) bool

	// CheckRules reports every rule that cannot work.
	CheckRules(rules []entity.TopicRule) error
}

// Delete removes a message for good.
func (h Changes) Delete(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	cause, err := request.QueryCause(r)
	if err != nil {
		return err
	}
	if err := h.Redriver.Delete(r.Context(), id, cause); err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.Deleted{Success: true, Message: "message " + id.String() + " deleted"})
	return nil
}

// Requeue makes a message pending again.
func (h Changes) Requeue(w http.ResponseWriter, r *http.Request) error {
	return h.move(w, r, h.Store.Requeue, "requeued")
}

// MarkDead marks a message dead.
func (h Changes) MarkDead(w http.ResponseWriter, r *http.Request) error {
	return h.move(w, r, h.Redriver.MarkDead, "marked dead")
}

// move changes the status of a message for an operator.
func (h Changes) move(
	w http.ResponseWriter, r *http.Request, step func(context.Context, uuid.UUID, entity.AuditInfo) (entity.Message, error), done string,
) error {
	id, cause, err := h.Bodies.ReadReason(w, r, "message")
	if err != nil {
		return err
	}
	m, err := request.Once(r, h.Store,
		func(ctx context.Context) (entity.Message, error) { return h.Store.Get(ctx, id, 0) },
		func(ctx context.Context) (entity.Message, error) { return step(ctx, id, cause) })
	if err != nil {
		return err
	}
	text := "message " + id.String() + " " + done
	respond.JSON(w, http.StatusOK, wire.Changed{ID: id, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Message: text})
	return nil
}

// Restore returns a message from the archive.
func (h Changes) Restore(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := h.Bodies.ReadReason(w, r, "message")
	if err != nil {
		return err
	}
	m, err := request.Once(r, h.Store,
		func(ctx context.Context) (entity.Message, error) { return h.Store.Get(ctx, id, 0) },
		func(ctx context.Context) (entity.Message, error) { return h.Database.Restore(ctx, id, cause) })
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.Restored{ID: id, Status: m.Status, Message: "message " + id.String() + " restored"})
	return nil
}

// Erase deletes a message of the archive for good, with its record, its attempts and everything else that the store has
// of it; the reason is required.
func (h Changes) Erase(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := h.Bodies.ReadReason(w, r, "message")
	if err != nil {
		return err
	}
	if cause.Reason == "" {
		return &entity.FieldError{Field: "reason", Reason: "is needed to erase a message"}
	}
	erased, err := h.Database.Erase(r.Context(), id, cause)
	if err != nil {
		return err
	}
	text := "message " + id.String() + " erased"
	switch {
	case erased.Pending:
		text += "; its bytes are still in the object store, and the archiver deletes them"
	case !erased.RetainedUntil.IsZero():
		text += "; an object lock keeps its bytes in the object store until " + erased.RetainedUntil.Format(time.DateOnly)
	}
	respond.JSON(w, http.StatusOK, wire.Erased{
		Success: true, Message: text, RetainedUntil: wire.Stamp(erased.RetainedUntil), Pending: erased.Pending,
	})
	return nil
}

// Origins checks the original topics of messages against the configuration and the mapping. It returns an error only
// when the mapping cannot be read.
type Origins interface {
	// Standing returns a function that checks messages against the current mapping. It is used before records are sent.
	Standing(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)
}

// maySource returns an error unless the principal is operator on the dead-letter topic of the message, or the message
// has none.
func maySource(r *http.Request, m *entity.Message) error {
	if m.Source.Topic == "" {
		return nil
	}
	where := "dead-letter topic " + respond.Clip(m.Source.Topic) + " too: nothing declares that its records belong to other topics"
	return access.Require(access.Principal(r).May(auth.Operator, m.Source.Topic), auth.Operator, where)
}

// SetOrigin sets the original topic of one message, which then counts as declared. It requires operator on that topic
// and on the message's dead-letter topic, if it has one.
func (h Changes) SetOrigin(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	var topic request.Option[string]
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{"original_topic": &topic})
	if err != nil {
		return err
	}
	if err := checkOriginal(topic.Value, h.Dialects); err != nil {
		return err
	}
	if err := access.MayTopic(r, auth.Operator, topic.Value); err != nil {
		return err
	}
	m, err := h.Store.Get(r.Context(), id, 0)
	if err != nil {
		return err
	}
	if err := maySource(r, &m); err != nil {
		return err
	}
	standing, err := h.Origins.Standing(r.Context())
	if err != nil {
		return err
	}
	changed, err := h.Database.Change(r.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: []uuid.UUID{id}, OriginalTopic: topic.Value, OverHeader: standing(&m).Undeclared != "",
	}, cause)
	if err != nil {
		return err
	}
	if len(changed) == 0 {
		return h.whyNotMapped(r.Context(), id)
	}
	respond.JSON(w, http.StatusOK, wire.Origin{ID: id, OriginalTopic: topic.Value, Confidence: entity.FromOperator})
	return nil
}

// checkOriginal refuses a name that is no valid topic, and a dead-letter topic, which cannot be an original topic. It
// applies the check of mapping rules.
func checkOriginal(topic string, dialects Dialects) error {
	const field = "original_topic"
	if !entity.ValidTopic(topic) {
		return &entity.FieldError{Field: field, Reason: "must be the name of a topic: 1 to 249 of A-Z a-z 0-9 . _ -"}
	}
	if err := dialects.CheckRules([]entity.TopicRule{{Pattern: "*", Original: topic}}); err != nil {
		reason := err.Error()
		if list := respond.FieldDetails(err); len(list) > 0 {
			reason = list[0].Reason
		}
		return &entity.FieldError{Field: field, Reason: reason}
	}
	return nil
}

func (h Changes) whyNotMapped(ctx context.Context, id uuid.UUID) error {
	m, err := h.Store.Get(ctx, id, 0)
	switch {
	case err != nil:
		return err
	case m.Claimed():
		return &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
	case m.Origin.Confidence == entity.FromHeader:
		return respond.Refused(entity.ErrConflict, "the record's own header names its original topic: "+m.OriginalTopic)
	case m.Status == entity.Resolved:
		return respond.Refused(entity.ErrConflict, "the message is RESOLVED: where it belongs no longer matters")
	default:
		return errors.New("set origin: the message was changed meanwhile")
	}
}
