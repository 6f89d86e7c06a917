package rest

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// maxNarrowed caps the page depth for users with topic restrictions, whose pages are filtered row by row.
	maxNarrowed = 10_000

	// narrowedStep is how much of that is looked at at once.
	narrowedStep = 1000
)

func (s *Server) topicPage(ctx context.Context, name string, page repository.Page) (repository.List, error) {
	scope := principalFrom(ctx).Scope(auth.Viewer)
	if scope == nil {
		return s.store.List(ctx, name, page)
	}
	if s.db == nil {
		return repository.List{}, &repository.NeedsDatabaseError{Feature: "a list for roles on some topics only"}
	}
	if page.Offset() > maxNarrowed {
		return repository.List{}, &entity.FieldError{
			Field: "page", Reason: fmt.Sprintf("is behind %d messages, with roles on some topics only: use /api/v1/messages", maxNarrowed),
		}
	}
	filter := entity.Filter{Topic: name, Visible: scope}
	count, err := s.db.CountMatching(ctx, repository.CountQuery{Filter: filter, How: repository.CountExact})
	if err != nil || count.Messages == 0 {
		return repository.List{}, err
	}
	list := repository.List{Total: count.Messages}
	list.Messages, err = s.searchPage(ctx, repository.SearchQuery{Filter: filter, Limit: page.Size}, int(page.Offset()))
	return list, err
}

// searchPage returns what a search finds after the first skip messages.
func (s *Server) searchPage(ctx context.Context, q repository.SearchQuery, skip int) ([]entity.Message, error) {
	for skip > 0 {
		before := q
		before.Limit = min(skip, narrowedStep)
		found, err := s.db.Search(ctx, before)
		if err != nil || len(found.Messages) < before.Limit {
			return nil, err
		}
		last := found.Messages[len(found.Messages)-1]
		q.After, skip = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}, skip-before.Limit
	}
	found, err := s.db.Search(ctx, q)
	return found.Messages, err
}

// narrowOrder refuses a redrive whose action the principal may do nowhere, and limits others to its topics.
func narrowOrder(p auth.Principal, order *repository.NewRedrive) error {
	roles := rolesFor(order.Action, order.Options)
	for _, role := range roles {
		if !p.Anywhere(role) {
			return forbidden(role, anyTopic)
		}
	}
	if target := order.Options.OriginalTopic; target != "" && !p.May(roles[0], target) {
		return forbidden(roles[0], "topic "+clip(target))
	}
	order.Selection.Visible = scopeOfAll(p, roles...)
	return nil
}

// scopeOfAll returns the topics on which the principal has every one of the roles; nil for all topics.
func scopeOfAll(p auth.Principal, roles ...auth.Role) *entity.TopicPatterns {
	var scope *entity.TopicPatterns
	for _, role := range roles {
		scope = inBoth(scope, p.Scope(role))
	}
	return scope
}

// inBoth returns the topics of both scopes, of which nil is everything.
func inBoth(a, b *entity.TopicPatterns) *entity.TopicPatterns {
	switch {
	case a == nil:
		return b
	case b == nil || b.Equal(*a):
		return a
	}
	both := a.And(*b)
	return &both
}

// seesChangesOf reports whether the principal may read the audit trail of an object. An object that no longer
// exists needs viewer on all topics.
func (s *Server) seesChangesOf(ctx context.Context, id uuid.UUID) (bool, error) {
	p := principalFrom(ctx)
	if p.Everywhere(auth.Viewer) {
		return true, nil
	}
	m, err := s.store.Get(ctx, id, 0)
	sees := err == nil && p.MayMessage(auth.Viewer, &m)
	if errors.Is(err, entity.ErrNotFound) {
		var redrive entity.Redrive
		redrive, err = s.store.Redrive(ctx, id)
		sees = err == nil && owns(p, &redrive)
	}
	if errors.Is(err, entity.ErrNotFound) {
		_, err = s.db.ErrorGroup(ctx, id, p.Scope(auth.Viewer), repository.Trend{})
		sees = err == nil
	}
	if errors.Is(err, entity.ErrNotFound) {
		return false, nil
	}
	return sees, err
}

// possibleTrail reports whether q can match anything for the principal. With roles on some topics q must name
// an object.
func (s *Server) possibleTrail(ctx context.Context, q repository.TrailQuery, possible bool) (bool, error) {
	if !possible || principalFrom(ctx).Everywhere(auth.Viewer) {
		return possible, nil
	}
	if q.ObjectID == uuid.Nil {
		return false, refused(errForbidden, "not allowed: without object_id this needs viewer on all topics",
			detail{"role", "needs viewer on all topics"},
			detail{"object_id", "is needed with roles on some topics only"})
	}
	return s.seesChangesOf(ctx, q.ObjectID)
}
