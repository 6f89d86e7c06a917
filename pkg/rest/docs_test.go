package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

// Every example request in the API's document gets the answer that the document shows. Every route has such an example.
func TestDocument(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Read(openapi.Document)
	check.NoError(t, err)
	shown := map[string]bool{}
	for _, section := range doc.Sections() {
		for _, operation := range section.Operations {
			shown[operation.Method+" "+operation.Path] = len(operation.Examples) > 0
			for _, e := range operation.Examples {
				method, target, _ := strings.Cut(e.Request, " ")
				w := documentFixture().do(method, target, e.Body, "X-Request-Id", "req_abc123def456")
				got := w.Body.String()
				if fmt.Sprint(w.Code) != e.Status || e.Answer != "" && got != e.Answer && !sameJSON(got, e.Answer) {
					t.Errorf("%s = %d %s\nthe document says %s %s", w.asked, w.Code, got, e.Status, e.Answer)
				}
			}
		}
	}
	f := documentFixture()
	for _, rt := range append(f.server.probeRoutes(), f.server.apiRoutes()...) {
		if !shown[rt.method+" "+rt.path] {
			t.Errorf("the document has no example of %s %s", rt.method, rt.path)
		}
	}
}

func readDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/api.md")
	check.NoError(t, err)
	return string(text)
}

// Objects of the document's examples: a message of unknown origin, an archived message, a saved view, and the
// fingerprint of an error group.
var (
	idUnknown  = uuid.MustParse("550e8400-e29b-41d4-a716-446655440002")
	idArchived = uuid.MustParse("550e8400-e29b-41d4-a716-446655440003")
	idView     = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d92")
	failure    = entity.Fingerprint{
		Class: "java.net.SocketTimeoutException", Title: "processing failed",
		Frames: []string{"com.acme.Stock.reserve"},
	}
)

// cluster is an Inspector that returns what Kafka answers in the document's examples.
type cluster struct{}

func (cluster) Inspect(_ context.Context, questions []entity.ReplayQuestion) (list []entity.ReplayHealth) {
	for _, q := range questions {
		health := entity.ReplayHealth{Topic: q.Topic, Exists: new(true), Allowed: true}
		if q.Topic == "" {
			health = entity.ReplayHealth{Class: string(entity.UnknownTopic), Reason: "the original topic is not known; map it first"}
		}
		list = append(list, health)
	}
	return list
}

func (cluster) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	return map[string]int64{"orders.dlq.v1": 3, "payments.dlq.v1": 0}
}

// documentFixture has the objects of the document's examples: two messages, two redrives of the first message, a
// message of unknown origin, an archived message, a share group, a saved view and a redirect.
func documentFixture() *fixture {
	f := newFixture(message(idA))
	ctx := context.Background()
	if err := f.memory.SaveFingerprints(ctx, []entity.Fingerprint{failure}); err != nil {
		panic(err)
	}
	f.memory.Insert(message(idB, in(entity.Dead, 3), at(noon.Add(-time.Minute)),
		func(m *entity.Message) { m.Group, m.Failure.Class = failure.ID(), failure.Class }))
	f.memory.Insert(message(idUnknown, at(noon.Add(-time.Hour)), unknown("payments.dlq.v1", 7)))
	f.memory.Insert(message(idArchived, in(entity.Resolved, 1), at(noon.Add(-720*time.Hour))))
	f.memory.Archive(idArchived)
	signer := signerOf(bytes.Repeat([]byte("a"), auth.KeySize))
	f.with(WithDialects(suffixMapper{}), WithInspector(cluster{}), WithSigner(signer),
		WithShareGroups(told{known: true, groups: []entity.ShareGroup{{
			Name: "billing", DeadLetterTopic: "dlq.billing", Topics: []string{"orders.events.v1"}, TopicsKnown: true,
			Problems: []entity.ShareProblem{{
				Code:    "not_enabled",
				Text:    "dead-letter topic dlq.billing does not allow dead letters of share groups (errors.deadletterqueue.group.enable)",
				Command: "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name dlq.billing --add-config errors.deadletterqueue.group.enable=true",
			}},
		}}}))
	f.index(nil)
	for _, id := range []uuid.UUID{idRunning, idPaused} {
		_, err := f.memory.CreateRedrive(context.Background(), repository.NewRedrive{
			ID: id, Action: entity.RedriveRetry, BatchSize: 1, Selection: entity.Selection{Filter: entity.Filter{Topic: "orders.dlq.v1"}},
			Cause: entity.AuditInfo{Actor: anonymous, Reason: "billing is fixed", RequestID: "req_1b3c5d7e9f00"},
		})
		if err == nil && id == idPaused {
			_, err = f.redriver.Pause(context.Background(), id, entity.By(anonymous))
		}
		if err != nil {
			panic(err) // an error here is a fault of the test itself
		}
	}
	view := entity.View{ID: idView, Name: "Dead orders", Owner: anonymous, Shared: true, List: "messages", Query: "status=DEAD&topic=orders.*"}
	if _, err := f.memory.SaveView(ctx, view, entity.By(anonymous)); err != nil {
		panic(err)
	}
	if _, err := f.memory.SaveRedirect(ctx, "stock.events.v1", "stock.events.v2", nil, entity.AuditInfo{Actor: anonymous, Reason: "renamed"}); err != nil {
		panic(err)
	}
	f.checks = []Check{{Name: "database", Required: true, Probe: func(context.Context) error { return nil }}}
	return f.open()
}

// sameJSON reports whether a and b are both valid JSON with equal values.
func sameJSON(a, b string) bool {
	var x, y any
	return errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)) == nil && reflect.DeepEqual(x, y)
}
