// Package access knows the principal of a request, and on which topics the principal has a role.
package access

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// Principal returns the principal of the request, or a principal without grants if it is unknown.
func Principal(r *http.Request) auth.Principal { return PrincipalFrom(r.Context()) }

type principalKey struct{}

// WithPrincipal returns the context of a request of p.
func WithPrincipal(ctx context.Context, p auth.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the principal of the request with this context.
func PrincipalFrom(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal)
	return p
}

// Forbidden returns an error that names the missing role, and on which topics it is needed.
func Forbidden(role auth.Role, where string) error {
	need := fmt.Sprintf("needs %s on %s", role, where)
	return respond.Refused(respond.ErrForbidden, "not allowed: "+need, respond.Detail{Field: "role", Reason: need})
}

// Values for the parameter where of Forbidden, when the role is not needed on one certain topic.
const (
	AnyTopic  = "a topic"
	AllTopics = "all topics"
)

// Require returns an error that names the missing role, unless allowed.
func Require(allowed bool, role auth.Role, where string) error {
	if allowed {
		return nil
	}
	return Forbidden(role, where)
}

// MayMessage checks the role on a loaded message. For callers who may not see it, the error is that it does not exist.
func MayMessage(p auth.Principal, role auth.Role, m *entity.Message) error {
	if !p.MayMessage(auth.Viewer, m) {
		return &entity.NotFoundError{ID: m.ID}
	}
	return Require(p.MayMessage(role, m), role, whereIs(m))
}

// MayTopic returns an error unless the principal has the role on the topic.
func MayTopic(r *http.Request, role auth.Role, topic string) error {
	return Require(Principal(r).May(role, topic), role, "topic "+respond.Clip(topic))
}

func whereIs(m *entity.Message) string {
	if m.OriginalTopic != "" {
		return "topic " + m.OriginalTopic
	}
	if m.Source.Topic != "" {
		return "topic " + m.Source.Topic
	}
	return AllTopics // the message's topic is unknown, so the role is needed on all topics
}

// Owns reports whether the principal created the redrive and may still see all of its topics.
func Owns(p auth.Principal, redrive *entity.Redrive) bool {
	return redrive.Cause.Actor == p.Name && Covers(p, auth.Viewer, redrive.Selection.Visible)
}

// Covers reports whether the principal has the role on all topics of a scope, which an earlier grant may have given. It
// compares the texts of patterns, not the topics that they match.
func Covers(p auth.Principal, role auth.Role, scope *entity.TopicPatterns) bool {
	granted := p.Scope(role)
	if granted == nil || scope == nil {
		return granted == nil
	}
	texts := granted.Texts()
	return slices.ContainsFunc(scope.Parts(), func(part entity.TopicPatterns) bool {
		return !slices.ContainsFunc(part.Texts(), func(text string) bool { return !slices.Contains(texts, text) })
	})
}

// RolesFor returns the roles that a redrive's creator needs on the topic of each message.
func RolesFor(action entity.RedriveAction, options entity.RedriveOptions) []auth.Role {
	roles := []auth.Role{auth.Operator}
	if action == entity.RedriveDelete {
		roles[0] = auth.Admin
	}
	if options.Patch != nil {
		roles = append(roles, auth.Edit)
	}
	return roles
}

// NarrowRedrive returns an error if the principal may perform the action on no topic, or not on the original topic that
// the redrive sets. Otherwise it limits the selection of the redrive to the topics on which the principal may perform
// the action.
func NarrowRedrive(p auth.Principal, order *repository.NewRedrive) error {
	roles := RolesFor(order.Action, order.Options)
	for _, role := range roles {
		if !p.Anywhere(role) {
			return Forbidden(role, AnyTopic)
		}
	}
	if target := order.Options.OriginalTopic; target != "" && !p.May(roles[0], target) {
		return Forbidden(roles[0], "topic "+respond.Clip(target))
	}
	order.Selection.Visible = ScopeOfAll(p, roles...)
	return nil
}

// ScopeOfAll returns the topics on which the principal has every one of the roles; nil for all topics.
func ScopeOfAll(p auth.Principal, roles ...auth.Role) *entity.TopicPatterns {
	var scope *entity.TopicPatterns
	for _, role := range roles {
		scope = InBoth(scope, p.Scope(role))
	}
	return scope
}

// InBoth returns the topics that are in both scopes; nil means all topics.
func InBoth(a, b *entity.TopicPatterns) *entity.TopicPatterns {
	switch {
	case a == nil:
		return b
	case b == nil || b.Equal(*a):
		return a
	}
	both := a.And(*b)
	return &both
}
