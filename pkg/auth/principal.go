package auth

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Role is a set of permissions.
type Role string

// The roles. Operator includes Viewer; Admin includes Operator, Viewer and Edit. No other role includes Unmask.
const (
	Viewer   Role = "viewer"   // see messages, with masked values hidden
	Operator Role = "operator" // change and retry messages, such as requeue them or mark them dead; annotate error groups
	Admin    Role = "admin"    // delete messages, redirect topics; with the role on all topics: change the mapping
	Edit     Role = "edit"     // send a changed record
	Unmask   Role = "unmask"   // see masked values
)

// Roles lists every role.
func Roles() []Role { return []Role{Viewer, Operator, Admin, Edit, Unmask} }

var includes = map[Role][]Role{
	Viewer:   {Viewer},
	Operator: {Viewer, Operator},
	Admin:    {Viewer, Operator, Admin, Edit},
	Edit:     {Edit},
	Unmask:   {Unmask},
}

// Includes reports whether r has the permissions of the role other.
func (r Role) Includes(other Role) bool { return slices.Contains(includes[r], other) }

// Anonymous is the principal's name in mode none.
const Anonymous = "anonymous"

// Grant is a role on some topics, or on all messages.
type Grant struct {
	Role   Role
	Topics entity.TopicPatterns // TopicPatterns.Sees decides which messages match
	All    bool                 // whether the grant is for all messages, including those of unknown topic
}

// TopicTexts returns the topics as they are configured: "*" for all.
func (g Grant) TopicTexts() []string {
	if g.All {
		return []string{everything}
	}
	return g.Topics.Texts()
}

// Principal is the sender of a request. The zero value has no role. It never changes and is safe for concurrent use.
type Principal struct {
	Name   string
	Grants []Grant
}

// May reports whether the principal has the role on the topic. The topic "" means an unknown topic, which needs
// the role on all messages.
func (p Principal) May(role Role, topic string) bool {
	return p.has(role, func(g Grant) bool { return topic != "" && g.Topics.Match(topic) })
}

// MayMessage reports whether the principal has the role on the message.
func (p Principal) MayMessage(role Role, m *entity.Message) bool {
	return p.has(role, func(g Grant) bool { return g.Topics.Sees(m) })
}

// Everywhere reports whether the principal has the role on all messages.
func (p Principal) Everywhere(role Role) bool {
	return p.has(role, func(Grant) bool { return false })
}

// Anywhere reports whether the principal has the role on at least one topic.
func (p Principal) Anywhere(role Role) bool {
	return p.has(role, func(Grant) bool { return true })
}

// Scope returns the topics of the role, for filters of lists: nil for all messages, and patterns that match no topic
// when there is no grant.
func (p Principal) Scope(role Role) *entity.TopicPatterns {
	if p.Everywhere(role) {
		return nil
	}
	var texts []string
	for _, g := range p.Grants {
		for _, text := range g.Topics.Texts() {
			if g.Role.Includes(role) && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	// Each pattern was parsed before. If parsing failed nevertheless, the result must not be a nil scope, which means
	// all topics.
	scope, err := entity.ParseTopicPatterns("topics", texts...)
	if err != nil {
		return &entity.TopicPatterns{}
	}
	return &scope
}

func (p Principal) has(role Role, reaches func(Grant) bool) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return g.Role.Includes(role) && (g.All || reaches(g))
	})
}

// ErrUnauthenticated means that the request has no valid credentials. Its text is for logs; clients must not learn
// whether a token is unknown, expired or malformed.
var ErrUnauthenticated = errors.New("unauthenticated")

// refuse returns an ErrUnauthenticated with a reason.
func refuse(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrUnauthenticated)...)
}
