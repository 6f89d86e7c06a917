package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// needs is the permission that a route requires. The zero value refuses every caller, so that a route without a
// policy stays closed.
type needs struct {
	role  auth.Role // "" where about is open or oneself
	about about
}

// about is the object of a route on which the role is needed.
type about int

const (
	undecided      about = iota // refused for every caller
	open                        // every caller, also without authentication
	oneself                     // every authenticated caller
	someTopics                  // on any topic; the handler restricts itself to the principal's topics
	oneTopic                    // on the topic of the path
	oneMessage                  // on the message of the path
	oneRetried                  // on the message of the path, which messageToRetry keeps after reading it
	oneArchived                 // on the archived message of the path
	oneGroup                    // on a topic of the error group of the path
	oneRedrive                  // on all topics; for the caller's own redrive, on any topic
	oneQuarantined              // on the dead-letter topic of the quarantined record of the path
	everything                  // on all topics
)

var errForbidden = errors.New("forbidden")

// forbidden returns an error that names the missing role, and on which topics it is needed.
func forbidden(role auth.Role, where string) error {
	need := fmt.Sprintf("needs %s on %s", role, where)
	return refused(errForbidden, "not allowed: "+need, detail{"role", need})
}

// Where a role is missing; used with forbidden.
const (
	anyTopic  = "a topic"
	allTopics = "all topics"
)

// guardedBy returns a route's handler with its permission checks. An object that the caller may not see is reported
// as missing. An answer that was stored under an Idempotency-Key is sent without a check of the object, which may no
// longer exist.
func (s *Server) guardedBy(rt route) handler {
	if rt.feature != everyStore && s.db == nil {
		return func(_ http.ResponseWriter, r *http.Request) error {
			if err := unless(principalOf(r).Anywhere(rt.needs.role), rt.needs.role, anyTopic); err != nil {
				return err
			}
			return &repository.NeedsDatabaseError{Feature: string(rt.feature)}
		}
	}
	permitted := func(w http.ResponseWriter, r *http.Request) error {
		if err := s.permit(rt.needs, r); err != nil {
			return err
		}
		return rt.handle(w, r)
	}
	if !rt.keyed() {
		return permitted
	}
	keyed := s.keyed(permitted)
	return func(w http.ResponseWriter, r *http.Request) error {
		if !principalOf(r).Anywhere(rt.needs.role) {
			return permitted(w, r) // it will be refused, without storing a key
		}
		return keyed(w, r)
	}
}

func (s *Server) permit(n needs, r *http.Request) error {
	p := principalOf(r)
	switch n.about {
	case open, oneself:
		return nil
	case someTopics:
		return unless(p.Anywhere(n.role), n.role, anyTopic)
	case oneTopic:
		return permitTopic(p, n.role, topic(r))
	case oneMessage:
		return permitMessage(p, n.role, r, s.store.Get)
	case oneRetried:
		return permitObject(p, n.role, r, "message", func(_ context.Context, id uuid.UUID) error {
			m, err := s.messageToRetry(r, id)
			if err != nil {
				return err
			}
			return mayMessage(p, n.role, m)
		})
	case oneArchived:
		return permitMessage(p, n.role, r, s.getArchivedOrRestored)
	case oneGroup:
		return s.permitGroup(p, n.role, r)
	case oneRedrive:
		return s.permitRedrive(p, n.role, r)
	case oneQuarantined:
		return s.permitQuarantined(p, n.role, r)
	case everything:
		return unless(p.Everywhere(n.role), n.role, allTopics)
	case undecided:
	}
	return forbidden(n.role, "a route without a permission")
}

func unless(allowed bool, role auth.Role, where string) error {
	if allowed {
		return nil
	}
	return forbidden(role, where)
}

// permitTopic accepts callers with the role on the topic, and callers who do not see the topic: for them it has no
// messages.
func permitTopic(p auth.Principal, role auth.Role, name string) error {
	switch {
	case !p.Anywhere(role):
		return forbidden(role, anyTopic)
	case p.May(auth.Viewer, name):
		return unless(p.May(role, name), role, "topic "+clip(name))
	default:
		return nil
	}
}

// permitObject checks the object of the path. It does not load the object for callers with the role on all topics,
// who are most callers.
func permitObject(
	p auth.Principal, role auth.Role, r *http.Request, what string, check func(context.Context, uuid.UUID) error,
) error {
	id, err := idOf(r, what)
	if err != nil || p.Everywhere(auth.Viewer) && p.Everywhere(role) {
		return err
	}
	if !p.Anywhere(auth.Viewer) {
		return forbidden(role, anyTopic)
	}
	return check(r.Context(), id)
}

func permitMessage(p auth.Principal, role auth.Role, r *http.Request, load getter) error {
	return permitObject(p, role, r, "message", func(ctx context.Context, id uuid.UUID) error {
		m, err := load(ctx, id, 0)
		if err != nil {
			return err
		}
		return mayMessage(p, role, &m)
	})
}

// getArchivedOrRestored also finds a message that an earlier request with the same key has already restored.
func (s *Server) getArchivedOrRestored(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	m, err := s.db.GetArchived(ctx, id, maxValue)
	if errors.Is(err, entity.ErrNotFound) && taskOf(ctx).resumed {
		return s.store.Get(ctx, id, maxValue)
	}
	return m, err
}

// permitGroup asks the store for the topics of a group, because its messages may be of many topics.
func (s *Server) permitGroup(p auth.Principal, role auth.Role, r *http.Request) error {
	return permitObject(p, role, r, "group", func(ctx context.Context, id uuid.UUID) error {
		_, err := s.db.ErrorGroup(ctx, id, p.Scope(auth.Viewer), repository.Trend{})
		if err != nil || role == auth.Viewer {
			return err
		}
		_, err = s.db.ErrorGroup(ctx, id, p.Scope(role), repository.Trend{})
		if errors.Is(err, entity.ErrNotFound) {
			return forbidden(role, "a topic of the group")
		}
		return err
	})
}

// permitRedrive shows a redrive to its creator and to viewers of all topics. To change it, the caller needs the roles
// of its action now, because grants may have changed since the redrive was created.
func (s *Server) permitRedrive(p auth.Principal, role auth.Role, r *http.Request) error {
	id, err := idOf(r, "redrive")
	if err != nil || p.Everywhere(auth.Admin) {
		return err
	}
	if !p.Anywhere(auth.Viewer) {
		return forbidden(role, anyTopic)
	}
	redrive, err := s.store.Redrive(r.Context(), id)
	if err != nil {
		return err
	}
	own := owns(p, &redrive)
	if !own && !p.Everywhere(auth.Viewer) {
		return &entity.RedriveNotFoundError{ID: id}
	}
	if role == auth.Viewer {
		return nil
	}
	for _, role := range rolesFor(redrive.Action, redrive.Options) {
		if !p.Everywhere(role) && !(own && covers(p, role, redrive.Selection.Visible)) {
			return forbidden(role, "every topic of the redrive")
		}
	}
	return nil
}

// owns reports whether the principal created the redrive and may still see all of its topics.
func owns(p auth.Principal, redrive *entity.Redrive) bool {
	return redrive.Cause.Actor == p.Name && covers(p, auth.Viewer, redrive.Selection.Visible)
}

// covers reports whether the principal has the role on all topics of a scope that was granted earlier. Patterns are
// compared by their texts.
func covers(p auth.Principal, role auth.Role, scope *entity.TopicPatterns) bool {
	granted := p.Scope(role)
	if granted == nil || scope == nil {
		return granted == nil
	}
	texts := granted.Texts()
	return slices.ContainsFunc(scope.Parts(), func(part entity.TopicPatterns) bool {
		return !slices.ContainsFunc(part.Texts(), func(text string) bool { return !slices.Contains(texts, text) })
	})
}

// mayMessage checks a loaded message. For callers who may not see it, the error is that it does not exist.
func mayMessage(p auth.Principal, role auth.Role, m *entity.Message) error {
	if !p.MayMessage(auth.Viewer, m) {
		return &entity.NotFoundError{ID: m.ID}
	}
	return unless(p.MayMessage(role, m), role, whereIs(m))
}

// mayTopic checks a role on a topic that is not the route's own object.
func (s *Server) mayTopic(r *http.Request, role auth.Role, topic string) error {
	return unless(principalOf(r).May(role, topic), role, "topic "+clip(topic))
}

func whereIs(m *entity.Message) string {
	if m.OriginalTopic != "" {
		return "topic " + m.OriginalTopic
	}
	if m.Source.Topic != "" {
		return "topic " + m.Source.Topic
	}
	return allTopics // for a message of unknown topic
}

// rolesFor returns the roles that a redrive's creator needs on the topic of each message.
func rolesFor(action entity.RedriveAction, options entity.RedriveOptions) []auth.Role {
	roles := []auth.Role{auth.Operator}
	if action == entity.RedriveDelete {
		roles[0] = auth.Admin
	}
	if options.Patch != nil {
		roles = append(roles, auth.Edit)
	}
	return roles
}

// principalOf returns the principal of the request; one without grants where it is unknown.
func principalOf(r *http.Request) auth.Principal { return principalFrom(r.Context()) }

type principalKey struct{}

func principalFrom(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal)
	return p
}
