package rest

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// suffixMapper implements Dialects for tests. The pattern of its rules is a prefix, with or without a star, and it
// refuses a rule whose original topic is a dead-letter topic.
type suffixMapper struct{ noDialects }

func (suffixMapper) CheckRules(rules []entity.TopicRule) error {
	for _, r := range rules {
		if strings.HasSuffix(r.Original, ".dlq.v1") {
			return &entity.FieldError{Field: "rules[0].original", Reason: "is itself a dead-letter topic"}
		}
	}
	return nil
}

func (suffixMapper) MapTopic(rules []entity.TopicRule, topic string) string {
	for _, r := range rules {
		if strings.HasPrefix(topic, strings.TrimSuffix(r.Pattern, "*")) {
			return r.Original
		}
	}
	return ""
}

func (suffixMapper) ConfiguredRules() []entity.TopicRule {
	return []entity.TopicRule{{Pattern: "audit.dlq.v1", Original: "audit"}}
}

func unknown(source string, offset int64) func(*entity.Message) {
	return func(m *entity.Message) {
		m.OriginalTopic, m.Origin.Confidence = "", entity.FromNothing
		m.Source.Topic, m.Source.Offset = source, offset
	}
}

func mappingFixture() (*fixture, *stub) {
	f, orders := orderingFixture(message(sixth(0), unknown("a.dlq.v1", 1)), message(sixth(1), unknown("a.dlq.v1", 2)),
		message(sixth(2), unknown("b.dlq.v1", 1)))
	return f.with(WithDialects(suffixMapper{})).open(), orders
}

const mappings = "/api/v1/mappings"

func TestMappings(t *testing.T) {
	t.Parallel()
	f, orders := mappingFixture()
	configured := `"configured":[{"pattern":"audit.dlq.v1","original":"audit"}]`
	unmappedA, unmappedB := `{"dlq_topic":"a.dlq.v1","messages":2,"original":`, `{"dlq_topic":"b.dlq.v1","messages":1,"original":null}`
	wantAnswer(t, f.do("GET", mappings, ""), 200, `{"version":0,"updated_at":null,"updated_by":null,"rules":[],`+configured+
		`,"unmapped":[`+unmappedA+`null},`+unmappedB+`]}`)
	set := `{"version":1,"updated_at":"2026-02-20T10:30:00.000+00:00","updated_by":"anonymous","rules":[{"pattern":"a.*","original":"orders"}],` + configured +
		`,"unmapped":[` + unmappedA + `"orders"},` + unmappedB + `]`
	body := `{"version":0,"rules":[{"pattern":"a.*","original":"orders"}],"reason":"found out"}`
	wantAnswer(t, f.do("PUT", mappings, body), 200, set+`,"redrives":[]}`)
	wantAnswer(t, f.do("GET", mappings, ""), 200, set+`}`)
	if len(orders.begun) > 0 {
		t.Errorf("%d redrives were begun, though the request does not apply the rules", len(orders.begun))
	}
	wantStatus(t, f.do("PUT", mappings, body), 409, "changed")
}

// One redrive for each dead-letter topic applies the rules that map this topic. A request that is repeated with its
// Idempotency-Key creates no second redrive.
func TestMappings_Apply(t *testing.T) {
	t.Parallel()
	f, orders := mappingFixture()
	body := `{"version":0,"rules":[{"pattern":"a.*","original":"orders"},{"pattern":"b.*","original":"payments"}],"apply":true}`
	first := wantStatus(t, f.do("PUT", mappings, body, keyHeader, "k"), 200)
	wantAnswer(t, f.do("PUT", mappings, body, keyHeader, "k"), 200, first)
	if len(orders.begun) != 2 || orders.begun[0].Cause.Operation == orders.begun[1].Cause.Operation {
		t.Fatalf("redrives %+v, want 2 with ids of their own", orders.begun)
	}
	for i, want := range []struct{ topic, original string }{{"a.dlq.v1", "orders"}, {"b.dlq.v1", "payments"}} {
		got := orders.begun[i]
		if got.Action != entity.RedriveMap || got.Selection.Topic != want.topic || !got.Selection.UnknownOrigin || got.Options.OriginalTopic != want.original {
			t.Errorf("redrive %d = %+v, want %+v", i, got, want)
		}
	}
}

// A dry run changes nothing, and says how many stored messages the rules would map.
func TestMappings_DryRun(t *testing.T) {
	t.Parallel()
	f, orders := mappingFixture()
	orders.preview = entity.Preview{Selected: 2, Sendable: 1, Reasons: map[string]int{"taken": 1}}
	body := `{"version":0,"rules":[{"pattern":"a.*","original":"orders"}],"apply":true,"dry_run":true}`
	wantStatus(t, f.do("PUT", mappings, body), 200, `"version":0,`, `"rules":[],`,
		`"preview":[{"dlq_topic":"a.dlq.v1","original":"orders","selected":2,"sendable":1,"reasons":{"taken":1}}]`)
	if len(orders.begun) > 0 || len(orders.previewed) != 1 || orders.previewed[0].Action != entity.RedriveMap {
		t.Errorf("begun %v, previewed %+v, want one preview", orders.begun, orders.previewed)
	}
	wantStatus(t, f.do("GET", mappings, ""), 200, `"version":0,`)
	wantStatus(t, f.do("PUT", mappings, `{"version":3,"rules":[],"dry_run":true}`), 409, "changed")
}

func TestMappings_Bad(t *testing.T) {
	t.Parallel()
	f, _ := mappingFixture()
	for body, field := range map[string]string{
		``: "version", `{"rules":[]}`: "version", `{"version":-1,"rules":[]}`: "version", `{"version":"0","rules":[]}`: "version",
		`{"version":0}`: "rules", `{"version":0,"rules":null}`: "rules", `{"version":0,"rules":{}}`: "rules",
		`{"version":0,"rules":[1]}`: "rules[0]",
		`{"version":0,"rules":[{"pattern":"a","original":"b"},{"pattern":1}]}`: "rules[1].pattern",
		`{"version":0,"rules":[{"pattern":"a","to":"b"}]}`:                     "rules[0].to",
		`{"version":0,"rules":[{"pattern":"a","original":"x.dlq.v1"}]}`:        "rules[0].original",
		`{"version":0,"rules":[],"apply":1}`:                                   "apply",
		`{"version":0,"rules":[` + strings.Repeat(`{},`, 1000) + `{}]}`:        "rules",
	} {
		if e := wantEnvelope(t, f.do("PUT", mappings, body), 400); firstField(e.Details) != field {
			t.Errorf("%s: details = %v, want %s first", body, e.Details, field)
		}
	}
}

func TestSetOrigin(t *testing.T) {
	t.Parallel()
	f, _ := mappingFixture()
	target := "/api/v1/dlq/messages/" + sixth(0).String() + "/origin"
	for body, field := range map[string]string{``: "original_topic", `{"original_topic":"a b"}`: "original_topic", `{"original_topic":"x.dlq.v1"}`: "original_topic", `{"topic":"x"}`: "topic"} {
		wantEnvelope(t, f.do("POST", target, body), 400, field)
	}
	want := `{"id":"` + sixth(0).String() + `","original_topic":"orders","origin_confidence":"operator"}`
	wantAnswer(t, f.do("POST", target, `{"original_topic":"orders","reason":"the team says so"}`), 200, want)
	// The second request changes nothing, because the message already has this original topic.
	wantAnswer(t, f.do("POST", target, `{"original_topic":"orders"}`), 200, want)
	if got := f.search(t, "/api/v1/messages?origin=unknown").ids(); got != "12" && got != "21" {
		t.Errorf("of unknown origin are %q, want 1 and 2", got)
	}
	if entries := f.trail(t, repository.TrailQuery{ObjectID: sixth(0), Action: entity.ActionMap}); len(entries) != 1 || entries[0].Cause.Reason != "the team says so" {
		t.Errorf("trail %+v", entries)
	}
}

func TestSetOrigin_Refusals(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, unknown("a.dlq.v1", 1), in(entity.Retrying, 1))).open()
	for id, want := range map[uuid.UUID]struct {
		status int
		text   string
	}{idA: {409, "its original topic"}, idB: {409, "claimed"}, idGone: {404, "not found"}} {
		w := f.do("POST", "/api/v1/dlq/messages/"+id.String()+"/origin", `{"original_topic":"orders"}`)
		wantEnvelope(t, w, want.status)
		wantStatus(t, w, want.status, want.text)
	}
}
