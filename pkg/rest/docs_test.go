package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var (
	documented = regexp.MustCompile("(?s)```http\n(.*?)```\n\nAnswer `(\\d+)`:(?:\n\n```(json|text)\n(.*?)```)?")
	errorLine  = regexp.MustCompile("(?m)^`(\\d{3})` `(SYS_DLQ_[A-Z_]+)`: ")
)

// Every request in the API document gets the answer that stands there, and
// every route has one.
func TestDocument(t *testing.T) {
	t.Parallel()
	text := readDocument(t)
	shown := map[string]bool{}
	for _, m := range documented.FindAllStringSubmatch(text, -1) {
		line, body, _ := strings.Cut(strings.TrimSpace(m[1]), "\n\n")
		method, target, _ := strings.Cut(line, " ")
		f := documentFixture()
		w := f.do(method, target, body, "X-Request-Id", "req_abc123def456")
		if want, _ := strconv.Atoi(m[2]); w.Code != want {
			t.Errorf("%s = %d, the document says %d", line, w.Code, want)
		}
		switch {
		case m[3] == "text" && w.Body.String() != strings.TrimSuffix(m[4], "\n"):
			t.Errorf("%s = %q, the document says %q", line, w.Body, m[4])
		case m[3] == "json" && !sameJSON(t, w.Body.String(), m[4]):
			t.Errorf("%s\n     = %s\nthe document says %s", line, w.Body, m[4])
		}
		shown[method+" "+template(f, method, target)] = true
	}
	f := documentFixture()
	for _, rt := range append(f.server.probeRoutes(), f.server.apiRoutes()...) {
		if !shown[rt.method+" "+rt.path] {
			t.Errorf("the document has no example of %s %s", rt.method, rt.path)
		}
	}
}

// The document's list of errors is the table of the program.
func TestDocument_Errors(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	for _, m := range errorLine.FindAllStringSubmatch(readDocument(t), -1) {
		said[m[1]] = m[2]
	}
	known := map[string]string{}
	for _, a := range append(answers[:], internal) {
		known[strconv.Itoa(a.status)] = a.code
	}
	if !reflect.DeepEqual(said, known) {
		t.Errorf("the document has %v, the program %v", said, known)
	}
}

func readDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The message of unknown origin and the archived one that the document speaks of,
// and the error group of its dead message.
var (
	idUnknown  = uuid.MustParse("550e8400-e29b-41d4-a716-446655440002")
	idArchived = uuid.MustParse("550e8400-e29b-41d4-a716-446655440003")
	failure    = entity.Fingerprint{Class: "java.net.SocketTimeoutException", Title: "processing failed", Frames: []string{"com.acme.Stock.reserve"}}
)

// cluster answers for Kafka in the document.
type cluster struct{}

func (cluster) Inspect(_ context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth {
	var list []entity.ReplayHealth
	for _, q := range questions {
		yes := true
		health := entity.ReplayHealth{Topic: q.Topic, Exists: &yes, Allowed: true}
		if q.Topic == "" {
			health = entity.ReplayHealth{Class: string(entity.UnknownTopic), Reason: "nobody knows where these messages belong"}
		}
		list = append(list, health)
	}
	return list
}

func (cluster) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	return map[string]int64{"orders.dlq.v1": 3, "payments.dlq.v1": 0}
}

// documentFixture is the world that the document speaks of: two messages, two
// redrives of the first of them, a message of unknown origin and an archived one.
func documentFixture() *fixture {
	f := newFixture(message(idA))
	ctx := context.Background()
	if err := f.memory.NoteFingerprints(ctx, []entity.Fingerprint{failure}); err != nil {
		panic(err)
	}
	f.memory.Insert(message(idB, in(entity.Dead, 3), at(noon.Add(-time.Minute)), func(m *entity.Message) { m.Group, m.Failure.Class = failure.ID(), failure.Class }))
	f.memory.Insert(message(idUnknown, at(noon.Add(-time.Hour)), unknown("payments.dlq.v1", 7)))
	f.memory.Insert(message(idArchived, in(entity.Resolved, 1), at(noon.Add(-720*time.Hour))))
	f.memory.Archive(idArchived)
	signer, err := auth.NewSigner(auth.Config{}, f.logger)
	if err != nil {
		panic(err)
	}
	signer.Use([][]byte{bytes.Repeat([]byte("a"), auth.KeySize)})
	f.options = []Option{WithDialects(suffixMapper{}), WithInspector(cluster{}), WithSigner(signer)}
	f.catalogueAll(nil)
	for _, id := range []uuid.UUID{idRunning, idPaused} {
		_, err := f.memory.CreateRedrive(context.Background(), repository.NewRedrive{
			ID: id, Action: entity.RedriveRetry, BatchSize: 1, Selection: entity.Selection{Filter: entity.Filter{Topic: "orders.dlq.v1"}},
			Cause: entity.Cause{Actor: anonymous, Reason: "billing is fixed", RequestID: "req_1b3c5d7e9f00"},
		})
		if err == nil && id == idPaused {
			_, err = f.redriver.Pause(context.Background(), id, entity.By(anonymous))
		}
		if err != nil {
			panic(err) // tests that are at fault themselves
		}
	}
	f.checks = []Check{{Name: "database", Required: true, Probe: func(context.Context) error { return nil }}}
	return f.open()
}

// template finds the route that a request takes.
func template(f *fixture, method, target string) string {
	path, _, _ := strings.Cut(target, "?")
	for _, rt := range append(f.server.apiRoutes(), f.server.probeRoutes()...) {
		pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(rt.path), "[^/]+")
		if rt.method == method && regexp.MustCompile("^"+pattern+"$").MatchString(path) {
			return rt.path
		}
	}
	return ""
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Errorf("%s is not JSON: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Errorf("%s is not JSON: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}
