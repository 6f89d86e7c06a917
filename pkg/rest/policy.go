package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// policy checks the permissions that routes require.
type policy struct {
	store policyStore
	db    policyDatabase // nil: the store is in memory
}

// policyStore reads the objects that requests name.
type policyStore interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)
}

// policyDatabase reads the objects of routes that need a database.
type policyDatabase interface {
	GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend) (entity.ErrorGroup, error)
	QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error)
}

func (c policy) permit(n permission, r *http.Request) error {
	p := access.Principal(r)
	switch n.scope {
	case open, self:
		return nil
	case someTopics:
		return access.Require(p.Anywhere(n.role), n.role, access.AnyTopic)
	case oneTopic:
		return permitTopic(p, n.role, request.Topic(r))
	case namedTopic:
		return access.MayTopic(r, n.role, request.Topic(r))
	case oneMessage:
		return permitMessage(p, n.role, r, c.store.Get)
	case oneRetried:
		return permitObject(p, n.role, r, "message", func(_ context.Context, id uuid.UUID) error {
			m, err := request.RetriedMessage(r, id, c.store.Get)
			if err != nil {
				return err
			}
			return access.MayMessage(p, n.role, m)
		})
	case oneArchived:
		return c.permitArchived(p, n.role, r)
	case oneErrorGroup:
		return c.permitErrorGroup(p, n.role, r)
	case oneRedrive:
		return c.permitRedrive(p, n.role, r)
	case oneQuarantined:
		return c.permitQuarantined(p, n.role, r)
	case everything:
		return access.Require(p.Everywhere(n.role), n.role, access.AllTopics)
	case undecided:
	}
	return access.Forbidden(n.role, "a route without a permission")
}

// permitTopic accepts callers who have the role on the topic. It also accepts callers with the role on another topic
// who may not see this topic: their answer is the same as for a topic without messages.
func permitTopic(p auth.Principal, role auth.Role, name string) error {
	switch {
	case !p.Anywhere(role):
		return access.Forbidden(role, access.AnyTopic)
	case p.May(auth.Viewer, name):
		return access.Require(p.May(role, name), role, "topic "+respond.Clip(name))
	default:
		return nil
	}
}

// permitObject calls check for the object whose id is in the path. For callers with the role and viewer on all topics,
// who are most callers, it does not load the object.
func permitObject(
	p auth.Principal, role auth.Role, r *http.Request, what string, check func(context.Context, uuid.UUID) error,
) error {
	id, err := request.ID(r, what)
	if err != nil || p.Everywhere(auth.Viewer) && p.Everywhere(role) {
		return err
	}
	if !p.Anywhere(auth.Viewer) {
		return access.Forbidden(role, access.AnyTopic)
	}
	return check(r.Context(), id)
}

func permitMessage(p auth.Principal, role auth.Role, r *http.Request, load request.Getter) error {
	return permitObject(p, role, r, "message", func(ctx context.Context, id uuid.UUID) error {
		m, err := load(ctx, id, 0)
		if err != nil {
			return err
		}
		return access.MayMessage(p, role, &m)
	})
}

// permitArchived checks the role on the topic of the path's archived message. It accepts a message that no longer
// exists if an earlier request with the same Idempotency-Key may have erased it. The handler then answers 404 unless
// that request did erase it.
func (c policy) permitArchived(p auth.Principal, role auth.Role, r *http.Request) error {
	erased := false
	err := permitMessage(p, role, r, func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
		m, err := c.getArchivedOrRestored(ctx, id, maxValue)
		erased = errors.Is(err, entity.ErrNotFound) && request.TaskOf(ctx).Resumed
		return m, err
	})
	if erased {
		return nil
	}
	return err
}

// getArchivedOrRestored returns a message of the archive. If an earlier request with the same Idempotency-Key may have
// restored it, the message may also be live.
func (c policy) getArchivedOrRestored(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	m, err := c.db.GetArchived(ctx, id, maxValue)
	if errors.Is(err, entity.ErrNotFound) && request.TaskOf(ctx).Resumed {
		return c.store.Get(ctx, id, maxValue)
	}
	return m, err
}

// permitErrorGroup asks the store whether a topic of the group is in the role's topics, because a group may have many.
func (c policy) permitErrorGroup(p auth.Principal, role auth.Role, r *http.Request) error {
	return permitObject(p, role, r, "group", func(ctx context.Context, id uuid.UUID) error {
		_, err := c.db.ErrorGroup(ctx, id, p.Scope(auth.Viewer), repository.Trend{})
		if err != nil || role == auth.Viewer {
			return err
		}
		_, err = c.db.ErrorGroup(ctx, id, p.Scope(role), repository.Trend{})
		if errors.Is(err, entity.ErrNotFound) {
			return access.Forbidden(role, "a topic of the group")
		}
		return err
	})
}

// permitRedrive shows a redrive to viewers of all topics, and to its creator who still sees its topics. To change the
// redrive, the caller needs the roles of its action now: grants may have changed since its creation.
func (c policy) permitRedrive(p auth.Principal, role auth.Role, r *http.Request) error {
	id, err := request.ID(r, "redrive")
	if err != nil || p.Everywhere(auth.Admin) {
		return err
	}
	if !p.Anywhere(auth.Viewer) {
		return access.Forbidden(role, access.AnyTopic)
	}
	redrive, err := c.store.Redrive(r.Context(), id)
	if err != nil {
		return err
	}
	own := access.Owns(p, &redrive)
	if !own && !p.Everywhere(auth.Viewer) {
		return &entity.RedriveNotFoundError{ID: id}
	}
	if role == auth.Viewer {
		return nil
	}
	for _, role := range access.RolesFor(redrive.Action, redrive.Options) {
		if !p.Everywhere(role) && !(own && access.Covers(p, role, redrive.Selection.Visible)) {
			return access.Forbidden(role, "every topic of the redrive")
		}
	}
	return nil
}

// permitQuarantined checks the role on the dead-letter topic of the record, because the original topic of the record is
// not known yet.
func (c policy) permitQuarantined(p auth.Principal, role auth.Role, r *http.Request) error {
	return permitObject(p, role, r, "quarantine", func(ctx context.Context, id uuid.UUID) error {
		q, err := c.db.QuarantinedRecord(ctx, id)
		if err == nil && !p.May(auth.Viewer, q.Source.Topic) {
			err = &entity.QuarantineNotFoundError{ID: id}
		}
		if err != nil {
			return err
		}
		return access.Require(p.May(role, q.Source.Topic), role, "topic "+respond.Clip(q.Source.Topic))
	})
}
