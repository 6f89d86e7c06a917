package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

var (
	idA     = uuid.MustParse("550e8400-e29b-41d4-a716-446655440000")
	idB     = uuid.MustParse("550e8400-e29b-41d4-a716-446655440001")
	idGone  = uuid.MustParse("550e8400-e29b-41d4-a716-4466554400ff")
	redrive = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e")
	noon    = time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
)

// testID is the request id of every request that tests send.
const testID = "test-1"

// fixture is a server over a memory store, with a redriver that acknowledges
// everything. Store and redriver can be replaced before open.
type fixture struct {
	memory   *fake.Store
	store    Store
	redriver Redriver
	checks   []Check
	cfg      Config
	logger   *zap.Logger
	registry *prometheus.Registry
	options  []Option
	server   *Server

	undescribed bool // its requests are not held against the API's document
}

func newFixture(messages ...entity.Message) *fixture {
	store := fake.New(func() time.Time { return noon })
	for _, m := range messages {
		store.Insert(m)
	}
	cfg := DefaultConfig()
	cfg.Hosts = []string{"example.com", "x"} // those of httptest.NewRequest and exchangeRaw
	return &fixture{
		memory: store, store: store, redriver: acknowledging{store}, cfg: cfg,
		logger: zap.NewNop(), registry: prometheus.NewRegistry(),
	}
}

func (f *fixture) starting() *fixture {
	f.server = New(f.cfg, f.store, f.redriver, f.checks, f.registry, f.logger, f.options...)
	f.server.now = func() time.Time { return noon.Add(4 * time.Second) }
	return f
}

func (f *fixture) open() *fixture {
	f.starting()
	f.server.SetReady()
	return f
}

// do sends a request; headers are name, value, name, value.
func (f *fixture) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		panic(err) // such a request never reaches a handler
	}
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
	r.Method, r.URL, r.RequestURI = method, u, target
	r.Header.Set("X-Request-Id", testID)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.send(r)
}

// from sends a request without a body from an address.
func (f *fixture) from(address, method, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.RemoteAddr = address
	r.Header.Set("X-Request-Id", testID)
	return f.send(r)
}

// send holds the exchange against the API's document, too; see described_test.go.
func (f *fixture) send(r *http.Request) *httptest.ResponseRecorder {
	body := remembered(r)
	w := httptest.NewRecorder()
	f.server.Handler().ServeHTTP(w, r)
	if !f.undescribed {
		compare(r, body, w)
	}
	return w
}

// wantAnswer compares the whole body, character by character.
func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status = %d, want %d", w.Code, status)
	}
	if got := w.Body.String(); got != body {
		t.Errorf("body\n got %s\nwant %s", got, body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
}

// wantEnvelope checks everything that errors promise, whatever they say.
func wantEnvelope(t *testing.T, w *httptest.ResponseRecorder, status int, code string) errorBody {
	t.Helper()
	if w.Code != status {
		t.Errorf("status = %d, want %d; body %s", w.Code, status, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json; body %s", got, w.Body)
	}
	var e struct {
		Error struct {
			errorBody
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	decoder := json.NewDecoder(strings.NewReader(w.Body.String()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		t.Fatalf("body %q is no envelope: %v", w.Body, err)
	}
	if err := json.Unmarshal(e.Error.Details, &e.Error.errorBody.Details); err != nil || e.Error.errorBody.Details == nil {
		t.Errorf("details = %s, want a list", e.Error.Details)
	}
	if e.Error.Code != code {
		t.Errorf("code = %q, want %q", e.Error.Code, code)
	}
	if e.Error.Message == "" || e.Error.RequestID == "" || e.Error.RequestID != w.Header().Get("X-Request-Id") {
		t.Errorf("message = %q, request_id = %q, X-Request-Id = %q, want all set and both ids the same",
			e.Error.Message, e.Error.RequestID, w.Header().Get("X-Request-Id"))
	}
	return e.Error.errorBody
}

// badID are the details of an id that is none.
const badID = `[{"field":"id","reason":"must be a UUID in its canonical form of 36 characters"}]`

// errorJSON is an error's whole body.
func errorJSON(code, message, details string) string {
	return `{"error":{"code":"` + code + `","message":"` + message + `","request_id":"` + testID + `","details":` + details + `}}`
}

// Dialects that know one thing.
type (
	stackTraces struct {
		noDialects
		of func(entity.Message) string
	}
	explanations struct {
		noDialects
		of func(entity.Message) entity.Explanation
	}
	stripped struct {
		noDialects
		is func(dialect, topic, name string) bool
	}
)

func (d stackTraces) StackTraceOf(m entity.Message) string { return d.of(m) }

func (d explanations) ExplainMessage(m entity.Message) entity.Explanation { return d.of(m) }

func (d stripped) StripsHeader(dialect, topic, name string) bool { return d.is(dialect, topic, name) }

func withStackTrace(f func(entity.Message) string) Option { return WithDialects(stackTraces{of: f}) }

func withExplain(f func(entity.Message) entity.Explanation) Option {
	return WithDialects(explanations{of: f})
}

func withStripped(f func(dialect, topic, name string) bool) Option {
	return WithDialects(stripped{is: f})
}

// message is a PENDING dead letter of orders.
func message(id uuid.UUID, change ...func(*entity.Message)) entity.Message {
	m := entity.NewMessage("orders.events.v1", "processing failed", noon)
	m.ID = id
	m.Source = entity.Source{Topic: "orders.dlq.v1", Partition: 2, Offset: 41, Timestamp: noon.Add(-time.Second)}
	m.Record = entity.Record{Key: []byte("order-123"), Value: []byte(`{"order_id": "123"}`)}
	m.Origin.Confidence = entity.FromHeader
	for _, f := range change {
		f(&m)
	}
	return m
}

func in(status entity.Status, retries int) func(*entity.Message) {
	return func(m *entity.Message) { m.Status, m.RetryCount = status, retries }
}

func at(created time.Time) func(*entity.Message) {
	return func(m *entity.Message) { m.CreatedAt, m.UpdatedAt = created, created }
}

func withValue(v string) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Value = []byte(v) }
}

// orNew is the operation's id, or that which stands for a new one.
func orNew(operation uuid.UUID) uuid.UUID {
	if operation == uuid.Nil {
		return redrive
	}
	return operation
}

// acknowledging is a redriver whose broker takes everything. It carries a redrive
// out when somebody waits for it.
type acknowledging struct{ store *fake.Store }

func (a acknowledging) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	m, err := a.store.Get(ctx, order.ID, 0)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if err := m.CanClaim(); err != nil {
		return entity.RetryResult{}, err
	}
	return a.attempt(ctx, m, uuid.Nil, order.Cause)
}

func (a acknowledging) attempt(ctx context.Context, m entity.Message, bulk uuid.UUID, cause entity.Cause) (entity.RetryResult, error) {
	claim := repository.Claim{MessageID: m.ID, ID: orNew(cause.Operation), RedriveID: bulk, Topic: m.OriginalTopic, Partition: 3}
	how := repository.Claiming{Expiry: time.Minute, Wait: true, Cause: cause, Audit: bulk == uuid.Nil}
	if taken, err := a.store.Claim(ctx, []repository.Claim{claim}, how); err != nil || len(taken) == 0 {
		return entity.RetryResult{}, errors.Join(err, &entity.ClaimedError{ID: m.ID})
	}
	result := repository.Result{MessageID: m.ID, ClaimID: claim.ID, Verdict: entity.Acknowledged, Partition: 3, Offset: 7}
	if _, err := a.store.Finish(ctx, []repository.Result{result}, cause); err != nil {
		return entity.RetryResult{}, err
	}
	return entity.RetryResult{ID: m.ID, Status: entity.Resolved, Published: true, Topic: m.OriginalTopic, Partition: 3, Offset: 7, Attempt: idB}, nil
}

func (a acknowledging) GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	return a.store.GiveUp(ctx, id, cause)
}

func (a acknowledging) Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error {
	return a.store.Delete(ctx, id, cause)
}

func (a acknowledging) Begin(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	n.ID, n.BatchSize = orNew(n.Cause.Operation), 500
	return a.store.CreateRedrive(ctx, n)
}

// Preview finds that everything would go.
func (a acknowledging) Preview(ctx context.Context, n repository.NewRedrive) (entity.Preview, error) {
	n.BatchSize = 500
	groups, err := a.store.Survey(ctx, n)
	p := entity.Preview{Reasons: map[string]int{}}
	for _, g := range groups {
		p.Selected += g.Messages
		p.Groups = append(p.Groups, entity.PreviewGroup{Topic: g.Topic, Messages: g.Messages, Class: g.Reason})
		if g.Reason == "" {
			p.Sendable += g.Messages
		} else {
			p.Reasons[g.Reason] += g.Messages
		}
	}
	return p, err
}

func (a acknowledging) Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	r, err := a.store.Redrive(ctx, id)
	for err == nil && r.State == entity.RedriveRunning {
		r, err = a.step(ctx, r)
	}
	return r, err
}

// step carries out one batch, and ends the redrive when there is none.
func (a acknowledging) step(ctx context.Context, r entity.Redrive) (entity.Redrive, error) {
	batch, err := a.store.LeaseBatch(ctx, r.ID, idGone, time.Minute)
	if err != nil {
		return r, err
	}
	if batch == nil {
		return a.store.MoveRedrive(ctx, r.ID, repository.RedriveMove{To: entity.RedriveFinished, Action: entity.ActionFinish, Cause: r.Cause})
	}
	results := repository.BatchResults{RedriveID: r.ID, Number: batch.Number, Owner: idGone}
	for i, item := range batch.Items {
		m, err := a.store.Get(ctx, item.MessageID, 0)
		if err != nil {
			return r, err
		}
		sent, err := a.attempt(ctx, m, r.ID, entity.By(r.Cause.Actor))
		if err != nil {
			return r, err
		}
		results.Items = append(results.Items, entity.RedriveItem{
			Number: batch.First + i, MessageID: m.ID, Result: entity.ItemSucceeded, Topic: sent.Topic, Partition: sent.Partition, Offset: sent.Offset,
		})
	}
	_, err = a.store.SaveBatch(ctx, results)
	return r, err
}

func (a acknowledging) Pause(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error) {
	return a.move(ctx, id, entity.RedrivePaused, entity.ActionPause, cause)
}

func (a acknowledging) Resume(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error) {
	return a.move(ctx, id, entity.RedriveRunning, entity.ActionResume, cause)
}

func (a acknowledging) Cancel(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error) {
	return a.move(ctx, id, entity.RedriveCancelled, entity.ActionCancel, cause)
}

func (a acknowledging) move(ctx context.Context, id uuid.UUID, to entity.RedriveState, action entity.Action, cause entity.Cause) (entity.Redrive, error) {
	return a.store.MoveRedrive(ctx, id, repository.RedriveMove{To: to, Action: action, Cause: cause})
}

// begunRedrive is one that has just been made.
func begunRedrive(id uuid.UUID, action entity.RedriveAction) entity.Redrive {
	return entity.Redrive{ID: id, Action: action, State: entity.RedriveRunning, CreatedAt: noon, UpdatedAt: noon}
}

// redriverFunc answers every method with one function.
type redriverFunc func(ctx context.Context) (entity.Redrive, error)

func (f redriverFunc) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	_, err := f(ctx)
	return entity.RetryResult{ID: order.ID, Status: entity.Resolved}, err
}

func (f redriverFunc) GiveUp(ctx context.Context, id uuid.UUID, _ entity.Cause) (entity.Message, error) {
	_, err := f(ctx)
	return entity.Message{ID: id, Status: entity.Dead}, err
}

func (f redriverFunc) Delete(ctx context.Context, _ uuid.UUID, _ entity.Cause) error {
	_, err := f(ctx)
	return err
}

// Begin always works: what the function says is what waiting for the end leads
// to.
func (f redriverFunc) Begin(_ context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	return begunRedrive(orNew(n.Cause.Operation), n.Action), nil
}

func (f redriverFunc) Preview(ctx context.Context, _ repository.NewRedrive) (entity.Preview, error) {
	_, err := f(ctx)
	return entity.Preview{}, err
}

func (f redriverFunc) Wait(ctx context.Context, _ uuid.UUID) (entity.Redrive, error) { return f(ctx) }

func (f redriverFunc) Pause(ctx context.Context, _ uuid.UUID, _ entity.Cause) (entity.Redrive, error) {
	return f(ctx)
}

func (f redriverFunc) Resume(ctx context.Context, _ uuid.UUID, _ entity.Cause) (entity.Redrive, error) {
	return f(ctx)
}

func (f redriverFunc) Cancel(ctx context.Context, _ uuid.UUID, _ entity.Cause) (entity.Redrive, error) {
	return f(ctx)
}

// brokenStore lists nothing, with an error.
type brokenStore struct {
	*fake.Store
	err error
}

func (b brokenStore) List(context.Context, string, repository.Page) (repository.List, error) {
	return repository.List{}, b.err
}

var errBroken = errors.New("pq: password authentication failed for user secret")

// sendable reports whether net/http would hand such a request to a handler.
func sendable(method, target string) bool {
	_, err := url.ParseRequestURI(target)
	if err != nil || method == "" {
		return false
	}
	_, err = http.NewRequest(method, "/", nil)
	return err == nil
}
