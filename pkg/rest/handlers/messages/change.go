// Package messages answers requests about single messages, live or archived: it shows them, sends them back and changes
// them. The caller has checked that the principal has the route's role on the message.
package messages

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Changes changes single messages.
type Changes struct {
	Store    ChangeStore
	Database ChangeDatabase // nil: in memory
	Redriver Redriver
	Origins  Origins
	Dialects Dialects
	Bodies   request.Bodies
}

// ChangeStore is the part of the store that changes messages.
type ChangeStore interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)
	request.Performer
}

// ChangeDatabase is the part of the database that changes messages.
type ChangeDatabase interface {
	Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error)
	Restore(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)
}

// Dialects reads the headers of dead-letter producers.
type Dialects interface {
	// IsPointer reports whether the record has no value because it only points to the record that failed.
	IsPointer(m *entity.Message) bool

	// StripsHeader reports whether replays to the topic remove such a header because producers of that dialect write
	// it; an edit must not set it.
	StripsHeader(dialect, topic, name string) bool

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
	return h.move(w, r, h.Redriver.GiveUp, "marked dead")
}

// move changes the status of a message by hand.
func (h Changes) move(
	w http.ResponseWriter, r *http.Request, step func(context.Context, uuid.UUID, entity.Cause) (entity.Message, error), done string,
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
