package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
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

// Audit answers with the audit trail.
type Audit struct {
	Store    AuditStore
	Database AuditDatabase
	Masking  wire.Masking
	Cursors  request.Cursors
}

// AuditStore reads the objects that entries of the audit trail are about.
type AuditStore interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)
}

// AuditDatabase reads the audit trail, and the error groups that its entries are about.
type AuditDatabase interface {
	Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error)
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend) (entity.ErrorGroup, error)
}

// List shows the audit trail, the newest first.
func (h Audit) List(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Cursors.List(r, request.NumberSize, request.DefaultLimit, "object_id", "kind", "actor", "action", "request_id", "after", "until", "actor_kind", "by_request")
	if err != nil {
		return err
	}
	q, possible, err := readTrail(r.URL.Query())
	if err != nil {
		return err
	}
	q.Before, q.Limit, q.Visible = l.Number(), l.Limit+1, access.Principal(r).Scope(auth.Viewer)
	if possible, err = h.possible(r.Context(), q, possible); err != nil {
		return err
	}
	var entries []entity.AuditEntry
	if possible {
		if entries, err = h.Database.Trail(r.Context(), q); err != nil {
			return err
		}
	}
	entries, next := request.Part(l, entries, func(last entity.AuditEntry) []byte { return request.NumberPosition(last.ID) })
	respond.List(w, "changes", wire.Each(entries, h.show), next)
	return nil
}

// show returns an audit entry for the answer. An entry about a view contains the view's query. If the query cannot be
// read, or contains a value that is masked now, show masks the whole query, because the value may have become masked
// after the view was shared.
func (h Audit) show(e entity.AuditEntry) wire.Change {
	if e.Kind == entity.KindView {
		i := strings.LastIndex(e.LastError, " ") + 1 // the query of the view is the text after the last space
		if request.ShowsMasked(e.LastError[i:], h.Masking) {
			e.LastError = e.LastError[:i] + wire.MaskedText
		}
	}
	return wire.NewChange(e)
}

var (
	kinds   = []entity.Kind{entity.KindMessage, entity.KindRedrive, entity.KindGroup, entity.KindMapping, entity.KindList, entity.KindQuarantine, entity.KindView, entity.KindRedirect}
	actions = []entity.Action{
		entity.ActionRetry, entity.ActionAttempt, entity.ActionRequeue, entity.ActionDead, entity.ActionDelete,
		entity.ActionCreate, entity.ActionPass, entity.ActionPause, entity.ActionResume, entity.ActionCancel,
		entity.ActionStop, entity.ActionFinish, entity.ActionMap, entity.ActionRestore, entity.ActionErase, entity.ActionUnmask,
		entity.ActionAnnotate, entity.ActionReplace, entity.ActionReadPointer, entity.ActionSave, entity.ActionRedirect,
	}
)

// readTrail reads the parameters of a request for the audit trail. possible is false when no entry can match them.
func readTrail(query url.Values) (q repository.TrailQuery, possible bool, err error) {
	possible = true
	for _, p := range []struct {
		name string
		read func(text string) error
	}{
		{"object_id", func(text string) error {
			id, ok := request.CanonicalID(text)
			if q.ObjectID = id; !ok {
				return &entity.FieldError{Field: "object_id", Reason: "must be the id of a message, a redrive or an error group"}
			}
			return nil
		}},
		{"kind", func(string) (err error) { q.Kind, err = request.Word(query, "kind", kinds); return err }},
		{"action", func(string) (err error) { q.Action, err = request.Word(query, "action", actions); return err }},
		{"actor_kind", func(string) (err error) {
			q.ActorKind, err = request.Word(query, "actor_kind", []entity.ActorKind{entity.ActorPerson, entity.ActorMachine})
			return err
		}},
		{"by_request", func(string) (err error) { q.ByRequest, err = request.Bool(query, "by_request"); return err }},
		{"after", func(text string) (err error) { q.After, err = trailTime("after", text); return err }},
		{"until", func(text string) (err error) { q.Until, err = trailTime("until", text); return err }},
		{"actor", func(text string) error { q.Actor = text; return nil }},
		{"request_id", func(text string) error { q.RequestID = text; return nil }},
	} {
		text, err := request.Text(query, p.name)
		if err == nil && query.Has(p.name) {
			err = p.read(text)
			possible = possible && text != "" && request.PossibleText(text, request.MaxFilterText)
		}
		if err != nil {
			return q, false, err
		}
	}
	return q, possible, nil
}

// trailTime reads a time. A plus sign that was sent unescaped arrives as a space.
func trailTime(name, text string) (time.Time, error) {
	return request.ParseTime(name, strings.Replace(text, " ", "+", 1))
}

// seesChangesOf reports whether the principal may read the audit trail of an object. If the object is no live message,
// no redrive and no error group, that needs viewer on all topics.
func (h Audit) seesChangesOf(ctx context.Context, id uuid.UUID) (bool, error) {
	p := access.PrincipalFrom(ctx)
	if p.Everywhere(auth.Viewer) {
		return true, nil
	}
	m, err := h.Store.Get(ctx, id, 0)
	sees := err == nil && p.MayMessage(auth.Viewer, &m)
	if errors.Is(err, entity.ErrNotFound) {
		var redrive entity.Redrive
		redrive, err = h.Store.Redrive(ctx, id)
		sees = err == nil && access.Owns(p, &redrive)
	}
	if errors.Is(err, entity.ErrNotFound) {
		_, err = h.Database.ErrorGroup(ctx, id, p.Scope(auth.Viewer), repository.Trend{})
		sees = err == nil
	}
	if errors.Is(err, entity.ErrNotFound) {
		return false, nil
	}
	return sees, err
}

// possible reports whether the principal may see any entry that q matches; it returns false if the parameter possible
// is false. For a principal with roles on only some topics, q must name an object.
func (h Audit) possible(ctx context.Context, q repository.TrailQuery, possible bool) (bool, error) {
	if !possible || access.PrincipalFrom(ctx).Everywhere(auth.Viewer) {
		return possible, nil
	}
	if q.ObjectID == uuid.Nil {
		return false, respond.Refused(respond.ErrForbidden, "not allowed: without object_id this needs viewer on all topics",
			respond.Detail{Field: "role", Reason: "needs viewer on all topics"},
			respond.Detail{Field: "object_id", Reason: "is needed with roles on some topics only"})
	}
	return h.seesChangesOf(ctx, q.ObjectID)
}
