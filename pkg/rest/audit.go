package rest

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

type changeJSON struct {
	ID         int64              `json:"id"`
	At         *string            `json:"at"`
	Action     entity.Action      `json:"action"`
	Kind       entity.Kind        `json:"kind"`
	ObjectID   uuid.UUID          `json:"object_id"`
	From       *string            `json:"from"`
	To         *string            `json:"to"`
	RetryCount *int               `json:"retry_count"`
	ErrorClass *entity.ErrorClass `json:"error_class"`
	Error      *string            `json:"error"`
	Actor      *string            `json:"actor"`
	Reason     *string            `json:"reason"`
	RequestID  *string            `json:"request_id"`
	TraceID    *string            `json:"trace_id"`
	Topics     []string           `json:"topics,omitempty"`
}

func showChange(e entity.AuditEntry) changeJSON {
	shown := changeJSON{
		ID: e.ID, At: stamp(e.At), Action: e.Action, Kind: e.Kind, ObjectID: e.ObjectID, From: orNull(e.From),
		To: orNull(e.To), ErrorClass: orNull(e.Class), Error: orNull(e.LastError), Actor: orNull(e.Cause.Actor),
		Reason: orNull(e.Cause.Reason), RequestID: orNull(e.Cause.RequestID), TraceID: orNull(e.Cause.TraceID),
	}
	if e.Topics != "" {
		shown.Topics = strings.Split(e.Topics, ",")
	}
	if e.Kind == entity.KindMessage {
		shown.RetryCount = &e.RetryCount
	}
	return shown
}

// listChanges shows the audit trail, the newest first.
func (s *Server) listChanges(w http.ResponseWriter, r *http.Request) error {
	l, err := s.listingOf(r, numberSize, defaultLimit, "object_id", "kind", "actor", "action", "request_id", "after")
	if err != nil {
		return err
	}
	q, possible, err := trailOf(r.URL.Query())
	if err != nil {
		return err
	}
	q.Before, q.Limit, q.Visible = l.number(), l.limit+1, principalOf(r).Scope(auth.Viewer)
	if possible, err = s.possibleTrail(r.Context(), q, possible); err != nil {
		return err
	}
	var entries []entity.AuditEntry
	if possible {
		if entries, err = s.db.Trail(r.Context(), q); err != nil {
			return err
		}
	}
	entries, next := part(l, entries, func(last entity.AuditEntry) []byte { return numberPlace(last.ID) })
	writeList(w, "changes", each(entries, showChange), next)
	return nil
}

var (
	kinds   = []entity.Kind{entity.KindMessage, entity.KindRedrive, entity.KindGroup, entity.KindMapping, entity.KindList, entity.KindQuarantine}
	actions = []entity.Action{
		entity.ActionRetry, entity.ActionAttempt, entity.ActionRequeue, entity.ActionDead, entity.ActionDelete,
		entity.ActionCreate, entity.ActionPass, entity.ActionPause, entity.ActionResume, entity.ActionCancel,
		entity.ActionStop, entity.ActionFinish, entity.ActionMap, entity.ActionRestore, entity.ActionUnmask,
		entity.ActionAnnotate, entity.ActionReplace, entity.ActionReadPointer,
	}
)

// trailOf reads the query of the trail. possible is false when no entry can match it.
func trailOf(query url.Values) (q repository.TrailQuery, possible bool, err error) {
	possible = true
	for _, p := range []struct {
		name string
		read func(text string) error
	}{
		{"object_id", func(text string) error {
			id, ok := canonicalID(text)
			if q.ObjectID = id; !ok {
				return &entity.FieldError{Field: "object_id", Reason: "must be the id of a message, a redrive or an error group"}
			}
			return nil
		}},
		{"kind", func(string) (err error) { q.Kind, err = wordParameter(query, "kind", kinds); return err }},
		{"action", func(string) (err error) { q.Action, err = wordParameter(query, "action", actions); return err }},
		{"after", func(text string) (err error) {
			// The plus sign of an offset becomes a space where it is sent unescaped.
			q.After, err = parseTime("after", strings.Replace(text, " ", "+", 1))
			return err
		}},
		{"actor", func(text string) error { q.Actor = text; return nil }},
		{"request_id", func(text string) error { q.RequestID = text; return nil }},
	} {
		text, err := textParameter(query, p.name)
		if err == nil && query.Has(p.name) {
			err = p.read(text)
			possible = possible && text != "" && possibleText(text, maxFilterText)
		}
		if err != nil {
			return q, false, err
		}
	}
	return q, possible, nil
}

// changesOf returns the latest maxLimit entries of the audit trail about a message, the oldest first; none
// without a database.
func (s *Server) changesOf(ctx context.Context, id uuid.UUID) ([]changeJSON, error) {
	if s.db == nil {
		return []changeJSON{}, nil
	}
	entries, err := s.db.Trail(ctx, repository.TrailQuery{ObjectID: id, Kind: entity.KindMessage, Limit: maxLimit})
	if err != nil {
		return nil, err
	}
	slices.Reverse(entries)
	return each(entries, showChange), nil
}
