package rest

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// expectation is the permission that a route must require, written a second time for the test. So the test finds a
// route whose policy was changed by mistake, and a route without a policy.
type expectation struct {
	permission
	body    string
	feature string // the purpose for which the route needs a database; "" if it needs none
}

var matrix = map[string]expectation{
	"GET /healthz": {permission{"", open}, "", ""},
	"GET /readyz":  {permission{"", open}, "", ""},
	"GET /metrics": {permission{"", open}, "", ""},

	"GET /openapi.yaml": {permission{"", open}, "", ""},
	"GET /docs":         {permission{"", open}, "", ""},

	"GET /api/v1/session": {permission{"", self}, "", ""},

	"GET /api/v1/dlq/{topic}":            {permission{auth.Viewer, someTopics}, "", ""},
	"POST /api/v1/dlq/{topic}/retry-all": {permission{auth.Operator, oneTopic}, "", ""},

	"GET /api/v1/dlq/messages/{id}":          {permission{auth.Viewer, oneMessage}, "", ""},
	"DELETE /api/v1/dlq/messages/{id}":       {permission{auth.Admin, oneMessage}, "", ""},
	"GET /api/v1/dlq/messages/{id}/payload":  {permission{auth.Viewer, oneMessage}, "", ""},
	"GET /api/v1/dlq/messages/{id}/schema":   {permission{auth.Viewer, oneMessage}, "", ""},
	"GET /api/v1/dlq/messages/{id}/history":  {permission{auth.Viewer, oneMessage}, "", ""},
	"POST /api/v1/dlq/messages/{id}/retry":   {permission{auth.Operator, oneRetried}, "", ""},
	"POST /api/v1/dlq/messages/{id}/requeue": {permission{auth.Operator, oneMessage}, "", ""},
	"POST /api/v1/dlq/messages/{id}/dead":    {permission{auth.Operator, oneMessage}, "", ""},

	"POST /api/v1/dlq/messages/{id}/origin": {
		permission{auth.Operator, oneMessage},
		`{"original_topic":"orders.other.v1"}`,
		"setting an original topic",
	},

	"GET /api/v1/messages":              {permission{auth.Viewer, someTopics}, "", "search"},
	"GET /api/v1/messages/facets":       {permission{auth.Viewer, someTopics}, "", "facets"},
	"GET /api/v1/export":                {permission{auth.Viewer, someTopics}, "", "an export"},
	"GET /api/v1/archive":               {permission{auth.Viewer, someTopics}, "", "the archive"},
	"GET /api/v1/archive/{id}":          {permission{auth.Viewer, oneArchived}, "", "the archive"},
	"GET /api/v1/archive/{id}/payload":  {permission{auth.Viewer, oneArchived}, "", "the archive"},
	"GET /api/v1/archive/{id}/schema":   {permission{auth.Viewer, oneArchived}, "", "the archive"},
	"GET /api/v1/archive/{id}/history":  {permission{auth.Viewer, oneArchived}, "", "the archive"},
	"POST /api/v1/archive/{id}/restore": {permission{auth.Operator, oneArchived}, "", "the archive"},
	"DELETE /api/v1/archive/{id}":       {permission{auth.Admin, oneArchived}, `{"reason":"request of the customer"}`, "the archive"},

	"GET /api/v1/quarantine":             {permission{auth.Viewer, someTopics}, "", "the quarantine"},
	"POST /api/v1/quarantine/{id}/retry": {permission{auth.Operator, oneQuarantined}, "", "the quarantine"},
	"DELETE /api/v1/quarantine/{id}":     {permission{auth.Admin, oneQuarantined}, `{"reason":"a test record"}`, "the quarantine"},

	"GET /api/v1/topics":         {permission{auth.Viewer, someTopics}, "", "the list of topics"},
	"GET /api/v1/topics/{topic}": {permission{auth.Viewer, oneTopic}, "", "a topic"},
	"GET /api/v1/share-groups":   {permission{auth.Viewer, someTopics}, "", "the list of share groups"},
	"GET /api/v1/activity":       {permission{auth.Viewer, someTopics}, "", "the number of arrivals"},
	"GET /api/v1/groups":         {permission{auth.Viewer, someTopics}, "", "the list of error groups"},
	"GET /api/v1/groups/{id}":    {permission{auth.Viewer, oneErrorGroup}, "", "an error group"},
	"PATCH /api/v1/groups/{id}":  {permission{auth.Operator, oneErrorGroup}, `{"muted":true}`, "an error group"},
	"GET /api/v1/mappings":       {permission{auth.Viewer, everything}, "", "the topic mapping"},
	"PUT /api/v1/mappings":       {permission{auth.Admin, everything}, `{"version":0,"rules":[]}`, "the topic mapping"},
	"GET /api/v1/redirects":      {permission{auth.Viewer, someTopics}, "", "the list of redirects"},
	"PUT /api/v1/redirects/{topic}": {
		permission{auth.Admin, namedTopic},
		`{"target":"orders.moved.v1","dry_run":true}`,
		"a redirect",
	},
	"DELETE /api/v1/redirects/{topic}": {permission{auth.Admin, namedTopic}, "", "a redirect"},

	"GET /api/v1/redrives": {permission{auth.Viewer, someTopics}, "", "the list of redrives"},
	"POST /api/v1/redrives": {
		permission{auth.Operator, someTopics},
		`{"filter":{"topic":"orders.events.v1"}}`,
		"a redrive of a selection",
	},
	"GET /api/v1/redrives/{id}":           {permission{auth.Viewer, oneRedrive}, "", ""},
	"GET /api/v1/redrives/{id}/items":     {permission{auth.Viewer, oneRedrive}, "", "the list of a redrive's messages"},
	"GET /api/v1/redrives/{id}/errors":    {permission{auth.Viewer, oneRedrive}, "", "the errors of a redrive's messages"},
	"GET /api/v1/redrives/{id}/overlaps":  {permission{auth.Viewer, oneRedrive}, "", "a comparison of redrives"},
	"POST /api/v1/redrives/{id}/pause":    {permission{auth.Operator, oneRedrive}, "", ""},
	"POST /api/v1/redrives/{id}/continue": {permission{auth.Operator, oneRedrive}, "", ""},
	"POST /api/v1/redrives/{id}/resume":   {permission{auth.Operator, oneRedrive}, "", ""},
	"POST /api/v1/redrives/{id}/cancel":   {permission{auth.Operator, oneRedrive}, "", ""},

	"GET /api/v1/views":           {permission{auth.Viewer, someTopics}, "", "saved views"},
	"PUT /api/v1/views/{name}":    {permission{auth.Viewer, someTopics}, `{"query":"status=DEAD"}`, "saved views"},
	"DELETE /api/v1/views/{name}": {permission{auth.Viewer, someTopics}, "", "saved views"},

	"GET /api/v1/audit": {permission{auth.Viewer, someTopics}, "", "the audit trail"},
}

// routesOf returns every route of the router except HEAD, as its method and its path, such as "GET /healthz".
func routesOf(t *testing.T, router *mux.Router) (routes []string) {
	t.Helper()
	err := router.Walk(func(rt *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, err := rt.GetPathTemplate()
		methods, unknown := rt.GetMethods()
		for _, method := range methods {
			if method != http.MethodHead {
				routes = append(routes, method+" "+template)
			}
		}
		return errors.Join(err, unknown)
	})
	check.NoError(t, err)
	return routes
}

func TestEveryRouteHasAPolicy(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	if got, want := slices.Sorted(slices.Values(routesOf(t, f.server.router))), slices.Sorted(maps.Keys(matrix)); !slices.Equal(got, want) {
		t.Errorf("there are the routes\n%q, the matrix has\n%q", got, want)
	}
	for _, rt := range append(f.server.probeRoutes(), f.server.apiRoutes()...) {
		if want := matrix[rt.method+" "+rt.path].permission; rt.permission != want {
			t.Errorf("%s %s: needs %+v, want %+v", rt.method, rt.path, rt.permission, want)
		}
		if rt.permission.scope == undecided || strings.HasPrefix(rt.path, "/api/") && rt.permission.scope == open {
			t.Errorf("%s %s: needs %+v, want it decided, and below /api never open", rt.method, rt.path, rt.permission)
		}
	}
}

// A route without a permission in the table refuses every caller, even a principal with all roles.
func TestRouteWithoutPolicyIsShut(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	reached := false
	f.server.router = f.server.newRouter([]route{{
		method: "GET", path: "/api/v1/new", kind: read,
		handle: func(http.ResponseWriter, *http.Request) error { reached = true; return nil },
	}})
	if wantEnvelope(t, f.do("GET", "/api/v1/new", ""), 403); reached {
		t.Error("the handler was reached")
	}
}

// The objects of TestMatrix. Those whose variables end in A belong to the topic orders.events.v1, those whose variables
// end in B to another topic.
var (
	topicA, topicB       = "orders.events.v1", "payments.events.v1"
	archivedA, archivedB = uuid.MustParse("550e8400-e29b-41d4-a716-44665544000a"), uuid.MustParse("550e8400-e29b-41d4-a716-44665544000b")
	groupA, groupB       = entity.Fingerprint{Title: "a"}, entity.Fingerprint{Title: "b"}
	redriveA, redriveB   = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-00000000000a"), uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-00000000000b")
)

// matrixFixture has objects of two topics (messages, error groups, quarantined records, redirects, share groups), a
// view and a redrive of the principal, and a redrive of another principal.
func matrixFixture(t *testing.T, p auth.Principal) *fixture {
	t.Helper()
	f := newFixture()
	check.NoError(t, f.memory.SaveFingerprints(t.Context(), []entity.Fingerprint{groupA, groupB}))
	for i, id := range []uuid.UUID{idA, idB, archivedA, archivedB} {
		m := message(id)
		m.Group, m.Source.Offset = groupA.ID(), int64(i)
		if id == idB || id == archivedB {
			m.Group, m.OriginalTopic, m.Source.Topic = groupB.ID(), topicB, "payments.dlq.v1"
		}
		f.memory.Insert(m)
	}
	_, err := f.memory.SaveView(t.Context(), entity.View{ID: idA, Name: "mine", Owner: p.Name, List: "messages", Query: "q=slow"}, entity.By(p.Name))
	check.NoError(t, err)
	f.memory.Quarantine(quarantined(idA, "orders.dlq.v1"))
	f.memory.Quarantine(quarantined(idB, "payments.dlq.v1"))
	f.memory.Archive(archivedA)
	f.memory.Archive(archivedB)
	for _, topic := range []string{topicA, topicB} {
		if _, err := f.memory.SaveRedirect(t.Context(), topic, topic+".moved", nil, entity.By("tester")); err != nil {
			t.Fatal(err)
		}
	}
	for id, actor := range map[uuid.UUID]string{redriveA: p.Name, redriveB: "somebody else"} {
		order := repository.NewRedrive{
			ID: id, Action: entity.RedriveRetry, BatchSize: 10, Cause: entity.By(actor),
			Selection: entity.Selection{Filter: entity.Filter{ErrorClass: "none of these"}},
		}
		if id == redriveA {
			order.Selection.Visible = person("", "orders.*", auth.Operator).Scope(auth.Operator)
		}
		if _, err := f.memory.CreateRedrive(t.Context(), order); err != nil {
			t.Fatal(err)
		}
	}
	f.with(WithShareGroups(told{known: true, groups: []entity.ShareGroup{
		{Name: "a", DeadLetterTopic: "dlq.a", Topics: []string{topicA, topicB}, TopicsKnown: true},
		{Name: "b", DeadLetterTopic: "dlq.payments", Topics: []string{topicB}, TopicsKnown: true},
	}}))
	return f.guarded(p)
}

// place contains the objects that the requests of TestMatrix name: those of the caller's own topic, or those of another
// topic.
type place struct {
	name                              string
	topic                             string
	message, archived, group, redrive uuid.UUID
}

var places = []place{
	{"Own", topicA, idA, archivedA, groupA.ID(), redriveA},
	{"Other", topicB, idB, archivedB, groupB.ID(), redriveB},
}

func (p place) target(template string) string {
	id := p.message
	switch {
	case strings.Contains(template, "/redrives/"):
		id = p.redrive
	case strings.Contains(template, "/archive/"):
		id = p.archived
	case strings.Contains(template, "/groups/"):
		id = p.group
	}
	target := strings.NewReplacer("{topic}", p.topic, "{name}", "mine", "{id}", id.String()).Replace(template)
	if template == "/api/v1/audit" {
		target += "?object_id=" + p.message.String()
	}
	return target
}

// verdict returns the expected status of a request; 0 means that it is allowed.
func verdict(e expectation, p auth.Principal, at place) int {
	sees := p.May(auth.Viewer, at.topic)
	has := e.role != "" && p.May(e.role, at.topic)
	if e.scope == oneRedrive && sees { // redriveA belongs to the caller, who needs the role only on its topic; redriveB needs the role on all topics
		has = p.May(e.role, at.topic) && (at.topic == topicA || p.Everywhere(e.role))
	}
	switch {
	case e.scope == open || e.scope == self:
		return 0
	case e.scope == everything:
		if !p.Everywhere(e.role) {
			return 403
		}
		return 0
	case e.scope == namedTopic:
		if !has {
			return 403
		}
		return 0
	case !p.Anywhere(auth.Viewer), !p.Anywhere(e.role) && (e.scope == someTopics || e.scope == oneTopic):
		return 403
	case e.scope == someTopics:
		return 0
	case e.scope == oneTopic && !sees:
		return 0 // the caller gets the answer for a topic without messages
	case !sees:
		return 404
	case !has:
		return 403
	}
	return 0
}

// TestMatrix sends every route's request as each principal, for objects of its own topics and of others.
func TestMatrix(t *testing.T) {
	t.Parallel()
	persons := []auth.Principal{person("nothing", "*")}
	for _, role := range auth.Roles() {
		persons = append(persons, person(string(role), "orders.*", role), person(string(role)+"-everywhere", "*", role))
	}
	persons = append(persons, person("viewer-and-edit", "orders.*", auth.Viewer, auth.Edit, auth.Unmask),
		grants("viewer-here-admin-elsewhere", person("", "refunds.*", auth.Admin), person("", "orders.*", auth.Viewer)))
	for _, rt := range routesOf(t, newFixture().open().server.router) {
		e := matrix[rt]
		method, template, _ := strings.Cut(rt, " ")
		t.Run(rt, func(t *testing.T) {
			t.Parallel()
			for _, at := range places {
				stranger := matrixFixture(t, person("p", "*")).do(method, at.target(template), e.body)
				if e.scope == open {
					wantStatus(t, stranger, 200)
				} else {
					wantEnvelope(t, stranger, 401)
				}
				for _, p := range persons {
					w := matrixFixture(t, p).by(p.Name, method, at.target(template), e.body)
					switch want := verdict(e, p, at); {
					case want == 0 && (w.Code == 401 || w.Code == 403 || w.Code == 404 || w.Code >= 500):
						t.Errorf("%s, %s: got %d %s, want it let through", p.Name, at.name, w.Code, w.Body)
					case want == 403:
						wantEnvelope(t, w, 403, "role")
					case want == 404:
						wantSameAsMissing(t, p, method, template, at, e.body, w.Body.String())
					}
				}
			}
		})
	}
}

// wantSameAsMissing checks that a caller gets the same answer for an object that the caller may not see as for an
// object that does not exist.
func wantSameAsMissing(t *testing.T, p auth.Principal, method, template string, at place, body, got string) {
	t.Helper()
	missing := place{at.name, at.topic, idGone, idGone, idGone, idGone}
	w := matrixFixture(t, p).by(p.Name, method, missing.target(template), body)
	wantEnvelope(t, w, 404)
	other := got
	for _, id := range []uuid.UUID{at.message, at.archived, at.group, at.redrive} {
		other = strings.ReplaceAll(other, id.String(), idGone.String())
	}
	check.True(t, other == w.Body.String(), "%s: what one may not see answers\n%s\nwhat is missing\n%s", p.Name, other, w.Body)
}

// No list contains objects of topics that the caller may not see. Callers who see all topics do find these objects in
// the lists, which proves that the test looks for objects that exist.
func TestListsHoldNothingOfOthers(t *testing.T) {
	t.Parallel()
	others := []string{"payments", idB.String(), archivedB.String(), groupB.ID().String(), redriveB.String()}
	unknown := message(idGone)
	unknown.OriginalTopic, unknown.Source = "", entity.Source{Topic: "payments.dlq.v1", Offset: 77}
	for rt, e := range matrix {
		method, template, _ := strings.Cut(rt, " ")
		if method != http.MethodGet || e.scope != someTopics ||
			template == "/api/v1/audit" || template == "/api/v1/activity" || template == "/api/v1/views" {
			continue // the audit trail, views and answers with only numbers have tests of their own
		}
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			held := func(p auth.Principal) (found []string) {
				f := matrixFixture(t, p)
				f.memory.Insert(unknown)
				for _, topic := range []string{topicA, topicB, "payments.dlq.v1"} {
					body := wantStatus(t, f.by(p.Name, method, strings.ReplaceAll(template, "{topic}", topic), ""), 200)
					found = append(found, slices.DeleteFunc(slices.Clone(others), func(marker string) bool { return !strings.Contains(body, marker) })...)
				}
				return found
			}
			if found := held(person("ana", "orders.*", auth.Viewer, auth.Unmask)); len(found) > 0 {
				t.Errorf("the list of a viewer of orders holds %v, want nothing of payments", found)
			}
			if found := held(person("root", "*", auth.Viewer)); len(found) == 0 {
				t.Error("the list of a viewer of everything holds nothing of payments")
			}
		})
	}
}
