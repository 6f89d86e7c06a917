package rest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

func fingerprint(i int) entity.Fingerprint {
	return entity.Fingerprint{Class: "Boom", Title: fmt.Sprintf("failure %d of \u202e<number>", i), Frames: []string{"a.b"}}
}

// groupsFixture has five error groups. Each has one message more than the group before it, and the messages of the last
// group are resolved.
func groupsFixture(t *testing.T) *fixture {
	t.Helper()
	f, n := newFixture(), 0
	for g := range 5 {
		check.NoError(t, f.memory.SaveFingerprints(t.Context(), []entity.Fingerprint{fingerprint(g)}))
		for range g + 1 {
			f.memory.Insert(message(entity.NewID(), at(noon.Add(-time.Duration(n)*time.Hour)), func(m *entity.Message) {
				if m.Group = fingerprint(g).ID(); g == 4 {
					m.Status = entity.Resolved
				}
			}))
			n++
		}
	}
	return f.open()
}

func TestGroups(t *testing.T) {
	t.Parallel()
	f := groupsFixture(t)
	for query, want := range map[string]int{
		"": 5, "?open=true": 4, "?open=false": 5, "?topic=orders.events.v1": 5, "?topic=orders.dlq.v1": 0, "?sort=open": 5, "?sort=first_seen&trend=none": 5,
		"?status=PENDING": 4, "?status=DEAD,RETRYING": 0, "?status=RESOLVED&status=DEAD": 1, "?new=true": 5, "?regressed=true": 0, "?sort=recent&minutes=true": 5,
	} {
		found, _ := walk(t, f, "/api/v1/groups"+query, "groups", "id")
		slices.Sort(found)
		if len(found) != want || len(slices.Compact(found)) != want {
			t.Errorf("groups%s = %v, want %d, each once", query, found, want)
		}
	}
	if found, _ := walk(t, f, "/api/v1/groups?sort=open&open=true", "groups", "open"); fmt.Sprint(found) != "[4 3 2 1]" {
		t.Errorf("by open: %v, want 4 3 2 1", found)
	}
}

// With sort=recent, the error groups with the most arrivals in the last fifteen minutes come first. Their counts by
// minute cover the last hour.
func TestGroups_ByRecentArrivals(t *testing.T) {
	t.Parallel()
	f := newFixture()
	for g, ago := range map[int][]time.Duration{0: {0, time.Minute}, 1: {20 * time.Minute, 21 * time.Minute, 21 * time.Minute}, 2: {time.Minute, 15 * time.Minute, 59 * time.Minute, time.Hour}, 3: {0}} {
		check.NoError(t, f.memory.SaveFingerprints(t.Context(), []entity.Fingerprint{fingerprint(g)}))
		for _, d := range ago {
			f.memory.Insert(message(entity.NewID(), at(noon.Add(-d)), func(m *entity.Message) { m.Group = fingerprint(g).ID() }))
		}
	}
	f.index(nil)
	f.guarded(person("root", "*", auth.Viewer))
	var answer struct{ Groups []wire.ErrorGroup }
	check.NoError(t, json.Unmarshal(f.by("root", "GET", "/api/v1/groups?sort=recent&minutes=true", "").Body.Bytes(), &answer))
	var got []string
	for _, g := range answer.Groups {
		got = append(got, fmt.Sprint(g.Title[8:9], " ", *g.Recent.Arrived, " of ", len(g.Recent.Minutes)))
	}
	check.Equal(t, strings.Join(got, ", "), "0 2 of 2, 2 2 of 3, 3 1 of 1, 1 0 of 2", "groups, with their arrivals and minutes")
	f.memory.Insert(message(entity.NewID(), at(noon.Add(-16*time.Minute)), func(m *entity.Message) { m.Group = fingerprint(0).ID() }))
	wantStatus(t, f.by("root", "GET", "/api/v1/groups/"+fingerprint(0).ID().String(), ""), 200, `"arrived":null,"counted_until":"`)
	for query, field := range map[string]string{
		"?open=true&status=DEAD": "open", "?status=GONE": "status", "?status=": "status", "?new=x": "new", "?regressed=1": "regressed", "?minutes=2": "minutes",
	} {
		wantEnvelope(t, f.by("root", "GET", "/api/v1/groups"+query, ""), 400, field)
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	f := groupsFixture(t)
	id := fingerprint(1).ID().String()
	target := "/api/v1/groups/" + id
	wantAnswer(t, f.do("GET", target+"?trend=24h", ""), 200,
		`{"id":"`+id+`","class":"Boom","title":"failure 1 of \u202e<number>","frames":["a.b"],"rule":null,`+
			`"first_seen_at":"2026-02-20T08:30:00.000+00:00","last_seen_at":"2026-02-20T09:30:00.000+00:00","regressed_at":null,"new":true,"regressed":false,`+
			`"counts":{"DEAD":0,"PENDING":2,"RESOLVED":0,"RETRYING":0},"open":2,"arrived":2,"topics":[{"topic":"orders.events.v1","messages":2}],`+
			`"trend":[{"hour":"2026-02-20T08:00:00.000+00:00","messages":1},{"hour":"2026-02-20T09:00:00.000+00:00","messages":1}],`+
			`"recent":{"since":"2026-02-20T10:15:00.000+00:00","arrived":null,"counted_until":null,"minutes":[]},"note":null,"link":null,"muted":false,"annotations":[]}`)
	wantEnvelope(t, f.do("GET", "/api/v1/groups/"+idGone.String(), ""), 404)
	wantEnvelope(t, f.do("GET", "/api/v1/groups/x", ""), 400)
}

// A request sets the annotation fields that it names, and clears those that it sets to null; the other fields keep
// their values.
func TestGroup_Annotate(t *testing.T) {
	t.Parallel()
	f := groupsFixture(t)
	target := "/api/v1/groups/" + fingerprint(1).ID().String()
	for _, step := range []struct{ body, want string }{
		{`{"note":"known\nsince May","reason":"r"}`, `"note":"known\nsince May","link":null,"muted":false`},
		{
			`{"link":"https://tickets.example.com/42?a=b","muted":true}`,
			`"note":"known\nsince May","link":"https://tickets.example.com/42?a=b","muted":true`,
		},
		{`{"note":null}`, `"note":null,"link":"https://tickets.example.com/42?a=b","muted":true`},
		{`{"link":"","muted":false}`, `"note":null,"link":null,"muted":false`},
	} {
		wantStatus(t, f.do("PATCH", target, step.body), 200, step.want)
	}
	if entries := f.trail(t, repository.TrailQuery{Action: entity.ActionAnnotate}); len(entries) != 4 || entries[3].Cause.Reason != "r" {
		t.Errorf("trail %+v, want four entries", entries)
	}
	for body, field := range map[string]string{
		``: "body", `{}`: "body", `{"note":1}`: "note", `{"note":"` + strings.Repeat("x", 2001) + `"}`: "note", `{"note":"\u001b[31m"}`: "note",
		`{"link":"javascript:alert(1)"}`: "link", `{"link":"ftp://x/y"}`: "link", `{"link":"https://"}`: "link", `{"link":"/x"}`: "link",
		`{"link":true}`: "link",
		`{"link":"https://x/` + strings.Repeat("x", 2000) + `"}`: "link", `{"muted":null}`: "muted", `{"muted":"yes"}`: "muted",
		`{"title":"x"}`: "title",
	} {
		wantEnvelope(t, f.do("PATCH", target, body), 400, field)
	}
	wantEnvelope(t, f.do("PATCH", "/api/v1/groups/"+idGone.String(), `{"muted":true}`), 404)
}

// An operator of some topics of an error group annotates only these topics. The annotations of other topics do not
// change, callers of other topics do not see the new annotations, and each caller sees who changed the annotations of
// the caller's topics.
func TestGroup_AnnotationsAreByTopic(t *testing.T) {
	t.Parallel()
	f := newFixture()
	failure := entity.Fingerprint{Class: "Boom", Title: "the same in both"}
	check.NoError(t, f.memory.SaveFingerprints(t.Context(), []entity.Fingerprint{failure}))
	for _, topic := range []string{"alpha.events", "beta.events"} {
		f.memory.Insert(message(entity.NewID(), func(m *entity.Message) { m.OriginalTopic, m.Group = topic, failure.ID() }))
	}
	f.guarded(person("ann", "alpha.*", auth.Operator), person("ben", "beta.*", auth.Operator), person("ada", "alpha.*", auth.Viewer),
		person("root", "*", auth.Operator))
	group, trail := "/api/v1/groups/"+failure.ID().String(), "/api/v1/audit?object_id="+failure.ID().String()
	does := func(who, method, target, body string, want ...string) {
		t.Helper()
		w := f.by(who, method, target, body)
		for _, text := range want {
			if w.Code != 200 || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s %s as %s = %d %s, want %s", method, target, who, w.Code, w.Body, text)
			}
		}
	}
	never := func(who, target, text string) {
		t.Helper()
		if w := f.by(who, "GET", target, ""); strings.Contains(w.Body.String(), text) {
			t.Errorf("GET %s as %s = %s, want nothing of %s", target, who, w.Body, text)
		}
	}
	does("ben", "PATCH", group, `{"note":"INTERNAL: SEC-42","link":"https://tickets.example/42"}`, `"annotated_topics":["beta.events"]`,
		`"note":"INTERNAL: SEC-42"`)
	never("ann", group, "SEC-42")
	never("ann", "/api/v1/groups", "SEC-42")
	never("ann", trail, "SEC-42")
	does("ann", "PATCH", group, `{"muted":true,"note":"known","link":"https://other.example/"}`, `"annotated_topics":["alpha.events"]`,
		`"muted":true`)
	does("ben", "GET", group, "", `"note":"INTERNAL: SEC-42","link":"https://tickets.example/42","muted":false`,
		`"annotations":[{"topic":"beta.events","note":"INTERNAL: SEC-42","link":"https://tickets.example/42","muted":false}]`)
	never("ben", group, "other.example")
	does("ben", "GET", trail, "", `"actor":"ben"`, `"topics":["beta.events"]`)
	never("ben", trail, `"actor":"ann"`)
	does("ada", "GET", trail, "", `"actor":"ann"`)
	wantEnvelope(t, f.by("ada", "PATCH", group, `{"note":null}`), 403)
	does("root", "GET", group, "", `"note":null,"link":null,"muted":false`)
	does("root", "PATCH", group, `{"note":"for all"}`, `"annotated_topics":["*"]`, `"note":"for all"`,
		`{"topic":null,"note":"for all","link":null,"muted":false}`)
	for _, who := range []string{"ann", "ben"} {
		does(who, "GET", group, "", `"note":"for all"`)
		does(who, "GET", trail, "", `"actor":"root"`)
	}
	does("ann", "GET", group, "", `"muted":true`)
}
