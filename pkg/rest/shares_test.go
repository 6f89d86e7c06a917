package rest

import (
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// rejected makes a message a pointer of the share group billing, whose completion has the given state.
func rejected(state entity.Completion, reason string) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.group", Value: []byte("billing")}}}
		m.Failure.ConsumerGroup, m.Failure.Dialect, m.Failure.Attempts = "billing", "sharegroup", new(5)
		m.Share = &entity.ShareRecord{State: state, Reason: reason, Duplicates: 2}
	}
}

// The answer for a message of a share group says whether its record is stored. If not, it says why.
func TestMessageOfAShareGroup(t *testing.T) {
	t.Parallel()
	const shared = `"duplicates":2,"repeats":[],"repeat_of":null,"source_gone":`
	for name, c := range map[string]struct {
		state  entity.Completion
		reason string
		want   string
	}{
		"Waiting": {entity.CompletionWaiting, "", shared + `false,"completion":"waiting","completion_reason":null`},
		"Refused": {entity.CompletionRefused, "may not be read", shared + `false,"completion":"refused","completion_reason":"may not be read"`},
		"Gone":    {entity.SourceGone, "it expired", shared + `true,"completion":"gone","completion_reason":"it expired"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA, rejected(c.state, c.reason))).with(WithDialects(pointers{})).open()
			for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export"} {
				wantStatus(t, f.do("GET", target, ""), 200, c.want, `"payload":null`, `"payload_omitted":"pointer"`,
					`"consumer_group":"billing"`, `"consumer_attempts":5`)
			}
		})
	}
	completed := message(idA, func(m *entity.Message) { m.Share = &entity.ShareRecord{State: entity.Completed} })
	wantStatus(t, newFixture(completed).with(WithDialects(pointers{})).open().do("GET", oneA, ""), 200,
		`"duplicates":0,"repeats":[],"repeat_of":null,"source_gone":false,"completion":"completed","completion_reason":null`, `"payload":{"order_id": "123"}`, `"payload_omitted":null`)
	wantStatus(t, newFixture(message(idA)).open().do("GET", oneA, ""), 200,
		`"duplicates":null,"repeats":[],"repeat_of":null,"source_gone":false,"completion":null,"completion_reason":null`)
}

// The payload route answers 404 with the reason for a record that no longer exists. It does not fetch a record from
// Kafka while the ingester still reads it.
func TestPayloadOfAShareGroup(t *testing.T) {
	t.Parallel()
	fetched := 0
	gone := &entity.RefusedError{Class: entity.BadRecord, Reason: "the record is gone: retention removed it"}
	f := newFixture(message(idA, rejected(entity.SourceGone, "x")), message(idB, rejected(entity.CompletionWaiting, ""))).
		with(WithDialects(pointers{}), WithFetcher(fetching{err: gone, fetched: &fetched})).open()
	wantStatus(t, f.do("GET", oneA+"/payload", ""), 404, "the value cannot be had any more: the record is gone: retention removed it")
	wantStatus(t, f.do("GET", oneB+"/payload", ""), 409, "the record is being read from topic orders.events.v1 and is not stored yet")
	check.Equal(t, fetched, 1, "records asked for in Kafka")
}

// The reason contains the name of the share group, so it is masked if the header that names the group is masked.
func TestMasks_HideTheReasonOfACompletion(t *testing.T) {
	t.Parallel()
	const secret = "tenant-7"
	masks := maskOf("group")
	m := message(idA, rejected(entity.CompletionRefused, "share group "+secret+" has no state"), func(m *entity.Message) {
		m.Failure.ConsumerGroup = secret
		m.Record.Headers = []entity.Header{{Key: "group", Value: []byte(secret)}}
	})
	f := newFixture(m).with(WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}),
		WithShareGroups(told{groups: []entity.ShareGroup{{
			Name: secret, DeadLetterTopic: "dlq.x", Problems: []entity.ShareProblem{{Code: "wrong_prefix", Text: secret, Command: secret}},
		}}, known: true}))
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask))
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export", "/api/v1/export?format=csv"} {
		w := f.by("ana", "GET", target, "")
		wantStatus(t, w, 200, wire.MaskedText)
		wantWithout(t, w, secret)
		wantStatus(t, f.by("root", "GET", unmasking(target), ""), 200, "share group "+secret+" has no state")
	}
	wantStatus(t, f.by("ana", "GET", oneA, ""), 200, `"completion":"refused","completion_reason":"***"`, `"completion_reason"]`)
	w := f.by("ana", "GET", shareGroupsPath, "")
	wantStatus(t, w, 200, `"group":"***"`, `{"code":"wrong_prefix","text":null,"command":null}`)
	wantWithout(t, w, secret)
}

// told is a ShareWatcher that returns the share groups set by a test.
type told struct {
	groups []entity.ShareGroup
	known  bool
}

func (s told) ShareGroups() ([]entity.ShareGroup, bool) { return s.groups, s.known }

const shareGroupsPath = "/api/v1/share-groups"

func TestShareGroups(t *testing.T) {
	t.Parallel()
	f := newFixture(
		message(sixth(0), rejected(entity.CompletionWaiting, "")), message(sixth(1), rejected(entity.CompletionRefused, "no")),
		message(sixth(2), rejected(entity.CompletionRefused, "no")), message(sixth(3), rejected(entity.SourceGone, "it expired")),
		message(sixth(4), rejected(entity.CompletionWaiting, ""), func(m *entity.Message) { m.OriginalTopic = "secret.v1" }),
	).with(WithShareGroups(told{known: true, groups: []entity.ShareGroup{
		{Name: "billing", DeadLetterTopic: "dlq.billing", CopiesRecords: true, Topics: []string{"orders.events.v1", "secret.v1"}, TopicsKnown: true},
		{Name: "hidden", DeadLetterTopic: "dlq.hidden", Topics: []string{"secret.v1"}, TopicsKnown: true},
		{Name: "new", DeadLetterTopic: "dlq.new", Problems: []entity.ShareProblem{{Code: "topic_missing", Text: "missing", Command: "create it"}, {Code: "own_topic", Text: "loop"}}},
	}})).guarded(person("root", "*", auth.Viewer), person("ana", "orders.*", auth.Viewer), person("new", "dlq.new", auth.Viewer))
	const withProblems = `{"group":"new","dlq_topic":"dlq.new","copies_records":false,"topics":null,"messages_waiting":0,"messages_refused":0,"problems":[` +
		`{"code":"topic_missing","text":"missing","command":"create it"},{"code":"own_topic","text":"loop","command":null}]}`
	wantAnswer(t, f.by("root", "GET", shareGroupsPath, ""), 200, `{"share_groups":[`+withProblems+`,`+
		`{"group":"billing","dlq_topic":"dlq.billing","copies_records":true,"topics":["orders.events.v1","secret.v1"],"messages_waiting":2,"messages_refused":2,"problems":[]},`+
		`{"group":"hidden","dlq_topic":"dlq.hidden","copies_records":false,"topics":["secret.v1"],"messages_waiting":1,"messages_refused":0,"problems":[]}],"total":3}`)
	wantAnswer(t, f.by("ana", "GET", shareGroupsPath, ""), 200, `{"share_groups":[`+
		`{"group":"billing","dlq_topic":"dlq.billing","copies_records":true,"topics":["orders.events.v1"],"messages_waiting":1,"messages_refused":2,"problems":[]}],"total":1}`)
	wantAnswer(t, f.by("new", "GET", shareGroupsPath, ""), 200, `{"share_groups":[`+withProblems+`],"total":1}`)
}

// The list of share groups has a limit, and its total also counts the groups beyond the limit.
func TestShareGroups_Bounded(t *testing.T) {
	t.Parallel()
	groups := make([]entity.ShareGroup, 1200)
	groups[1100] = entity.ShareGroup{Name: "broken", Problems: []entity.ShareProblem{{Code: "compacted"}}}
	w := newFixture().with(WithShareGroups(told{groups, true})).open().do("GET", shareGroupsPath, "")
	body := wantStatus(t, w, 200, `{"share_groups":[{"group":"broken"`, `"total":1200}`)
	check.Equal(t, strings.Count(body, `{"group":`), 1000, "groups of the answer")
}

// While the share groups are not known, the answer is an error and not an empty list.
func TestShareGroups_NotKnown(t *testing.T) {
	t.Parallel()
	wantStatus(t, newFixture().open().do("GET", shareGroupsPath, ""), 503, `{"field":"kafka","reason":"is not configured"}`)
	wantStatus(t, newFixture().with(WithShareGroups(told{})).open().do("GET", shareGroupsPath, ""), 503, "has not answered yet")
}
