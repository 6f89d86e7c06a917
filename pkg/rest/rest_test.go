package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/resttest"
	index "github.com/dlq-manager/dlq-manager/pkg/search"
)

var (
	idA     = uuid.MustParse("550e8400-e29b-41d4-a716-446655440000")
	idB     = uuid.MustParse("550e8400-e29b-41d4-a716-446655440001")
	idGone  = uuid.MustParse("550e8400-e29b-41d4-a716-4466554400ff")
	redrive = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e")
	noon    = time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
)

// The paths of the messages idA and idB, and of the retry of idA.
const (
	oneA   = "/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440000"
	oneB   = "/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440001"
	retryA = oneA + "/retry"
)

// testID is the request id of the requests that do and post send.
const testID = "test-1"

// fixture is a server for tests. Its store is in memory, and its redriver reports every record as published. Tests can
// replace both before they call open.
type fixture struct {
	memory   *fake.Store
	stores   Stores
	redriver Redriver
	checks   []Check
	cfg      Config
	logger   *zap.Logger
	options  []Option
	server   *Server

	hang        chan struct{} // when set, every call of the store waits until hang is closed
	undescribed bool          // whether requests are left out of the comparison with the API's document
}

func newFixture(messages ...entity.Message) *fixture {
	f := &fixture{cfg: DefaultConfig(), logger: zap.NewNop()}
	f.cfg.Hosts = []string{"example.com", "x"} // host names of the requests that httptest.NewRequest makes and exchangeRaw sends
	f.memory = fake.New(func() time.Time {
		if f.hang != nil {
			<-f.hang
		}
		return noon
	})
	for _, m := range messages {
		f.memory.Insert(m)
	}
	f.redriver = acknowledging{f.memory}
	return f.over(f.memory)
}

func (f *fixture) starting() *fixture {
	options := append([]Option{WithFacets(index.NewFacetCounter(f.memory, nil, nil))}, f.options...)
	f.server = New(f.cfg, f.stores, f.redriver, f.checks, prometheus.NewRegistry(), f.logger, options...)
	f.server.now = func() time.Time { return noon.Add(4 * time.Second) }
	return f
}

func (f *fixture) open() *fixture {
	f.starting()
	f.server.SetReady()
	return f
}

// with adds options to the server; a test must call it before open.
func (f *fixture) with(options ...Option) *fixture {
	f.options = append(f.options, options...)
	return f
}

// over replaces the store of the server; a test must call it before open.
func (f *fixture) over(store any) *fixture {
	f.stores = stores.Fill[Stores](store)
	f.stores.Database = new(stores.Fill[Database](store))
	return f
}

// logs returns the entries that the server logs at a level or above; a test must call it before open.
func (f *fixture) logs(level zapcore.Level) *observer.ObservedLogs {
	core, logs := observer.New(level)
	f.logger = zap.New(core)
	return logs
}

// trail returns the audit entries of the fixture's store that match the query, the newest entry first.
func (f *fixture) trail(t *testing.T, q repository.TrailQuery) []entity.AuditEntry {
	t.Helper()
	q.Limit = 1000
	entries, err := f.memory.Trail(t.Context(), q)
	check.NoError(t, err)
	return entries
}

// reply is an answer with its request.
type reply struct {
	*httptest.ResponseRecorder
	asked string
}

// do sends a request with headers, in which names and values alternate.
func (f *fixture) do(method, target, body string, headers ...string) *reply {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		panic(err) // no request can have this target, because net/http refuses it
	}
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
	r.Method, r.URL, r.RequestURI = method, u, target
	r.Header.Set("X-Request-Id", testID)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	setHeaders(r, headers)
	w := f.send(r)
	w.asked = fmt.Sprintf("%s %.300s %.200s %.100q", method, target, body, headers)
	return w
}

// from sends a request without a body from an address.
func (f *fixture) from(address, method, target string, headers ...string) *reply {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.RemoteAddr = address
	setHeaders(r, headers)
	return f.send(r)
}

// setHeaders sets headers of a request, in which names and values alternate.
func setHeaders(r *http.Request, headers []string) {
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
}

// send sends a request to the server, and compares the request and its answer with the API's document; see
// described_test.go.
func (f *fixture) send(r *http.Request) *reply {
	body := remembered(r)
	w := httptest.NewRecorder()
	f.server.Handler().ServeHTTP(w, r)
	if !f.undescribed {
		compare(r, body, w)
	}
	return &reply{w, r.Method + " " + respond.Clip(r.URL.String())}
}

// wantAnswer compares the whole body, character by character.
func wantAnswer(t *testing.T, w *reply, status int, body string) {
	t.Helper()
	if got := w.Body.String(); w.Code != status || got != body || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s = %d %s\n got %s\nwant %d %s", w.asked, w.Code, w.Header().Get("Content-Type"), got, status, body)
	}
}

// wantStatus compares the status, and looks for texts in the body, which it returns.
func wantStatus(t *testing.T, w *reply, status int, texts ...string) string {
	t.Helper()
	body := w.Body.String()
	check.True(t, w.Code == status, "%s = %d %s, want %d", w.asked, w.Code, body, status)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("%s = %s\nwant in it %s", w.asked, body, text)
		}
	}
	return body
}

// wantWithout looks for texts that the body must not contain.
func wantWithout(t *testing.T, w *reply, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(w.Body.String(), text) {
			t.Errorf("%s = %s\nwant nothing of %s", w.asked, w.Body, text)
		}
	}
}

// codeOf maps the statuses of errors to their codes.
var codeOf = map[int]string{
	400: respond.CodeValidation, 401: respond.CodeUnauthenticated, 403: respond.CodeForbidden, 404: respond.CodeNotFound, 405: respond.CodeValidation, 409: respond.CodeConflict,
	412: respond.CodePrecondition, 413: respond.CodeValidation,
	415: respond.CodeValidation, 421: respond.CodeMisdirected, 429: respond.CodeRateLimited, 500: respond.CodeInternal, 502: respond.CodePublishFailed, 503: respond.CodeUnavailable,
}

// wantEnvelope checks everything that the answers to all errors have in common; fields are the expected fields of all
// details; without fields, details are not compared.
func wantEnvelope(t *testing.T, w *reply, status int, fields ...string) respond.ErrorBody {
	t.Helper()
	var e struct {
		Error struct {
			respond.ErrorBody
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	decoder := json.NewDecoder(strings.NewReader(w.Body.String()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		t.Fatalf("%s: body %q is no envelope: %v", w.asked, w.Body, err)
	}
	got := e.Error.ErrorBody
	if err := json.Unmarshal(e.Error.Details, &got.Details); err != nil || got.Details == nil {
		t.Errorf("%s: details = %s, want a list", w.asked, e.Error.Details)
	}
	if w.Code != status || got.Code != codeOf[status] || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s = %d %s %s, want %d %s", w.asked, w.Code, w.Header().Get("Content-Type"), w.Body, status, codeOf[status])
	}
	if got.Message == "" || got.RequestID == "" || got.RequestID != w.Header().Get("X-Request-Id") {
		t.Errorf("%s = %s, X-Request-Id = %q, want a message, and both ids the same", w.asked, w.Body, w.Header().Get("X-Request-Id"))
	}
	for i, field := range fields {
		if len(got.Details) != len(fields) || got.Details[i].Field != field {
			t.Errorf("%s: details = %v, want the fields %q", w.asked, got.Details, fields)
		}
	}
	return got
}

// badID contains the details of an invalid id.
const badID = `[{"field":"id","reason":"must be a UUID in its canonical form of 36 characters"}]`

// errorJSON returns an error's whole body.
func errorJSON(code, message, details string) string {
	return `{"error":{"code":"` + code + `","message":"` + message + `","request_id":"` + testID + `","details":` + details + `}}`
}

// Implementations of Dialects for tests. Each implements one method by a function of the test.
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

func (d stackTraces) StackTraceOf(m entity.Message) string                { return d.of(m) }
func (d explanations) ExplainMessage(m entity.Message) entity.Explanation { return d.of(m) }
func (d stripped) StripsHeader(m *entity.Message, topic, name string) bool {
	return d.is(m.Failure.Dialect, topic, name)
}

// Shorter names for two functions of package resttest.
var (
	message   = resttest.Message
	withValue = resttest.WithValue
)

func in(status entity.Status, retries int) func(*entity.Message) {
	return func(m *entity.Message) { m.Status, m.RetryCount = status, retries }
}

func at(created time.Time) func(*entity.Message) {
	return func(m *entity.Message) { m.CreatedAt, m.UpdatedAt = created, created }
}

// orNew returns the id of a redrive that an operation creates: the operation's own id, or the constant redrive if there
// is no operation.
func orNew(operation uuid.UUID) uuid.UUID {
	if operation == uuid.Nil {
		return redrive
	}
	return operation
}

// acknowledging is a redriver whose records are always acknowledged. It executes a redrive only when a request waits
// for the redrive.
type acknowledging struct{ store *fake.Store }

func (a acknowledging) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	m, err := a.store.Get(ctx, order.ID, -1)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if err := m.CanClaim(); err != nil {
		return entity.RetryResult{}, err
	}
	return a.attempt(ctx, m, uuid.Nil, order.Edit, order.Cause)
}

func (a acknowledging) attempt(ctx context.Context, m entity.Message, bulk uuid.UUID, edit *entity.Edit, cause entity.AuditInfo) (entity.RetryResult, error) {
	claim := repository.Claim{MessageID: m.ID, ID: orNew(cause.Operation), RedriveID: bulk, Topic: m.OriginalTopic, Partition: 3, Edit: edit}
	if edit != nil && edit.Topic != "" {
		claim.Topic = edit.Topic
	}
	how := repository.Claiming{Expiry: time.Minute, Wait: true, Cause: cause, Audit: bulk == uuid.Nil}
	if taken, err := a.store.Claim(ctx, []repository.Claim{claim}, how); err != nil || len(taken) == 0 {
		return entity.RetryResult{}, errors.Join(err, &entity.ClaimedError{ID: m.ID})
	}
	result := repository.Result{MessageID: m.ID, ClaimID: claim.ID, Verdict: entity.Acknowledged, Partition: 3, Offset: 7}
	if _, err := a.store.Finish(ctx, []repository.Result{result}, cause); err != nil {
		return entity.RetryResult{}, err
	}
	return entity.RetryResult{ID: m.ID, Status: entity.Resolved, Published: true, Topic: claim.Topic, Partition: 3, Offset: 7, Attempt: idB},
		nil
}

func (a acknowledging) MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return a.store.MarkDead(ctx, id, cause)
}

func (a acknowledging) Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	return a.store.Delete(ctx, id, cause)
}

func (a acknowledging) Begin(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	n.ID, n.BatchSize = orNew(n.Cause.Operation), 500
	return a.store.CreateRedrive(ctx, n)
}

// PreviewRedirected returns the result of Preview, with the targets of these redirects.
func (a acknowledging) PreviewRedirected(ctx context.Context, n repository.NewRedrive, redirects map[string]string) (entity.Preview, error) {
	p, err := a.Preview(ctx, n)
	for i, g := range p.Groups {
		p.Groups[i].Target = cmp.Or(redirects[g.Topic], g.Target)
	}
	return p, err
}

// Preview reports that every message would be sent to which the store names no objection.
func (a acknowledging) Preview(ctx context.Context, n repository.NewRedrive) (entity.Preview, error) {
	n.BatchSize = 500
	groups, err := a.store.PreviewRedrive(ctx, n)
	p := entity.Preview{Reasons: map[string]int{}, Overlaps: []entity.Overlap{}}
	for _, g := range groups {
		p.Selected += g.Messages
		shown := entity.PreviewGroup{Topic: g.Topic, Messages: g.Messages, Class: g.Reason}
		if g.Reason == "" {
			p.Sendable += g.Messages
			m, err := a.store.Get(ctx, g.Sample, 0)
			if err != nil {
				return p, err
			}
			shown.Target = g.Topic
			p.Messages = append(p.Messages, entity.PreviewMessage{Message: m, Target: g.Topic})
		} else {
			p.Reasons[g.Reason] += g.Messages
		}
		p.Groups = append(p.Groups, shown)
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

// step executes one batch of a redrive, and ends the redrive when no batch is left.
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
		sent, err := a.attempt(ctx, m, r.ID, nil, entity.By(r.Cause.Actor))
		if err != nil {
			return r, err
		}
		results.Items = append(results.Items, entity.RedriveItem{
			Number: batch.First + i, MessageID: m.ID, Result: entity.ItemSucceeded, Topic: sent.Topic, Partition: sent.Partition,
			Offset: sent.Offset,
		})
	}
	_, err = a.store.SaveBatch(ctx, results)
	return r, err
}

func (a acknowledging) Pause(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return a.move(ctx, id, entity.RedrivePaused, entity.ActionPause, cause)
}

func (a acknowledging) Continue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return a.store.ContinueRedrive(ctx, id, cause)
}

func (a acknowledging) Resume(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return a.move(ctx, id, entity.RedriveRunning, entity.ActionResume, cause)
}

func (a acknowledging) Cancel(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return a.move(ctx, id, entity.RedriveCancelled, entity.ActionCancel, cause)
}

func (a acknowledging) move(ctx context.Context, id uuid.UUID, to entity.RedriveState, action entity.Action, cause entity.AuditInfo) (entity.Redrive, error) {
	return a.store.MoveRedrive(ctx, id, repository.RedriveMove{To: to, Action: action, Cause: cause})
}

// stub is a Redriver that records the work that the API requests. The function do returns the result of this work; if
// do is nil, the work succeeds.
type stub struct {
	Redriver  // is nil, because tests call no other method
	do        func(ctx context.Context) (entity.Redrive, error)
	preview   entity.Preview
	retried   entity.RetryOrder
	begun     []repository.NewRedrive
	previewed []repository.NewRedrive
}

// Wait returns the result of the function do.
func (s *stub) Wait(ctx context.Context, _ uuid.UUID) (entity.Redrive, error) {
	if s.do == nil {
		return entity.Redrive{}, nil
	}
	return s.do(ctx)
}

func (s *stub) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	s.retried = order
	_, err := s.Wait(ctx, uuid.Nil)
	return entity.RetryResult{ID: order.ID, Status: entity.Resolved}, err
}

func (s *stub) Delete(ctx context.Context, id uuid.UUID, _ entity.AuditInfo) error {
	_, err := s.Wait(ctx, id)
	return err
}

// Begin always succeeds. If the test sets do, Wait returns the result of do.
func (s *stub) Begin(_ context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	s.begun = append(s.begun, n)
	return entity.Redrive{ID: orNew(n.Cause.Operation), Action: n.Action, State: entity.RedriveRunning, CreatedAt: noon, UpdatedAt: noon}, nil
}

func (s *stub) Preview(_ context.Context, n repository.NewRedrive) (entity.Preview, error) {
	s.previewed = append(s.previewed, n)
	return s.preview, nil
}

// failing returns a redriver that fails with this error.
func failing(err error) *stub {
	return &stub{do: func(context.Context) (entity.Redrive, error) { return entity.Redrive{}, err }}
}

// hooked is a store of which some methods can be replaced.
type hooked struct {
	*fake.Store
	list   func(ctx context.Context, topic string, page repository.Page) (repository.List, error)
	get    func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	search func(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	count  func(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error)
	export func(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
	until  func(ctx context.Context) (time.Time, error)
	record func(ctx context.Context, entry entity.AuditEntry) error
	open   func(ctx context.Context, key repository.Key, lease time.Duration) (repository.KeyState, error)
}

func hook(s *fake.Store) *hooked {
	return &hooked{s, s.List, s.Get, s.Search, s.CountMatching, s.Export, s.IndexedUntil, s.Record, s.OpenKey}
}

func (h *hooked) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	return h.list(ctx, topic, page)
}

func (h *hooked) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return h.get(ctx, id, maxValue)
}

func (h *hooked) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	return h.search(ctx, q)
}

func (h *hooked) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	return h.count(ctx, q)
}

func (h *hooked) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	return h.export(ctx, q, yield)
}

func (h *hooked) IndexedUntil(ctx context.Context) (time.Time, error) { return h.until(ctx) }
func (h *hooked) Record(ctx context.Context, entry entity.AuditEntry) error {
	return h.record(ctx, entry)
}

func (h *hooked) OpenKey(ctx context.Context, key repository.Key, lease time.Duration) (repository.KeyState, error) {
	return h.open(ctx, key, lease)
}

var errBroken = errors.New("pq: password authentication failed for user secret")

// sendable reports whether net/http would accept a request with this method and target.
func sendable(method, target string) bool {
	_, err := url.ParseRequestURI(target)
	if err != nil || method == "" {
		return false
	}
	_, err = http.NewRequest(method, "/", nil)
	return err == nil
}
