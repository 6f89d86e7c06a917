package session

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Viewer is the user who sends a request, with the roles that the API reports. A nil *Viewer may do nothing.
type Viewer struct {
	Name    string  `json:"name"`
	Mode    string  `json:"mode"`
	Grants  []Grant `json:"grants"`
	Masking bool    `json:"masking"`
}

// Grant is a role on topics, which are named by globs or by regular expressions that begin with ^.
type Grant struct {
	Role   string   `json:"role"`
	Topics []string `json:"topics"`
}

// includes lists what each role includes, as the API defines it.
var includes = map[string][]string{
	"viewer":   {"viewer"},
	"operator": {"viewer", "operator"},
	"admin":    {"viewer", "operator", "admin", "edit"},
	"edit":     {"edit"},
	"unmask":   {"unmask"},
}

type viewerKey struct{}

// WithViewer returns the request with its user.
func WithViewer(r *http.Request, v *Viewer) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), viewerKey{}, v))
}

// ViewerOf returns the user who sends the request, or nil on pages without authentication.
func ViewerOf(r *http.Request) *Viewer {
	v, _ := r.Context().Value(viewerKey{}).(*Viewer)
	return v
}

// May reports whether the viewer has the role on all the given topics; without topics, on at least one topic. It only
// decides what a page offers: the API checks each request.
func (v *Viewer) May(role string, topics ...string) bool {
	if len(topics) == 0 {
		return v.has(role, func(Grant) bool { return true })
	}
	return !slices.ContainsFunc(topics, func(topic string) bool {
		return !v.has(role, func(g Grant) bool { return g.matches(topic) })
	})
}

// Everywhere reports whether the viewer has the role on all topics.
func (v *Viewer) Everywhere(role string) bool {
	return v.has(role, func(g Grant) bool { return slices.Contains(g.Topics, "*") })
}

func (v *Viewer) has(role string, matches func(Grant) bool) bool {
	return v != nil && slices.ContainsFunc(v.Grants, func(g Grant) bool {
		return slices.Contains(includes[g.Role], role) && matches(g)
	})
}

// Topics lists the topics that the viewer may see, in words; "" for a viewer who may see all topics.
func (v *Viewer) Topics() string {
	if v.Everywhere("viewer") {
		return ""
	}
	var all []string
	for _, g := range v.Grants {
		if slices.Contains(includes[g.Role], "viewer") {
			all = append(all, g.Topics...)
		}
	}
	return strings.Join(all, ", ")
}

// Why returns the reason why the viewer may not perform an action that needs the role; "" when the viewer may.
func (v *Viewer) Why(role string, topics ...string) string {
	switch {
	case v.May(role, topics...):
		return ""
	case len(topics) == 1 && topics[0] != "":
		return "needs the role " + role + " on " + topics[0]
	default:
		return "needs the role " + role
	}
}

// matches reports whether the grant covers the topic. Only "*" covers messages of unknown origin.
func (g Grant) matches(topic string) bool {
	return slices.ContainsFunc(g.Topics, func(pattern string) bool {
		switch {
		case pattern == "*":
			return true
		case topic == "":
			return false
		case strings.HasPrefix(pattern, "^"):
			re, err := regexp.Compile(pattern)
			return err == nil && re.MatchString(topic)
		default:
			return glob(pattern).MatchString(topic)
		}
	})
}

func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[A-Za-z0-9._-]+`) + "$")
}

// MayReveal reports whether masking is on and the viewer has the grant to unmask values of the topic.
func (v *Viewer) MayReveal(topic string) bool { return v != nil && v.Masking && v.May("unmask", topic) }
