package messages

import (
	"context"
	"errors"
	"net/http"
	"slices"

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

// maxLineage is the maximum number of ancestors of a message that are read. A lineage cannot have more messages than
// attempts are allowed, which is a small number.
const maxLineage = 50

// Histories answers with the attempts and changes of a message, and with its ancestors.
type Histories struct {
	Load   request.Getter // loads from the live table or from the archive
	Store  HistoryStore
	Trail  Trail // nil: no changes are shown
	Unmask unmask.Rules
}

// HistoryStore reads the attempts and the ancestors of messages.
type HistoryStore interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)
}

// Trail is the audit trail.
type Trail interface {
	Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error)
}

// Get loads the message first, because the history is empty both for a message that was never retried and for a
// message that does not exist.
func (h Histories) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	m, err := h.Load(r.Context(), id, 0)
	if err != nil {
		return err
	}
	unmask, err := h.Unmask.One(r, &m)
	if err != nil {
		return err
	}
	shown := wire.History{ID: id}
	if shown.Past, err = h.pastOf(r.Context(), m, h.Load, unmask); err != nil {
		return err
	}
	if shown.Lineage, err = h.lineageOf(r.Context(), m, unmask); err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

func (h Histories) pastOf(ctx context.Context, m entity.Message, load request.Getter, unmask bool) (past wire.Past, err error) {
	attempts, err := h.Store.History(ctx, m.ID)
	if err != nil {
		return past, err
	}
	was := before{message: m, load: load, unmasked: unmask && access.PrincipalFrom(ctx).MayMessage(auth.Unmask, &m)}
	past.Attempts = wire.Each(attempts, wire.NewAttempt)
	reader := h.Unmask.Reader(ctx)
	for i, a := range attempts {
		if a.Edit == nil {
			continue
		}
		if err := was.read(ctx); err != nil {
			return past, err
		}
		past.Attempts[i].Edit = wire.NewEdit(a.Edit, &was.message, was.unmasked, h.Unmask.Masking, reader)
	}
	past.Changes, err = h.changesOf(ctx, m.ID)
	return past, err
}

// lineageOf returns the ancestors of a message, its parent first, at most maxLineage. It stops at an ancestor that is
// not live or that the caller may not see.
func (h Histories) lineageOf(ctx context.Context, m entity.Message, unmask bool) ([]wire.Ancestor, error) {
	list := []wire.Ancestor{}
	for m.Parent != uuid.Nil && len(list) < maxLineage {
		var err error
		if m, err = h.Store.Get(ctx, m.Parent, 0); errors.Is(err, entity.ErrNotFound) {
			break // the ancestor was deleted or archived
		}
		if err != nil {
			return nil, err
		}
		if !access.PrincipalFrom(ctx).MayMessage(auth.Viewer, &m) {
			break
		}
		shown := wire.Ancestor{
			ID: m.ID, ParentID: wire.OrNull(m.Parent), Status: m.Status, Outcome: wire.OrNull(m.Outcome),
			RetryCount: m.RetryCount, CreatedAt: wire.Stamp(m.CreatedAt),
		}
		if shown.Past, err = h.pastOf(ctx, m, h.Store.Get, unmask); err != nil {
			return nil, err
		}
		list = append(list, shown)
	}
	return list, nil
}

// changesOf returns the latest request.MaxLimit entries of the audit trail about a message, the oldest first; none
// without a database.
func (h Histories) changesOf(ctx context.Context, id uuid.UUID) ([]wire.Change, error) {
	if h.Trail == nil {
		return []wire.Change{}, nil
	}
	entries, err := h.Trail.Trail(ctx, repository.TrailQuery{ObjectID: id, Kind: entity.KindMessage, Limit: request.MaxLimit})
	if err != nil {
		return nil, err
	}
	slices.Reverse(entries)
	return wire.Each(entries, wire.NewChange), nil
}

// before is the message that edits are compared with. It is loaded when the first edit needs it.
type before struct {
	message  entity.Message
	load     request.Getter // loads from the live table or the archive
	loaded   bool
	unmasked bool
}

// read loads the value of the message, unless it is too large to be compared. An edit of a message that no longer
// exists is not compared.
func (b *before) read(ctx context.Context) error {
	if b.loaded {
		return nil
	}
	b.loaded = true
	m, err := b.load(ctx, b.message.ID, wire.MaxPayload)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	if err == nil {
		b.message = m
	}
	return nil
}
