package console

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type viewer struct {
	Name    string  `json:"name"`
	Mode    string  `json:"mode"`
	Grants  []grant `json:"grants"`
	Masking bool    `json:"masking"`
}

type grant struct {
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

func (c *Console) withViewer(r *http.Request) (*http.Request, error) {
	var v viewer
	if err := c.api.get(r, endpoint("session"), nil, &v); err != nil {
		return nil, err
	}
	return r.WithContext(context.WithValue(r.Context(), viewerKey{}, &v)), nil
}

// viewerOf returns the user who sends the request, or nil on pages without authentication.
func viewerOf(r *http.Request) *viewer {
	v, _ := r.Context().Value(viewerKey{}).(*viewer)
	return v
}

// May reports whether the viewer has the role on all topics given; with none given, on any topic. The API decides.
func (v *viewer) May(role string, topics ...string) bool {
	if len(topics) == 0 {
		return v.has(role, func(grant) bool { return true })
	}
	return !slices.ContainsFunc(topics, func(topic string) bool {
		return !v.has(role, func(g grant) bool { return g.matches(topic) })
	})
}

func (v *viewer) Everywhere(role string) bool {
	return v.has(role, func(g grant) bool { return slices.Contains(g.Topics, "*") })
}

func (v *viewer) has(role string, matches func(grant) bool) bool {
	return v != nil && slices.ContainsFunc(v.Grants, func(g grant) bool {
		return slices.Contains(includes[g.Role], role) && matches(g)
	})
}

// topics lists the topics that the viewer may see, in words; empty when they may see all.
func (v *viewer) topics() string {
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

// Why says why the viewer may not, or "" when they may.
func (v *viewer) Why(role string, topics ...string) string {
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
func (g grant) matches(topic string) bool {
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
