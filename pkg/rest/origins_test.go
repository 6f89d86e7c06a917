package rest

import (
	"context"
	"fmt"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// judgedAs is a server option for tests: every original topic has the given standing, except one that an operator has
// set.
func judgedAs(standing entity.OriginStanding) Option {
	return WithOrigins(fixedOrigins{standing})
}

type fixedOrigins struct{ standing entity.OriginStanding }

func (f fixedOrigins) Standing(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return func(m *entity.Message) entity.OriginStanding {
		if m.Origin.Confidence == entity.FromOperator {
			return entity.OriginStanding{Declaration: entity.Declared}
		}
		return f.standing
	}, nil
}

func (f fixedOrigins) Recent(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return f.Standing(ctx)
}

var (
	declaredOrigin   = entity.OriginStanding{Declaration: entity.Declared}
	trustedOrigin    = entity.OriginStanding{Declaration: entity.NotDeclared}
	undeclaredOrigin = entity.OriginStanding{Declaration: entity.Contradicted, Undeclared: "gamma may not claim it"}
)

// claimed returns a message of the dead-letter topic gamma.dlq.v1 whose header names the original topic
// orders.events.v1.
func claimed() entity.Message {
	return message(idA, func(m *entity.Message) {
		m.Source.Topic, m.OriginalTopic, m.Origin.Confidence = "gamma.dlq.v1", topicA, entity.FromHeader
	})
}

// A retry needs operator on the original topic. Where only the record's headers name the original topic, it also needs
// operator on the dead-letter topic.
func TestRetryOfAClaimedOrigin(t *testing.T) {
	t.Parallel()
	orders, gamma, gammaAsViewer := person("p", "orders.*", auth.Operator), person("p", "gamma.*", auth.Operator),
		person("p", "gamma.*", auth.Viewer)
	for name, c := range map[string]struct {
		standing entity.OriginStanding
		orders   int
	}{
		"Declared": {declaredOrigin, 200}, "Trusted": {trustedOrigin, 403}, "Undeclared": {undeclaredOrigin, 403},
	} {
		for who, want := range map[string]struct {
			auth.Principal
			status int
		}{
			"Orders": {orders, c.orders}, "Gamma": {gamma, 404}, "Both": {grants("p", orders, gamma), 200},
			"Everything": {person("p", "*", auth.Operator), 200}, "GammaAsViewer": {grants("p", orders, gammaAsViewer), c.orders},
		} {
			t.Run(name+"/"+who, func(t *testing.T) {
				t.Parallel()
				w := newFixture(claimed()).with(judgedAs(c.standing)).guarded(want.Principal).by("p", "POST", retryA, "")
				if wantStatus(t, w, want.status); w.Code == 403 {
					wantStatus(t, w, 403, "gamma.dlq.v1")
				}
			})
		}
	}
}

// Setting the original topic of one message declares it, if the topic that the message's header names is undeclared;
// otherwise it is a conflict. It needs the role operator on the new original topic and on the dead-letter topic, and is
// in the audit trail.
func TestSetOriginDeclares(t *testing.T) {
	t.Parallel()
	orders := person("p", "orders.*", auth.Operator)
	both := grants("p", orders, person("", "gamma.*", auth.Operator))
	for name, c := range map[string]struct {
		standing entity.OriginStanding
		who      auth.Principal
		topic    string
		status   int
	}{
		"TheClaimedTopic":          {undeclaredOrigin, both, topicA, 200},
		"AnotherTopic":             {undeclaredOrigin, both, "gamma.events.v1", 200},
		"ATopicOfOthers":           {undeclaredOrigin, both, topicB, 403},
		"WithoutTheDeadLetter":     {undeclaredOrigin, orders, topicA, 403},
		"AsViewerOfTheDeadLetter":  {undeclaredOrigin, grants("p", orders, person("", "gamma.*", auth.Viewer)), topicA, 403},
		"AsViewer":                 {undeclaredOrigin, person("p", "orders.*,gamma.*", auth.Viewer), topicA, 403},
		"WhatAHeaderMayName":       {trustedOrigin, both, topicA, 409},
		"WhatIsDeclaredByTheRules": {declaredOrigin, both, topicA, 409},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(claimed()).with(judgedAs(c.standing)).guarded(c.who)
			wantStatus(t, f.by("p", "POST", oneA+"/origin", fmt.Sprintf(`{"original_topic":%q}`, c.topic)), c.status)
			trail := f.trail(t, repository.TrailQuery{ObjectID: idA, Action: entity.ActionMap})
			if len(trail) != map[bool]int{true: 1}[c.status == 200] {
				t.Errorf("the trail has %+v", trail)
			}
			if c.status == 200 {
				wantStatus(t, f.by("p", "GET", oneA, ""), 200, `"original_topic":"`+c.topic+`"`,
					`"origin_confidence":"operator","undeclared":false,"undeclared_reason":null`)
			}
		})
	}
}

// Answers that show a live message say whether its origin is undeclared, and why.
func TestUndeclaredIsShown(t *testing.T) {
	t.Parallel()
	const shown = `"origin_confidence":"header","undeclared":true,"undeclared_reason":"gamma may not claim it"`
	f := newFixture(claimed()).with(judgedAs(undeclaredOrigin)).open()
	for _, target := range []string{oneA, "/api/v1/dlq/" + topicA, "/api/v1/messages", "/api/v1/export"} {
		wantStatus(t, f.do("GET", target, ""), 200, shown)
	}
	wantStatus(t, f.do("GET", "/api/v1/export?format=csv", ""), 200, `,header,true,"gamma may not claim it",`)
	f = newFixture(claimed()).with(judgedAs(trustedOrigin)).open()
	wantStatus(t, f.do("GET", "/api/v1/messages", ""), 200, `"undeclared":false,"undeclared_reason":null`)
}

// A pointer is a dead letter that only names another record. Principals who may see the topic of that record may read
// its payload, and the audit trail gets each read before the payload is shown.
func TestPayloadOfAPointerIsAudited(t *testing.T) {
	t.Parallel()
	pointing := claimed()
	pointing.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(topicA)}}}
	pointing.Origin.Partition, pointing.Origin.Offset = new(int32(2)), new(int64(7))
	refused := &entity.RefusedError{Class: entity.PointerRefused, Reason: "kafka.pointer_topics does not name it"}
	payload := oneA + "/payload"
	for name, c := range map[string]struct {
		topics  string
		fetcher fetching
		status  int
		text    string
		reads   int
	}{
		"Viewer":                  {"orders.*", fetching{value: []byte("bytes")}, 200, "bytes", 1},
		"ViewerOfTheDeadLetter":   {"gamma.*", fetching{value: []byte("bytes")}, 404, "not found", 0},
		"ViewerOfEverything":      {"*", fetching{value: []byte("bytes")}, 200, "bytes", 1},
		"APointerNotFollowed":     {"*", fetching{err: refused}, 409, "kafka.pointer_topics", 0},
		"ARecordThatIsATombstone": {"*", fetching{}, 204, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(pointing).with(WithDialects(pointers{}), WithFetcher(c.fetcher)).guarded(person("p", c.topics, auth.Viewer))
			wantStatus(t, f.by("p", "GET", payload, ""), c.status, c.text)
			trail := f.trail(t, repository.TrailQuery{ObjectID: idA, Action: entity.ActionReadPointer})
			if len(trail) != c.reads || c.reads > 0 &&
				(trail[0].From != "gamma.dlq.v1" || trail[0].To != topicA+", partition 2, offset 7" || trail[0].Cause.Actor != "p") {
				t.Errorf("the trail has %+v, want %d reads, and who read what", trail, c.reads)
			}
		})
	}
	f := newFixture(pointing).with(WithDialects(pointers{}), WithFetcher(fetching{value: []byte("bytes")}))
	// If the audit trail does not accept the entry, the payload is not shown.
	wantEnvelope(t, f.over(unrecorded(f.memory)).open().do("GET", payload, ""), 503)
}
