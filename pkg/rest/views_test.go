package rest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

const views = "/api/v1/views"

// viewsFixture has no views, but three principals: ana and ben are viewers of the topics orders.*, and root is admin on
// all topics.
func viewsFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixture().guarded(person("ana", "orders.*", auth.Viewer), person("ben", "orders.*", auth.Viewer), person("root", "*", auth.Admin))
}

// namesOf returns the names of the views that a person sees.
func (f *fixture) namesOf(t *testing.T, who string) string {
	t.Helper()
	body := wantStatus(t, f.by(who, "GET", views, ""), 200)
	var names []string
	for _, part := range strings.Split(body, `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestViews(t *testing.T) {
	t.Parallel()
	f := viewsFixture(t)
	saved := wantStatus(t, f.by("ana", "PUT", views+"/mine", `{"query":"status=DEAD&topic=orders.*&since=24h&sort=created_at"}`), 200, `"version":1`, `"owner":"ana"`)
	again := wantStatus(t, f.by("ana", "PUT", views+"/mine", `{"query":"status=DEAD&topic=orders.*&since=24h&sort=created_at","version":1}`), 200)
	check.Same(t, again, saved, "the same PUT twice")
	wantStatus(t, f.by("ana", "PUT", views+"/ours%20%2F%20all", `{"query":"q=slow","shared":true,"list":"archive","reason":"for the team"}`), 200, `"name":"ours / all"`)
	wantStatus(t, f.by("ben", "PUT", views+"/mine", `{"query":"q=fast"}`), 200, `"version":1`)
	check.Same(t, f.namesOf(t, "ana"), "mine ours / all", "views of ana")
	check.Same(t, f.namesOf(t, "ben"), "mine ours / all", "views of ben")
	check.Same(t, f.namesOf(t, "root"), "ours / all", "views of root")

	wantEnvelope(t, f.by("ben", "PUT", views+"/ours%20%2F%20all", `{"query":"q=mine","shared":true}`), 403, "role")
	wantEnvelope(t, f.by("ben", "DELETE", views+"/ours%20%2F%20all?shared=true", ""), 403, "role")
	wantStatus(t, f.by("root", "PUT", views+"/ours%20%2F%20all", `{"query":"q=slower","shared":true,"version":1}`), 200, `"owner":"ana"`, `"version":2`)
	wantEnvelope(t, f.by("ana", "PUT", views+"/ours%20%2F%20all", `{"query":"q=other","shared":true,"version":1}`), 409)
	wantEnvelope(t, f.by("ana", "DELETE", views+"/nothing", ""), 404)
	wantStatus(t, f.by("ana", "DELETE", views+"/ours%20%2F%20all?shared=true&reason=old", ""), 200)
	wantStatus(t, f.by("ana", "DELETE", views+"/mine", ""), 200)
	check.Same(t, f.namesOf(t, "ana"), "", "views of ana at the end")
	check.Same(t, f.namesOf(t, "ben"), "mine", "views of ben at the end")
	trail := wantStatus(t, f.by("root", "GET", "/api/v1/audit?kind=view", ""), 200, "for the team", "ours / all: q=slower", `"action":"delete"`)
	check.Same(t, strings.Count(trail, `"kind":"view"`), 3, "entries of shared views")
}

func TestViews_BadOnesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture().with(WithMasks(maskOf("authorization"))).open()
	for body, field := range map[string]string{
		`{}`:                                   "query",
		`{"query":""}`:                         "query",
		`{"query":"a=%zz"}`:                    "query",
		`{"query":"q=two words"}`:              "query",
		`{"query":"colour=red"}`:               "query",
		`{"query":"cursor=abc"}`:               "query",
		`{"query":"status=ALIVE"}`:             "status",
		`{"query":"q=ab"}`:                     "q",
		`{"query":"created_after=today"}`:      "created_after",
		`{"query":"sort=size"}`:                "sort",
		`{"query":"since=soon"}`:               "since",
		`{"query":"q=slow","list":"redrives"}`: "list",
		`{"query":"q=slow","shared":"yes"}`:    "shared",
		fmt.Sprintf(`{"query":"q=%s"}`, strings.Repeat("x", 4000)): "query",
		`{"query":"header=authorization%3Dsecret","shared":true}`:  "query",
	} {
		wantEnvelope(t, f.do("PUT", views+"/a", body), 400, field)
	}
	wantEnvelope(t, f.do("PUT", views+"/"+strings.Repeat("n", 61), `{"query":"q=slow"}`), 400, "name")
	wantEnvelope(t, f.do("PUT", views+"/a%0Ab", `{"query":"q=slow"}`), 400, "name")
	wantStatus(t, f.do("PUT", views+"/a", `{"query":"header=authorization%3Dsecret"}`), 200)
	for i := range 99 {
		wantStatus(t, f.do("PUT", fmt.Sprintf("%s/n%d", views, i), `{"query":"q=slow"}`), 200)
	}
	wantEnvelope(t, f.do("PUT", views+"/one-more", `{"query":"q=slow"}`), 409, "name")
}

// After a value becomes masked, views that were shared earlier must not show it to other principals, neither in lists
// of views nor in the audit trail.
func TestViews_LaterMasksHideOlderViews(t *testing.T) {
	t.Parallel()
	before := viewsFixture(t)
	wantStatus(t, before.by("ana", "PUT", views+"/card:%20of%20Eve", `{"query":"topic=a&header=authorization%3Dsecret","shared":true}`), 200)
	wantStatus(t, before.by("ana", "PUT", views+"/ours", `{"query":"q=slow","shared":true}`), 200)
	f := newFixture().over(before.memory).with(WithMasks(maskOf("authorization"))).
		guarded(person("ana", "orders.*", auth.Viewer), person("ben", "orders.*", auth.Viewer), person("root", "*", auth.Admin))
	check.Same(t, f.namesOf(t, "ana"), "card: of Eve ours", "views of their owner")
	check.Same(t, f.namesOf(t, "ben"), "ours", "views of another")
	trail := wantStatus(t, f.by("root", "GET", "/api/v1/audit?kind=view", ""), 200, `"card: of Eve: ***"`, `"ours: q=slow"`)
	check.True(t, !strings.Contains(trail, "secret"), "the trail shows a masked value: %s", trail)
}
