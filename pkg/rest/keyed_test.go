package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// changing lists requests to routes that take an Idempotency-Key. The objects in their paths are those of
// documentFixture.
func changing() []struct{ target, body string } {
	return []struct{ target, body string }{
		{retryA, `{"reason":"r"}`},
		{oneA + "/dead", ``},
		{oneB + "/requeue", `{}`},
		{"/api/v1/dlq/orders.dlq.v1/retry-all", ``},
		{redrivesPath, `{"ids":["` + idA.String() + `"]}`},
		{redrivesPath, `{"ids":["` + idA.String() + `"],"dry_run":true}`},
		{redrivesPath + "/" + idRunning.String() + "/pause", ``},
		{redrivesPath + "/" + idPaused.String() + "/resume", ``},
		{redrivesPath + "/" + idPaused.String() + "/cancel", ``},
	}
}

// A repeated request gets the answer of the first request, and changes nothing.
func TestKey_Replay(t *testing.T) {
	t.Parallel()
	for _, c := range changing() {
		f := documentFixture()
		first := f.do("POST", c.target, c.body, keyHeader, "k-1")
		changes := len(f.trail(t, repository.TrailQuery{}))
		if first.Code >= 300 {
			t.Errorf("%s = %d %s, want success", first.asked, first.Code, first.Body)
		}
		wantHeader(t, first.Header(), replayHeader, "")
		again := f.do("POST", c.target, c.body, keyHeader, "k-1", "X-Request-Id", "another")
		wantAnswer(t, again, first.Code, first.Body.String())
		wantHeader(t, again.Header(), replayHeader, "true")
		wantHeader(t, again.Header(), "Location", first.Header().Get("Location"))
		wantHeader(t, again.Header(), "X-Request-Id", "another")
		if n := len(f.trail(t, repository.TrailQuery{})); n != changes {
			t.Errorf("%s: %d changes after the second request, want %d", again.asked, n, changes)
		}
	}
}

func TestKey_OfAnotherRequest(t *testing.T) {
	t.Parallel()
	f := documentFixture()
	f.do("POST", retryA, `{}`, keyHeader, "k")
	other := errorJSON(respond.CodeConflict, "Idempotency-Key: was used with another request",
		`[{"field":"Idempotency-Key","reason":"was used with another request"}]`)
	for _, c := range []struct{ target, body string }{
		{retryA, ``},
		{retryA, `{} `},
		{retryA, `{"accept_duplicate":true}`},
		{oneB + "/requeue", `{}`},
		{oneB + "/retry", `{}`},
	} {
		wantAnswer(t, f.do("POST", c.target, c.body, keyHeader, "k"), 409, other)
	}
	if m, err := f.memory.Get(t.Context(), idB, 0); err != nil || m.Status != entity.Dead {
		t.Errorf("message = %v, %v, want it as it was", m.Status, err)
	}
}

func TestKey_Form(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"!", "~", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, strings.Repeat("k", 255)} {
		wantStatus(t, newFixture(message(idA)).open().do("POST", oneA+"/dead", "", keyHeader, key), 200)
	}
	for _, key := range []string{"", " ", "a b", "a\t", "\x7f", "é", "\xff", strings.Repeat("k", 256)} {
		wantEnvelope(t, newFixture(message(idA)).open().do("POST", oneA+"/dead", "", keyHeader, key), 400, keyHeader)
	}
	r := httptest.NewRequest("POST", oneA+"/dead", nil)
	r.Header[keyHeader] = []string{"a", "a"}
	wantEnvelope(t, newFixture(message(idA)).open().send(r), 400, keyHeader)
}

// keyLog is a store that counts the operations on keys.
type keyLog struct {
	*fake.Store
	closed, dropped, held, let atomic.Int32
	answer                     repository.Answer
}

// keyCounts says how often the server closed, dropped and released Idempotency-Keys; let counts the releases.
type keyCounts struct{ closed, dropped, let int32 }

func (k *keyLog) counts() keyCounts {
	return keyCounts{k.closed.Load(), k.dropped.Load(), k.let.Load()}
}

func (k *keyLog) HoldKey(ctx context.Context, key repository.Key, lease time.Duration) error {
	if lease > 0 {
		k.held.Add(1)
	} else {
		k.let.Add(1)
	}
	return k.Store.HoldKey(ctx, key, lease)
}

func (k *keyLog) CloseKey(ctx context.Context, key repository.Key, answer repository.Answer) error {
	k.closed.Add(1)
	k.answer = answer
	return k.Store.CloseKey(ctx, key, answer)
}

func (k *keyLog) DropKey(ctx context.Context, key repository.Key) error {
	k.dropped.Add(1)
	return k.Store.DropKey(ctx, key)
}

// After the work of a request, its Idempotency-Key stores the answer, or is deleted if no work began, or loses its lease,
// so that a repeated request continues the work.
func TestKey_EndOfWork(t *testing.T) {
	t.Parallel()
	closed, dropped, let := keyCounts{closed: 1}, keyCounts{dropped: 1}, keyCounts{let: 1}
	for _, c := range []struct {
		name   string
		err    error
		status int
		want   keyCounts
	}{
		{"Success", nil, 200, closed},
		{"PublishFailed", &entity.PublishError{Class: entity.BadRecord, Status: entity.Dead}, 502, closed},
		{"Conflict", &entity.ClaimedError{ID: idA}, 409, dropped},
		{"NotFound", &entity.NotFoundError{ID: idA}, 404, dropped},
		{"Unavailable", fmt.Errorf("store: %w", entity.ErrUnavailable), 503, let},
		{"Interrupted", &entity.InterruptedError{Redrive: entity.Redrive{ID: redrive}, Err: errBroken}, 503, let},
		{"Fault", errBroken, 500, let},
	} {
		f, log := keyedFixture()
		f.redriver = failing(c.err)
		w := wantEnd(t, f.open().do("POST", retryA, "", keyHeader, "k"), log, c.name, c.status, c.want)
		if c.want != closed {
			continue
		}
		if log.answer.Status != c.status || string(log.answer.Body) != w.Body.String() {
			t.Errorf("%s: stored %d %s, want %d %s", c.name, log.answer.Status, log.answer.Body, c.status, w.Body)
		}
		again := f.do("POST", retryA, "", keyHeader, "k")
		wantAnswer(t, again, c.status, w.Body.String())
		wantHeader(t, again.Header(), replayHeader, "true")
	}
	for name, body := range map[string]string{"BadBody": `{"x":1}`, "BadReason": `{"reason":"\n"}`} {
		f, log := keyedFixture(message(idA))
		wantEnd(t, f.open().do("POST", oneA+"/dead", body, keyHeader, "k"), log, name, 400, dropped)
		wantStatus(t, f.do("POST", oneA+"/dead", "", keyHeader, "k"), 200)
	}
	f, log := keyedFixture()
	f.redriver = &stub{do: func(context.Context) (entity.Redrive, error) { panic("secret") }}
	w := wantEnd(t, f.open().do("POST", "/api/v1/dlq/t/retry-all", "", keyHeader, "k"), log, "Panic", 500, let)
	wantAnswer(t, w, 500, errorJSON(respond.CodeInternal, "internal error", `[]`))
}

func keyedFixture(messages ...entity.Message) (*fixture, *keyLog) {
	f := newFixture(messages...)
	log := &keyLog{Store: f.memory}
	return f.over(log), log
}

func wantEnd(t *testing.T, w *reply, log *keyLog, name string, status int, want keyCounts) *reply {
	t.Helper()
	if got := log.counts(); w.Code != status || got != want {
		t.Errorf("%s = %d, the key was %+v, want %d, %+v and nothing else", name, w.Code, got, status, want)
	}
	return w
}

// When the state of the key cannot be read from the store, the work may already have been done. So the request does
// nothing.
func TestKey_StoreDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, c := range changing() {
		f := documentFixture()
		store := hook(f.memory)
		store.open = func(context.Context, repository.Key, time.Duration) (repository.KeyState, error) {
			return repository.KeyState{}, fmt.Errorf("open key: %w", entity.ErrUnavailable)
		}
		changes := len(f.trail(t, repository.TrailQuery{}))
		w := f.over(store).open().do("POST", c.target, c.body, keyHeader, "k")
		wantAnswer(t, w, 503, errorJSON(respond.CodeUnavailable, respond.UnavailableText, "[]"))
		wantHeader(t, w.Header(), "Retry-After", "5")
		if n := len(f.trail(t, repository.TrailQuery{})); n != changes {
			t.Errorf("POST %s changed %d things, want none", c.target, n-changes)
		}
	}
}

// begin stores an Idempotency-Key like a process that receives a request and dies before it does the work. It returns
// the operation of the key.
func (f *fixture) begin(t *testing.T, target, body, name string) (operation uuid.UUID) {
	t.Helper()
	return f.beginAs(t, anonymous, "POST", target, body, name)
}

// beginAs does the same as begin, for the given principal and method.
func (f *fixture) beginAs(t *testing.T, who, method, target, body, name string) (operation uuid.UUID) {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	key := repository.Key{
		Principal: who, Key: name, Request: digest(r, []byte(body)), Operation: entity.NewID(), Owner: entity.NewID(),
	}
	if state, err := f.memory.OpenKey(t.Context(), key, 0); err != nil || state.Phase != repository.KeyNew {
		t.Fatalf("OpenKey = %+v, %v, want a new one", state, err)
	}
	return key.Operation
}

// When the process of the first request died, a repetition of the request with the same Idempotency-Key completes its
// work and gets the answer. Work that the dead process did not start is done then, once.
func TestKey_Abandoned(t *testing.T) {
	t.Parallel()
	begin := func(selection entity.Selection) func(*fixture, context.Context, entity.AuditInfo) error {
		return func(f *fixture, ctx context.Context, cause entity.AuditInfo) error {
			_, err := f.redriver.Begin(ctx, repository.NewRedrive{Action: entity.RedriveRetry, Selection: selection, Cause: cause})
			return err
		}
	}
	move := func(step func(Redriver, context.Context, uuid.UUID, entity.AuditInfo) (entity.Redrive, error), id uuid.UUID) func(*fixture, context.Context, entity.AuditInfo) error {
		return func(f *fixture, ctx context.Context, cause entity.AuditInfo) error {
			_, err := step(f.redriver, ctx, id, cause)
			return err
		}
	}
	moved := func(id uuid.UUID, state string) string {
		return `"id":"` + id.String() + `","action":"retry","state":"` + state + `"`
	}
	for _, c := range []struct {
		name, target, body string
		do                 func(f *fixture, ctx context.Context, cause entity.AuditInfo) error
		want               string
	}{
		{"Requeue", oneB + "/requeue", "{}", func(f *fixture, ctx context.Context, cause entity.AuditInfo) error {
			_, err := f.memory.Requeue(ctx, idB, cause)
			return err
		}, `{"id":"` + idB.String() + `","status":"PENDING","retry_count":0,"max_retries":3,"message":"message ` + idB.String() + ` requeued"}`},
		{"Dead", oneA + "/dead", "", func(f *fixture, ctx context.Context, cause entity.AuditInfo) error {
			_, err := f.memory.MarkDead(ctx, idA, cause)
			return err
		}, `{"id":"` + idA.String() + `","status":"DEAD","retry_count":0,"max_retries":3,"message":"message ` + idA.String() + ` marked dead"}`},
		{"Pause", redrivesPath + "/" + idRunning.String() + "/pause", "", move(Redriver.Pause, idRunning), moved(idRunning, "paused")},
		{"Resume", redrivesPath + "/" + idPaused.String() + "/resume", "", move(Redriver.Resume, idPaused), moved(idPaused, "running")},
		{"Cancel", redrivesPath + "/" + idPaused.String() + "/cancel", "", move(Redriver.Cancel, idPaused), moved(idPaused, "cancelled")},
		{
			"Redrive", redrivesPath, `{"ids":["` + idA.String() + `"]}`, begin(entity.Selection{IDs: []uuid.UUID{idA}}),
			`"action":"retry","state":"running"`,
		},
		{
			"RetryAll", "/api/v1/dlq/orders.dlq.v1/retry-all", "",
			begin(entity.Selection{Filter: entity.Filter{Topic: "orders.dlq.v1"}}), `{"retried":1,`,
		},
	} {
		for _, begun := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/begun=%t", c.name, begun), func(t *testing.T) {
				t.Parallel()
				f := documentFixture()
				cause := entity.AuditInfo{Actor: anonymous, Operation: f.begin(t, c.target, c.body, "k")}
				if begun {
					check.NoError(t, c.do(f, t.Context(), cause))
				}
				w := f.do("POST", c.target, c.body, keyHeader, "k")
				if w.Code >= 300 || !strings.Contains(w.Body.String(), c.want) {
					t.Errorf("answer = %d %s, want %s", w.Code, w.Body, c.want)
				}
				wantHeader(t, w.Header(), replayHeader, "")
				done := slices.DeleteFunc(f.trail(t, repository.TrailQuery{}), func(e entity.AuditEntry) bool {
					// The entry for the end of the redrive is left out, because the repeated request itself ends the
					// redrive.
					return e.Cause.Operation != cause.Operation || e.Action == entity.ActionFinish
				})
				if len(done) != 1 {
					t.Errorf("it was done %d times, want once", len(done))
				}
				wantHeader(t, f.do("POST", c.target, c.body, keyHeader, "k").Header(), replayHeader, "true")
			})
		}
	}
}

// The redriver gets the operation id of the retry's key, and whether an earlier request may have started the work.
func TestKey_Retry(t *testing.T) {
	t.Parallel()
	f, spy := orderingFixture()
	f.open()
	f.do("POST", retryA, "")
	if spy.retried.Cause.Operation != uuid.Nil || spy.retried.Resumed {
		t.Errorf("without a key: %+v, want no operation", spy.retried)
	}
	f.do("POST", retryA, "", keyHeader, "new")
	if spy.retried.Cause.Operation == uuid.Nil || spy.retried.Resumed {
		t.Errorf("new key: %+v, want an operation that is not resumed", spy.retried)
	}
	operation := f.begin(t, retryA, "", "left-behind")
	f.do("POST", retryA, "", keyHeader, "left-behind")
	if spy.retried.Cause.Operation != operation || !spy.retried.Resumed {
		t.Errorf("abandoned key: %+v, want %s resumed", spy.retried, operation)
	}
}

// After an attempt that did not send the record, a request with the same key may try again. After any other attempt the
// key is released, so that the next request with the key continues the work.
func TestKey_RetryGivenBack(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[entity.Verdict]keyCounts{
		entity.GivenBack: {dropped: 1}, entity.Rescued: {dropped: 1}, entity.Refused: {let: 1}, entity.Acknowledged: {let: 1},
	} {
		f, log := keyedFixture(message(idA))
		f.redriver = endingAs{nil, f.memory, verdict}
		wantEnd(t, f.open().do("POST", retryA, "", keyHeader, "k"), log, fmt.Sprint("verdict ", verdict), 503, want)
	}
}

// endingAs is a Redriver whose attempt ends with the verdict, but which returns an error to its caller, as if the
// result was lost on its way.
type endingAs struct {
	Redriver // is nil, because tests call only Retry
	store    *fake.Store
	verdict  entity.Verdict
}

func (e endingAs) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	claim := repository.Claim{MessageID: order.ID, ID: order.Cause.Operation, Topic: "t"}
	_, err := e.store.Claim(ctx, []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute, Cause: order.Cause})
	if err == nil {
		_, err = e.store.Finish(ctx, []repository.Result{{MessageID: order.ID, ClaimID: claim.ID, Verdict: e.verdict}}, order.Cause)
	}
	return entity.RetryResult{}, errors.Join(err, entity.ErrUnavailable)
}

// While the first request works, other requests with its key wait, each as long as its client stays connected. The
// lease is prolonged as long as the work lasts.
func TestKey_AtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &keyLog{Store: fake.New(time.Now)}
		f := newFixture(message(idA)).over(log)
		finish := make(chan struct{})
		f.redriver = &stub{do: func(context.Context) (entity.Redrive, error) {
			<-finish
			return entity.Redrive{ID: redrive}, nil
		}}
		f.open()
		answers, left := make(chan *reply, 2), make(chan *reply, 1)
		ask := func(ctx context.Context, to chan<- *reply) {
			r := httptest.NewRequest("POST", "/api/v1/dlq/t/retry-all", nil).WithContext(ctx)
			r.Header.Set(keyHeader, "k")
			to <- f.send(r)
		}
		gone, leave := context.WithCancel(t.Context())
		go ask(t.Context(), answers)
		synctest.Wait()
		go ask(t.Context(), answers)
		go ask(gone, left)
		synctest.Wait()
		leave()
		if w := <-left; w.Code != respond.StatusClientGone || w.Body.Len() > 0 {
			t.Errorf("the one who left = %d %s, want nothing", w.Code, w.Body)
		}

		<-time.After(5 * time.Minute)
		if held := log.held.Load(); held < 29 {
			t.Errorf("prolonged %d times in five minutes, want every %s", held, keyHold)
		}
		close(finish)
		one, other := <-answers, <-answers
		if one.Code != 200 || one.Body.String() != other.Body.String() || log.closed.Load() != 1 {
			t.Errorf("answers %d %s and %d %s, closed %d times; want the same twice, closed once",
				one.Code, one.Body, other.Code, other.Body, log.closed.Load())
		}
		held := log.held.Load()
		<-time.After(time.Hour)
		if got := log.held.Load(); got != held {
			t.Error("the key is prolonged when the work is over")
		}
	})
}

// A request for a short change waits for the first request with its key no longer than the time limit of requests.
func TestKey_AtWorkForTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA))
		began := time.Now()
		w := f.over(busyStore(f.memory, nil)).open().do("POST", oneA+"/dead", "", keyHeader, "k")
		wantAnswer(t, w, 503, errorJSON(respond.CodeUnavailable, respond.UnavailableText, "[]"))
		if took := time.Since(began); took != f.cfg.RequestTimeout {
			t.Errorf("answered after %s, want %s", took, f.cfg.RequestTimeout)
		}
	})
}

// busyStore returns a store that reports for every Idempotency-Key that another request works on it. The first such
// report closes the channel asked.
func busyStore(s *fake.Store, asked chan<- struct{}) *hooked {
	store := hook(s)
	said := sync.OnceFunc(func() {
		if asked != nil {
			close(asked)
		}
	})
	store.open = func(context.Context, repository.Key, time.Duration) (repository.KeyState, error) {
		said()
		return repository.KeyState{Phase: repository.KeyAtWork}, nil
	}
	return store
}

// A request may wait because another request works on its Idempotency-Key. A drain of the server ends this wait.
func TestServe_DrainEndsTheWaitForAKey(t *testing.T) {
	t.Parallel()
	f, asked := newFixture(), make(chan struct{})
	f.cfg.DrainTimeout = 4 * time.Second
	if got := f.over(busyStore(f.memory, asked)).drained(t, "/api/v1/dlq/t/retry-all", asked); got.status != 503 {
		t.Errorf("waiting request = %+v, want 503", got)
	}
}

// When a drain interrupts a retry-all with a key, the next request with the key waits for the end of the same redrive.
func TestServe_DrainDuringAKeyedWait(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.cfg.DrainTimeout = 4 * time.Second
	waiting := &waitingForEver{acknowledging{f.memory}, make(chan struct{})}
	f.redriver = waiting
	got := f.drained(t, "/api/v1/dlq/orders.dlq.v1/retry-all", waiting.began)
	begun, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 2})
	if got.status != 503 || err != nil || len(begun) != 1 || !strings.Contains(got.body, begun[0].ID.String()) {
		t.Fatalf("interrupted request = %+v, with redrives %v, %v; want 503 and the one redrive named", got, begun, err)
	}
	next := newFixture().over(f.memory)
	next.redriver = acknowledging{f.memory}
	wantStatus(t, next.open().do("POST", "/api/v1/dlq/orders.dlq.v1/retry-all", "", keyHeader, "k"), 200,
		`"redrive_id":"`+begun[0].ID.String()+`"`)
}

type waitingForEver struct {
	acknowledging
	began chan struct{}
}

func (w *waitingForEver) Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	close(w.began)
	<-ctx.Done()
	return entity.Redrive{}, &entity.InterruptedError{Redrive: entity.Redrive{ID: id}, Err: ctx.Err()}
}

// Fifty concurrent requests do the work once and get the same answer, byte for byte.
func TestServe_FiftyWithOneKey(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/api/v1/dlq/orders.dlq.v1/retry-all", retryA, oneB + "/requeue", redrivesPath + "/" + idRunning.String() + "/cancel",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			f, twin := documentFixture(), documentFixture()
			twin.do("POST", path, "")
			url, _, _ := f.serve(t)
			answers := make(chan answered, 50)
			for range cap(answers) {
				go func() { answers <- post(t, url+path, "one-key") }()
			}
			first := receive(t, answers, "an answer")
			for range cap(answers) - 1 {
				if got := receive(t, answers, "an answer"); got != first {
					t.Fatalf("answers %+v and %+v, want them the same", first, got)
				}
			}
			if first.status != 200 || first.err != nil {
				t.Errorf("answer = %+v, want 200", first)
			}
			if got, want := len(f.trail(t, repository.TrailQuery{})), len(twin.trail(t, repository.TrailQuery{})); got != want {
				t.Errorf("%d changes, want the %d of one request", got, want)
			}
		})
	}
}

// A client that disconnects during its work gets the answer with a later request.
func TestKey_AnswerIsStoredWithoutTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range changing() {
		f := documentFixture()
		ask := func(ctx context.Context) *reply {
			r := httptest.NewRequest("POST", c.target, strings.NewReader(c.body)).WithContext(ctx)
			r.Header.Set(keyHeader, "k")
			return f.send(r)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		first := ask(gone)
		// The timeout ends this request if the key is never closed.
		patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		again := ask(patient)
		cancel()
		wantHeader(t, again.Header(), replayHeader, "true")
		if first.Code >= 300 || !bytes.Equal(first.Body.Bytes(), again.Body.Bytes()) {
			t.Errorf("%s: %d %s, then %s; want the same", first.asked, first.Code, first.Body, again.Body)
		}
	}
}
