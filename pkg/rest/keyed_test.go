package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// changing are all requests that take a key, of documentFixture's world.
func changing() []struct{ target, body string } {
	a, b := "/api/v1/dlq/messages/"+idA.String(), "/api/v1/dlq/messages/"+idB.String()
	return []struct{ target, body string }{
		{a + "/retry", `{"reason":"r"}`},
		{a + "/dead", ``},
		{b + "/requeue", `{}`},
		{"/api/v1/dlq/orders.dlq.v1/retry-all", ``},
		{redrives, `{"ids":["` + idA.String() + `"]}`},
		{redrives, `{"ids":["` + idA.String() + `"],"dry_run":true}`},
		{redrives + "/" + idRunning.String() + "/pause", ``},
		{redrives + "/" + idPaused.String() + "/resume", ``},
		{redrives + "/" + idPaused.String() + "/cancel", ``},
	}
}

// The same request again gets the same answer, and changes nothing more.
func TestKey_Replay(t *testing.T) {
	t.Parallel()
	for _, c := range changing() {
		t.Run(c.target+c.body, func(t *testing.T) {
			t.Parallel()
			f := documentFixture()
			first := f.do("POST", c.target, c.body, keyHeader, "k-1")
			changes := trailOfAll(t, f)
			if first.Code >= 300 {
				t.Fatalf("first = %d %s, want success", first.Code, first.Body)
			}
			wantHeader(t, first.Header(), replayHeader, "")
			again := f.do("POST", c.target, c.body, keyHeader, "k-1", "X-Request-Id", "another")
			wantAnswer(t, again, first.Code, first.Body.String())
			wantHeader(t, again.Header(), replayHeader, "true")
			wantHeader(t, again.Header(), "Location", first.Header().Get("Location"))
			wantHeader(t, again.Header(), "X-Request-Id", "another")
			if n := trailOfAll(t, f); n != changes {
				t.Errorf("%d changes after the second request, want %d", n, changes)
			}
		})
	}
}

func trailOfAll(t *testing.T, f *fixture) int {
	t.Helper()
	entries, err := f.memory.Trail(t.Context(), repository.TrailQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestKey_OfAnotherRequest(t *testing.T) {
	t.Parallel()
	f := documentFixture()
	retry := "/api/v1/dlq/messages/" + idA.String() + "/retry"
	f.do("POST", retry, `{}`, keyHeader, "k")
	other := errorJSON(codeConflict, "Idempotency-Key: was used with another request",
		`[{"field":"Idempotency-Key","reason":"was used with another request"}]`)
	for _, c := range []struct{ target, body string }{
		{retry, ``},
		{retry, `{} `},
		{retry, `{"accept_duplicate":true}`},
		{"/api/v1/dlq/messages/" + idB.String() + "/requeue", `{}`},
		{"/api/v1/dlq/messages/" + idB.String() + "/retry", `{}`},
	} {
		wantAnswer(t, f.do("POST", c.target, c.body, keyHeader, "k"), 409, other)
	}
	if m, err := f.memory.Get(t.Context(), idB, 0); err != nil || m.Status != entity.Dead {
		t.Errorf("message = %v, %v, want it as it was", m.Status, err)
	}
}

func TestKey_Form(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/messages/" + idA.String() + "/dead"
	for key, want := range map[string]int{
		"!": 200, "~": 200, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`: 200, strings.Repeat("k", 255): 200,
		"": 400, " ": 400, "a b": 400, "a\t": 400, "\x7f": 400, "é": 400, "\xff": 400, strings.Repeat("k", 256): 400,
	} {
		w := newFixture(message(idA)).open().do("POST", target, "", keyHeader, key)
		if w.Code != want {
			t.Errorf("key %q: %d %s, want %d", key, w.Code, w.Body, want)
		}
		if want == 400 && firstField(wantEnvelope(t, w, 400, codeValidation).Details) != keyHeader {
			t.Errorf("key %q: %s, want the header named", key, w.Body)
		}
	}
	r := httptest.NewRequest("POST", target, nil)
	r.Header[keyHeader] = []string{"a", "a"}
	if e := wantEnvelope(t, newFixture(message(idA)).open().send(r), 400, codeValidation); firstField(e.Details) != keyHeader {
		t.Errorf("two keys: details %v, want the header named", e.Details)
	}
}

// keyLog is a store that counts what is done with keys.
type keyLog struct {
	*fake.Store
	closed, dropped, held, let atomic.Int32
	answer                     repository.Answer
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

// What the work came to decides what the key remembers.
func TestKey_EndOfWork(t *testing.T) {
	t.Parallel()
	const closed, dropped, let = "closed", "dropped", "let go"
	for _, c := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"Success", nil, 200, closed},
		{"PublishFailed", &entity.PublishError{Class: entity.BadRecord, Status: entity.Dead}, 502, closed},
		{"Conflict", &entity.ClaimedError{ID: idA}, 409, dropped},
		{"NotFound", &entity.NotFoundError{ID: idA}, 404, dropped},
		{"Unavailable", fmt.Errorf("store: %w", entity.ErrUnavailable), 503, let},
		{"Interrupted", &entity.InterruptedError{Redrive: entity.Redrive{ID: redrive}, Err: errBroken}, 503, let},
		{"Fault", errBroken, 500, let},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture()
			log := &keyLog{Store: f.memory}
			f.store = log
			f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) { return entity.Redrive{}, c.err })
			w := f.open().do("POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", "", keyHeader, "k")
			if w.Code != c.status {
				t.Errorf("status = %d, want %d", w.Code, c.status)
			}
			got := map[string]int32{closed: log.closed.Load(), dropped: log.dropped.Load(), let: log.let.Load()}
			if got[c.want] != 1 || got[closed]+got[dropped]+got[let] != 1 {
				t.Errorf("key was %v, want it %s and nothing else", got, c.want)
			}
			if c.want == closed {
				if log.answer.Status != c.status || string(log.answer.Body) != w.Body.String() {
					t.Errorf("stored %d %s, want %d %s", log.answer.Status, log.answer.Body, c.status, w.Body)
				}
				again := f.do("POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", "", keyHeader, "k")
				wantAnswer(t, again, c.status, w.Body.String())
				wantHeader(t, again.Header(), replayHeader, "true")
			}
		})
	}
	for name, body := range map[string]string{"BadBody": `{"x":1}`, "BadReason": `{"reason":"\n"}`} {
		f := newFixture(message(idA))
		log := &keyLog{Store: f.memory}
		f.store = log
		f.open()
		if w := f.do("POST", "/api/v1/dlq/messages/"+idA.String()+"/dead", body, keyHeader, "k"); w.Code != 400 || log.dropped.Load() != 1 {
			t.Errorf("%s = %d, dropped %d times, want 400 and the key free", name, w.Code, log.dropped.Load())
		}
		if w := f.do("POST", "/api/v1/dlq/messages/"+idA.String()+"/dead", "", keyHeader, "k"); w.Code != 200 {
			t.Errorf("the key again, after %s = %d %s, want 200", name, w.Code, w.Body)
		}
	}
}

func TestKey_Panic(t *testing.T) {
	t.Parallel()
	f := newFixture()
	log := &keyLog{Store: f.memory}
	f.store = log
	f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) { panic("secret") })
	w := f.open().do("POST", "/api/v1/dlq/t/retry-all", "", keyHeader, "k")
	wantAnswer(t, w, 500, errorJSON(codeInternal, "internal error", `[]`))
	if log.let.Load() != 1 {
		t.Error("the key is held by nobody, want it let go")
	}
}

// Without the store nobody knows whether the work was done, so nothing is done.
func TestKey_StoreDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, c := range changing() {
		f := documentFixture()
		f.store = keylessStore{f.memory}
		f.registry = newFixture().registry
		changes := trailOfAll(t, f)
		w := f.open().do("POST", c.target, c.body, keyHeader, "k")
		wantAnswer(t, w, 503, errorJSON(codeUnavailable, unavailableText, "[]"))
		wantHeader(t, w.Header(), "Retry-After", "5")
		if n := trailOfAll(t, f); n != changes {
			t.Errorf("POST %s changed %d things, want none", c.target, n-changes)
		}
	}
}

type keylessStore struct{ *fake.Store }

func (keylessStore) OpenKey(context.Context, repository.Key, time.Duration) (repository.KeyState, error) {
	return repository.KeyState{}, fmt.Errorf("open key: %w", entity.ErrUnavailable)
}

// begin opens the key of a request as a process would that dies then.
func (f *fixture) begin(t *testing.T, target, body, name string) (operation uuid.UUID) {
	t.Helper()
	r := httptest.NewRequest("POST", target, nil)
	key := repository.Key{
		Principal: anonymous, Key: name, Request: digest(r, []byte(body)), Operation: entity.NewID(), Owner: entity.NewID(),
	}
	if state, err := f.memory.OpenKey(t.Context(), key, 0); err != nil || state.Phase != repository.KeyNew {
		t.Fatalf("OpenKey = %+v, %v, want a new one", state, err)
	}
	return key.Operation
}

// After a crash the answer is made from what was begun. What was not begun is
// done now, once.
func TestKey_Abandoned(t *testing.T) {
	t.Parallel()
	a, b := "/api/v1/dlq/messages/"+idA.String(), "/api/v1/dlq/messages/"+idB.String()
	for _, c := range []struct {
		name, target, body string
		do                 func(f *fixture, cause entity.Cause) error
		want               string
	}{
		{"Requeue", b + "/requeue", "{}", func(f *fixture, cause entity.Cause) error {
			_, err := f.memory.Requeue(context.Background(), idB, cause)
			return err
		}, `{"id":"` + idB.String() + `","status":"PENDING","retry_count":0,"max_retries":3,"message":"message ` + idB.String() + ` requeued"}`},
		{"Dead", a + "/dead", "", func(f *fixture, cause entity.Cause) error {
			_, err := f.memory.GiveUp(context.Background(), idA, cause)
			return err
		}, `{"id":"` + idA.String() + `","status":"DEAD","retry_count":0,"max_retries":3,"message":"message ` + idA.String() + ` marked dead"}`},
		{"Pause", redrives + "/" + idRunning.String() + "/pause", "", func(f *fixture, cause entity.Cause) error {
			_, err := f.redriver.Pause(context.Background(), idRunning, cause)
			return err
		}, `"id":"` + idRunning.String() + `","action":"retry","state":"paused"`},
		{"Resume", redrives + "/" + idPaused.String() + "/resume", "", func(f *fixture, cause entity.Cause) error {
			_, err := f.redriver.Resume(context.Background(), idPaused, cause)
			return err
		}, `"id":"` + idPaused.String() + `","action":"retry","state":"running"`},
		{"Cancel", redrives + "/" + idPaused.String() + "/cancel", "", func(f *fixture, cause entity.Cause) error {
			_, err := f.redriver.Cancel(context.Background(), idPaused, cause)
			return err
		}, `"id":"` + idPaused.String() + `","action":"retry","state":"cancelled"`},
		{"Redrive", redrives, `{"ids":["` + idA.String() + `"]}`, func(f *fixture, cause entity.Cause) error {
			_, err := f.redriver.Begin(context.Background(), repository.NewRedrive{
				Action: entity.RedriveRetry, Selection: entity.Selection{IDs: []uuid.UUID{idA}}, Cause: cause,
			})
			return err
		}, `"action":"retry","state":"running"`},
		{"RetryAll", "/api/v1/dlq/orders.dlq.v1/retry-all", "", func(f *fixture, cause entity.Cause) error {
			_, err := f.redriver.Begin(context.Background(), repository.NewRedrive{
				Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: "orders.dlq.v1"}}, Cause: cause,
			})
			return err
		}, `{"retried":1,`},
	} {
		for _, begun := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/begun=%t", c.name, begun), func(t *testing.T) {
				t.Parallel()
				f := documentFixture()
				cause := entity.Cause{Actor: anonymous, Operation: f.begin(t, c.target, c.body, "k")}
				if begun {
					if err := c.do(f, cause); err != nil {
						t.Fatal(err)
					}
				}
				w := f.do("POST", c.target, c.body, keyHeader, "k")
				if w.Code >= 300 || !strings.Contains(w.Body.String(), c.want) {
					t.Errorf("answer = %d %s, want %s", w.Code, w.Body, c.want)
				}
				wantHeader(t, w.Header(), replayHeader, "")
				if n := performed(t, f, cause.Operation); n != 1 {
					t.Errorf("it was done %d times, want once", n)
				}
				wantHeader(t, f.do("POST", c.target, c.body, keyHeader, "k").Header(), replayHeader, "true")
			})
		}
	}
}

// performed is how often an operation was done; waiting for a redrive ends it,
// which is no second time.
func performed(t *testing.T, f *fixture, operation uuid.UUID) (n int) {
	t.Helper()
	entries, err := f.memory.Trail(t.Context(), repository.TrailQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Cause.Operation == operation && e.Action != entity.ActionFinish {
			n++
		}
	}
	return n
}

// A retry is told its operation, and whether it may have been begun before.
func TestKey_Retry(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/messages/" + idA.String() + "/retry"
	f, spy := newFixture(), &spyRedriver{}
	f.redriver = spy
	f.open().do("POST", target, "")
	if spy.order.Cause.Operation != uuid.Nil || spy.order.Resumed {
		t.Errorf("without a key: %+v, want no operation", spy.order)
	}
	f.do("POST", target, "", keyHeader, "new")
	if spy.order.Cause.Operation == uuid.Nil || spy.order.Resumed {
		t.Errorf("new key: %+v, want an operation that is not resumed", spy.order)
	}
	operation := f.begin(t, target, "", "left-behind")
	f.do("POST", target, "", keyHeader, "left-behind")
	if spy.order.Cause.Operation != operation || !spy.order.Resumed {
		t.Errorf("abandoned key: %+v, want %s resumed", spy.order, operation)
	}
}

// An attempt that was given back is over: the same key may try again. Of one that
// was not, the next request is to learn the end.
func TestKey_RetryGivenBack(t *testing.T) {
	t.Parallel()
	for verdict, dropped := range map[entity.Verdict]int32{
		entity.GivenBack: 1, entity.Rescued: 1, entity.Refused: 0, entity.Acknowledged: 0,
	} {
		f := newFixture(message(idA))
		log := &keyLog{Store: f.memory}
		f.store = log
		f.redriver = endingAs{redriverFunc(func(context.Context) (entity.Redrive, error) { return entity.Redrive{}, nil }), f.memory, verdict}
		w := f.open().do("POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", "", keyHeader, "k")
		if w.Code != 503 || log.dropped.Load() != dropped || log.let.Load() != 1-dropped {
			t.Errorf("verdict %d: answer %d, dropped %d, let go %d; want 503, %d, %d", verdict, w.Code, log.dropped.Load(), log.let.Load(), dropped, 1-dropped)
		}
	}
}

// endingAs makes an attempt that ends with a verdict, of which its caller is not
// told.
type endingAs struct {
	redriverFunc
	store   *fake.Store
	verdict entity.Verdict
}

func (e endingAs) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	claim := repository.Claim{MessageID: order.ID, ID: order.Cause.Operation, Topic: "t"}
	_, err := e.store.Claim(ctx, []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute, Cause: order.Cause})
	if err == nil {
		_, err = e.store.Finish(ctx, []repository.Result{{MessageID: order.ID, ClaimID: claim.ID, Verdict: e.verdict}}, order.Cause)
	}
	return entity.RetryResult{}, errors.Join(err, entity.ErrUnavailable)
}

// While the first is at work the others wait, each for as long as its client
// does; a lease is prolonged as long as the work lasts.
func TestKey_AtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA))
		log := &keyLog{Store: fake.New(time.Now)}
		f.store = log
		finish := make(chan struct{})
		f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) {
			<-finish
			return entity.Redrive{ID: redrive}, nil
		})
		f.open()
		target := "/api/v1/dlq/t/retry-all"
		answers := make(chan *httptest.ResponseRecorder, 2)
		ask := func() { answers <- f.do("POST", target, "", keyHeader, "k") }
		go ask()
		synctest.Wait()
		go ask()

		gone, leave := context.WithCancel(t.Context())
		left := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			r := httptest.NewRequest("POST", target, nil).WithContext(gone)
			r.Header.Set(keyHeader, "k")
			left <- f.send(r)
		}()
		synctest.Wait()
		leave()
		if w := <-left; w.Code != statusClientGone || w.Body.Len() > 0 {
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

// Short changes wait for the first no longer than a request may last.
func TestKey_AtWorkForTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA))
		f.store = busyStore{f.memory}
		began := time.Now()
		w := f.open().do("POST", "/api/v1/dlq/messages/"+idA.String()+"/dead", "", keyHeader, "k")
		wantAnswer(t, w, 503, errorJSON(codeUnavailable, unavailableText, "[]"))
		if took := time.Since(began); took != f.cfg.RequestTimeout {
			t.Errorf("answered after %s, want %s", took, f.cfg.RequestTimeout)
		}
	})
}

type busyStore struct{ *fake.Store }

func (busyStore) OpenKey(context.Context, repository.Key, time.Duration) (repository.KeyState, error) {
	return repository.KeyState{Phase: repository.KeyAtWork}, nil
}

// A drain ends the waiting for another request's work.
func TestServe_DrainEndsTheWaitForAKey(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.cfg.DrainTimeout = 4 * time.Second
	asked := make(chan struct{})
	f.store = &noticingStore{busyStore{f.memory}, sync.OnceFunc(func() { close(asked) })}
	url, stop, served := f.open().serve(t)
	answer := make(chan answered, 1)
	go func() { answer <- postKeyed(t, url+"/api/v1/dlq/t/retry-all", "k") }()
	receive(t, asked, "the request")
	stop()
	if got := receive(t, answer, "the answer"); got.status != 503 {
		t.Errorf("waiting request = %+v, want 503", got)
	}
	if err := receive(t, served, "the end"); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

type noticingStore struct {
	busyStore
	asked func()
}

func (n *noticingStore) OpenKey(ctx context.Context, k repository.Key, lease time.Duration) (repository.KeyState, error) {
	n.asked()
	return n.busyStore.OpenKey(ctx, k, lease)
}

// A drain in the middle of a keyed retry-all leaves the key to the next request,
// which gets the same redrive's end.
func TestServe_DrainDuringAKeyedWait(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.cfg.DrainTimeout = 4 * time.Second
	waiting := &waitingForEver{acknowledging{f.memory}, make(chan struct{})}
	f.redriver = waiting
	url, stop, served := f.open().serve(t)
	answer := make(chan answered, 1)
	go func() { answer <- postKeyed(t, url+"/api/v1/dlq/orders.dlq.v1/retry-all", "k") }()
	receive(t, waiting.began, "the request")
	stop()
	got := receive(t, answer, "the answer")
	begun, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 2})
	if got.status != 503 || err != nil || len(begun) != 1 || !strings.Contains(got.body, begun[0].ID.String()) {
		t.Fatalf("interrupted request = %+v, with redrives %v, %v; want 503 and the one redrive named", got, begun, err)
	}
	if err := receive(t, served, "the end"); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}

	next := newFixture()
	next.store, next.redriver = f.memory, acknowledging{f.memory}
	w := next.open().do("POST", "/api/v1/dlq/orders.dlq.v1/retry-all", "", keyHeader, "k")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"redrive_id":"`+begun[0].ID.String()+`"`) {
		t.Errorf("the key again, elsewhere = %d %s, want the end of redrive %s", w.Code, w.Body, begun[0].ID)
	}
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

func postKeyed(t *testing.T, url, key string) answered {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		return answered{err: err}
	}
	request.Header.Set(keyHeader, key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answered{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, string(body), err}
}

// Fifty at once do the work once and read the same, byte for byte.
func TestServe_FiftyWithOneKey(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/api/v1/dlq/orders.dlq.v1/retry-all",
		"/api/v1/dlq/messages/" + idA.String() + "/retry",
		"/api/v1/dlq/messages/" + idB.String() + "/requeue",
		redrives + "/" + idRunning.String() + "/cancel",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			f := documentFixture()
			twin := documentFixture()
			twin.do("POST", path, "")
			url, _, _ := f.serve(t)
			answers := make(chan answered, 50)
			for range cap(answers) {
				go func() { answers <- postKeyed(t, url+path, "one-key") }()
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
			if got, want := trailOfAll(t, f), trailOfAll(t, twin); got != want {
				t.Errorf("%d changes, want the %d of one request", got, want)
			}
		})
	}
}

// A client that leaves while its work is done finds the answer later.
func TestKey_AnswerIsStoredWithoutTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range changing() {
		f := documentFixture()
		gone, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequest("POST", c.target, strings.NewReader(c.body)).WithContext(gone)
		r.Header.Set(keyHeader, "k")
		first := f.send(r)
		patient, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a key that nobody closed would keep it waiting
		r = httptest.NewRequest("POST", c.target, strings.NewReader(c.body)).WithContext(patient)
		r.Header.Set(keyHeader, "k")
		again := f.send(r)
		cancel()
		wantHeader(t, again.Header(), replayHeader, "true")
		if first.Code >= 300 || !bytes.Equal(first.Body.Bytes(), again.Body.Bytes()) {
			t.Fatalf("POST %s: %d %s, then %s; want the same", c.target, first.Code, first.Body, again.Body)
		}
	}
}
