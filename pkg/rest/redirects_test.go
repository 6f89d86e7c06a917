package rest

import (
	"context"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const redirects = "/api/v1/redirects"

// existing says for names of topics whether these topics exist. As Targets, it accepts only topics that exist.
type existing map[string]bool

func (e existing) Exists(_ context.Context, topics ...string) map[string]bool {
	known := map[string]bool{}
	for _, topic := range topics {
		if exists, ok := e[topic]; ok {
			known[topic] = exists
		}
	}
	return known
}

func (e existing) CheckTarget(_ context.Context, topic string) error {
	switch exists, known := e[topic]; {
	case !known:
		return entity.ErrUnavailable
	case !exists:
		return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "it does not exist", Missing: true}
	}
	return nil
}

func redirectFixture(messages ...entity.Message) *fixture {
	known := existing{"orders.events.v1": false, "moved": true, "payments.events.v1": true, "gone": false}
	return newFixture(messages...).with(WithTopics(known), WithTargets(known))
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	f := redirectFixture(message(idA), message(idB, in(entity.Dead, 3))).open()
	to := redirects + "/orders.events.v1"
	wantAnswer(t, f.do("GET", redirects, ""), 200, `{"redirects":[],"next_cursor":null}`)

	wantAnswer(t, f.do("PUT", to, `{"target":"moved","dry_run":true}`, "If-Match", `"0"`), 200, `{"redirect":null,"preview":{"target":"moved",`+
		`"counts":{"DEAD":1,"PENDING":1,"RESOLVED":0,"RETRYING":0},"selected":1,"sendable":1,"reasons":{},`+
		`"groups":[{"topic":"orders.events.v1","target":"moved","messages":1,"class":null,"reason":null,"target_missing":false,"replay_removes":[]}]}}`)
	wantAnswer(t, f.do("GET", redirects, ""), 200, `{"redirects":[],"next_cursor":null}`)

	shown := `{"topic":"orders.events.v1","target":"moved","version":1,"reason":"renamed","updated_at":"2026-02-20T10:30:00.000+00:00","updated_by":"anonymous"}`
	w := f.do("PUT", to, `{"target":"moved","reason":"renamed"}`, "If-Match", `"0"`)
	wantAnswer(t, w, 200, `{"redirect":`+shown+`,"preview":null}`)
	check.Equal(t, w.Header().Get("ETag"), `"1"`, "ETag")
	wantAnswer(t, f.do("GET", redirects, ""), 200, `{"redirects":[`+shown+`],"next_cursor":null}`)

	for _, version := range []string{`"0"`, `"2"`} {
		for _, dryRun := range []string{"false", "true"} {
			wantEnvelope(t, f.do("PUT", to, `{"target":"moved","dry_run":`+dryRun+`}`, "If-Match", version), 412)
			wantEnvelope(t, f.do("DELETE", to+"?dry_run="+dryRun, "", "If-Match", version), 412)
		}
	}
	wantStatus(t, f.do("DELETE", to+"?dry_run=true", "", "If-Match", `"1"`), 200, `"version":1`, `"preview":{"target":null,"counts":{"DEAD":1`, `"selected":1`)
	wantAnswer(t, f.do("DELETE", to+"?reason=back", "", "If-Match", `"1"`), 200, `{"redirect":`+shown+`,"preview":null}`)
	wantEnvelope(t, f.do("DELETE", to, ""), 404)
	wantEnvelope(t, f.do("DELETE", to+"?dry_run=true", ""), 404)

	trail := f.trail(t, repository.TrailQuery{Kind: entity.KindRedirect})
	check.True(t, len(trail) == 2 && trail[0].Action == entity.ActionDelete && trail[0].Cause.Reason == "back" && trail[1].To == "moved", "trail = %+v", trail)
}

// A redirect that cannot work is refused with the name of the field.
func TestRedirects_Bad(t *testing.T) {
	t.Parallel()
	f := redirectFixture().open()
	for body, field := range map[string]string{
		``: "target", `{"target":""}`: "target", `{"target":1}`: "target", `{"target":"a b"}`: "target", `{"target":"orders.events.v1"}`: "target",
		`{"target":"gone"}`: "target", `{"target":"gone","dry_run":true}`: "target", `{"target":"moved","dry_run":1}`: "dry_run", `{"to":"moved"}`: "to",
	} {
		e := wantEnvelope(t, f.do("PUT", redirects+"/orders.events.v1", body), 400)
		check.Equal(t, firstField(e.Details), field, body)
	}
	wantEnvelope(t, f.do("PUT", redirects+"/a%20b", `{"target":"moved"}`), 400, "topic")
	for _, version := range []string{`1`, `"x"`, `"-1"`, `*`, `"01x"`, `W/"1"`} {
		wantEnvelope(t, f.do("PUT", redirects+"/orders.events.v1", `{"target":"moved"}`, "If-Match", version), 400, "If-Match")
	}
	wantEnvelope(t, f.do("PUT", redirects+"/orders.events.v1", `{"target":"silent"}`), 503)
}

// A redirect needs admin on its topic and operator on its target; the list contains the redirects of visible topics.
func TestRedirects_Roles(t *testing.T) {
	t.Parallel()
	both := grants("ana", person("", "orders.*", auth.Admin), person("", "moved", auth.Operator))
	f := redirectFixture().guarded(both)
	wantEnvelope(t, f.by("ana", "PUT", redirects+"/orders.events.v1", `{"target":"payments.events.v1"}`), 403, "role")
	wantEnvelope(t, f.by("ana", "PUT", redirects+"/moved", `{"target":"orders.events.v1"}`), 403, "role")
	wantStatus(t, f.by("ana", "PUT", redirects+"/orders.events.v1", `{"target":"moved"}`), 200)
	check.Must(f.memory.SaveRedirect(t.Context(), "payments.events.v1", "moved", nil, entity.By("x")))(t)
	w := f.by("ana", "GET", redirects, "")
	wantStatus(t, w, 200, "orders.events.v1")
	wantWithout(t, w, "payments")
}

func TestRedirects_Pages(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	for _, topic := range []string{"c", "a", "b"} {
		check.Must(f.memory.SaveRedirect(t.Context(), topic, "z", nil, entity.By("x")))(t)
	}
	got, _ := walk(t, f, redirects, "redirects", "topic")
	check.Equal(t, strings.Join(got, " "), "a b c", "topics")
}

// A message says to which topic a retry would go, and whether that topic exists. An error group names its topics that
// neither exist nor have a redirect.
func TestTargetOfAMessage(t *testing.T) {
	t.Parallel()
	grouped := func(m *entity.Message) { m.Group = failure.ID() }
	f := redirectFixture(message(idA, grouped), message(idB, unknown("a.dlq.v1", 9)), message(idUnknown, grouped, func(m *entity.Message) {
		m.OriginalTopic, m.Source.Offset = "silent", 77
	}))
	check.NoError(t, f.memory.SaveFingerprints(t.Context(), []entity.Fingerprint{failure}))
	f.open()
	group := "/api/v1/groups/" + failure.ID().String()
	wantStatus(t, f.do("GET", oneA, ""), 200, `"target":{"topic":"orders.events.v1","redirected":false,"exists":false},`)
	wantStatus(t, f.do("GET", oneB, ""), 200, `"target":null,`)
	wantStatus(t, f.do("GET", "/api/v1/dlq/messages/"+idUnknown.String(), ""), 200, `"target":{"topic":"silent","redirected":false,"exists":null},`)
	wantStatus(t, f.do("GET", group, ""), 200, `"missing_topics":["orders.events.v1"]`)
	check.Must(f.memory.SaveRedirect(t.Context(), "orders.events.v1", "moved", nil, entity.By("x")))(t)
	wantStatus(t, f.do("GET", oneA, ""), 200, `"target":{"topic":"moved","redirected":true,"exists":true},`)
	wantWithout(t, f.do("GET", group, ""), "missing_topics")
}
