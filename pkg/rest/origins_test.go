package rest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// judged is a server option by which the origins of all messages are of that standing,
// but for those that an operator set.
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

// claimed is a message of gamma's dead-letter topic that claims orders.events.v1.
func claimed() entity.Message {
	return message(idA, func(m *entity.Message) {
		m.Source.Topic, m.OriginalTopic, m.Origin.Confidence = "gamma.dlq.v1", topicA, entity.FromHeader
	})
}

// both is somebody with a role on orders and on gamma.
func bothOf(role auth.Role) auth.Principal {
	p := person("both", "orders.*", role)
	p.Grants = append(p.Grants, person("", "gamma.*", role).Grants...)
	return p
}

// A retry needs operator on the original topic and, where only the record's headers
// name that, on the dead-letter topic.
func TestRetryOfAClaimedOrigin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		standing                    entity.OriginStanding
		orders, gamma, both, global int
	}{
		"Declared":   {declaredOrigin, 200, 404, 200, 200},
		"Trusted":    {trustedOrigin, 403, 404, 200, 200},
		"Undeclared": {undeclaredOrigin, 403, 404, 200, 200},
	} {
		for who, want := range map[string]struct {
			auth.Principal
			status int
		}{
			"Orders": {person("p", "orders.*", auth.Operator), c.orders}, "Gamma": {person("p", "gamma.*", auth.Operator), c.gamma},
			"Both": {bothOf(auth.Operator), c.both}, "Everything": {person("p", "*", auth.Operator), c.global},
			"GammaAsViewer": {viewerOfGamma(), c.orders},
		} {
			t.Run(name+"/"+who, func(t *testing.T) {
				t.Parallel()
				f := newFixture(claimed())
				f.options = []Option{judgedAs(c.standing)}
				w := f.guarded(want.Principal).by(want.Name, "POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", "")
				if w.Code != want.status {
					t.Fatalf("retry = %d %s, want %d", w.Code, w.Body, want.status)
				}
				if w.Code == 403 && !strings.Contains(w.Body.String(), "gamma.dlq.v1") {
					t.Errorf("the answer is %s, want it to name the dead-letter topic", w.Body)
				}
			})
		}
	}
}

// viewerOfGamma is an operator of orders who may only look at gamma.
func viewerOfGamma() auth.Principal {
	p := person("mixed", "orders.*", auth.Operator)
	p.Grants = append(p.Grants, person("", "gamma.*", auth.Viewer).Grants...)
	return p
}

// Setting the origin of one message declares it, also against its header where that is
// undeclared; it needs operator on the topic that is named and on the dead-letter
// topic, and is in the audit trail.
func TestSetOriginDeclares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		standing entity.OriginStanding
		who      auth.Principal
		topic    string
		status   int
	}{
		"TheClaimedTopic":          {undeclaredOrigin, bothOf(auth.Operator), topicA, 200},
		"AnotherTopic":             {undeclaredOrigin, bothOf(auth.Operator), "gamma.events.v1", 200},
		"ATopicOfOthers":           {undeclaredOrigin, bothOf(auth.Operator), topicB, 403},
		"WithoutTheDeadLetter":     {undeclaredOrigin, person("p", "orders.*", auth.Operator), topicA, 403},
		"AsViewerOfTheDeadLetter":  {undeclaredOrigin, viewerOfGamma(), topicA, 403},
		"AsViewer":                 {undeclaredOrigin, bothOf(auth.Viewer), topicA, 403},
		"WhatAHeaderMayName":       {trustedOrigin, bothOf(auth.Operator), topicA, 409},
		"WhatIsDeclaredByTheRules": {declaredOrigin, bothOf(auth.Operator), topicA, 409},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(claimed())
			f.options = []Option{judgedAs(c.standing)}
			target := "/api/v1/dlq/messages/" + idA.String()
			w := f.guarded(c.who).by(c.who.Name, "POST", target+"/origin", fmt.Sprintf(`{"original_topic":%q}`, c.topic))
			if w.Code != c.status {
				t.Fatalf("origin = %d %s, want %d", w.Code, w.Body, c.status)
			}
			trail, err := f.memory.Trail(t.Context(), repository.TrailQuery{ObjectID: idA, Action: entity.ActionMap, Limit: 9})
			if err != nil || len(trail) != map[bool]int{true: 1}[c.status == 200] {
				t.Errorf("the trail has %+v, %v", trail, err)
			}
			if c.status != 200 {
				return
			}
			body := f.by(c.who.Name, "GET", target, "").Body.String()
			if !strings.Contains(body, `"original_topic":"`+c.topic+`"`) || !strings.Contains(body, `"origin_confidence":"operator","undeclared":false,"undeclared_reason":null`) {
				t.Errorf("afterwards %s, want it declared by an operator", body)
			}
		})
	}
}

// Every answer that shows a message says whether its origin is undeclared, and why.
func TestUndeclaredIsShown(t *testing.T) {
	t.Parallel()
	const shown = `"origin_confidence":"header","undeclared":true,"undeclared_reason":"gamma may not claim it"`
	f := newFixture(claimed())
	f.options = []Option{judgedAs(undeclaredOrigin)}
	f.open()
	for target, want := range map[string]string{
		"/api/v1/dlq/messages/" + idA.String(): shown,
		"/api/v1/dlq/" + topicA:                shown,
		"/api/v1/messages":                     shown,
		"/api/v1/export":                       shown,
		"/api/v1/export?format=csv":            `,header,true,"gamma may not claim it",`,
	} {
		if body := f.do("GET", target, "").Body.String(); !strings.Contains(body, want) {
			t.Errorf("GET %s = %s, want %s in it", target, body, want)
		}
	}
	f.memory.Archive(idA)
	w := newFixture()
	w.options = []Option{judgedAs(trustedOrigin)}
	w.memory.Insert(claimed())
	if body := w.open().do("GET", "/api/v1/messages", "").Body.String(); !strings.Contains(body, `"undeclared":false,"undeclared_reason":null`) {
		t.Errorf("a trusted origin is shown as %s", body)
	}
}

// The record that a pointer stands for is shown to those who may see its topic, and
// each read is in the audit trail before it is shown.
func TestPayloadOfAPointerIsAudited(t *testing.T) {
	t.Parallel()
	pointing := claimed()
	pointing.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(topicA)}}}
	pointing.Origin.Partition, pointing.Origin.Offset = new(int32(2)), new(int64(7))
	refused := &entity.RefusedError{Class: entity.PointerRefused, Reason: "kafka.pointer_topics does not name it"}
	for name, c := range map[string]struct {
		who     auth.Principal
		fetcher fetching
		status  int
		text    string
		reads   int
	}{
		"Viewer":                  {person("p", "orders.*", auth.Viewer), fetching{value: []byte("bytes")}, 200, "bytes", 1},
		"ViewerOfTheDeadLetter":   {person("p", "gamma.*", auth.Viewer), fetching{value: []byte("bytes")}, 404, "not found", 0},
		"ViewerOfEverything":      {person("p", "*", auth.Viewer), fetching{value: []byte("bytes")}, 200, "bytes", 1},
		"APointerNotFollowed":     {person("p", "*", auth.Viewer), fetching{err: refused}, 409, "kafka.pointer_topics", 0},
		"ARecordThatIsATombstone": {person("p", "*", auth.Viewer), fetching{}, 204, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(pointing)
			f.options = []Option{WithDialects(pointers{}), WithFetcher(c.fetcher)}
			w := f.guarded(c.who).by(c.who.Name, "GET", "/api/v1/dlq/messages/"+idA.String()+"/payload", "")
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
				t.Errorf("payload = %d %s, want %d %q", w.Code, w.Body, c.status, c.text)
			}
			trail, err := f.memory.Trail(t.Context(), repository.TrailQuery{ObjectID: idA, Action: entity.ActionReadPointer, Limit: 9})
			if err != nil || len(trail) != c.reads {
				t.Fatalf("the trail has %+v, %v, want %d reads", trail, err, c.reads)
			}
			if c.reads > 0 && (trail[0].From != "gamma.dlq.v1" || trail[0].To != topicA+", partition 2, offset 7" || trail[0].Cause.Actor != c.who.Name) {
				t.Errorf("the trail has %+v, want who read what", trail[0])
			}
		})
	}
	t.Run("NothingIsShownThatIsNotAudited", func(t *testing.T) {
		t.Parallel()
		f := newFixture(pointing)
		f.store = silentTrail{f.memory}
		f.options = []Option{WithDialects(pointers{}), WithFetcher(fetching{value: []byte("bytes")})}
		w := f.open().do("GET", "/api/v1/dlq/messages/"+idA.String()+"/payload", "")
		if w.Code != 503 || strings.Contains(w.Body.String(), "bytes") {
			t.Errorf("payload = %d %s, want 503 without the value", w.Code, w.Body)
		}
	})
}

// silentTrail is a store whose audit trail cannot be written.
type silentTrail struct{ Store }

func (silentTrail) Record(context.Context, entity.AuditEntry) error { return entity.ErrUnavailable }
