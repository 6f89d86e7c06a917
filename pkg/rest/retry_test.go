package rest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/messages/" + idA.String() + "/retry"
	published := `{"id":"` + idA.String() + `","status":"RESOLVED","message":"message retry initiated",` +
		`"published":true,"topic":"orders.events.v1","partition":3,"offset":7,"dlq_redrive_id":"` + idB.String() + `","edited":false}`
	conflict := func(state string) string {
		return errorJSON("SYS_DLQ_CONFLICT", "message is not retryable: "+state, "[]")
	}
	for _, c := range []struct {
		name   string
		state  func(*entity.Message)
		status int
		want   string
	}{
		{"Pending", in(entity.Pending, 0), 200, published},
		{"LastAttempt", in(entity.Pending, 2), 200, published},
		{"Dead", in(entity.Dead, 3), 409, conflict("status=DEAD, retry_count=3/3")},
		{"Resolved", in(entity.Resolved, 1), 409, conflict("status=RESOLVED, retry_count=1/3")},
		{"AttemptsUsedUp", in(entity.Pending, 3), 409, conflict("status=PENDING, retry_count=3/3")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantAnswer(t, newFixture(message(idA, c.state)).open().do("POST", target, ""), c.status, c.want)
		})
	}
	t.Run("NotFound", func(t *testing.T) {
		t.Parallel()
		wantAnswer(t, newFixture().open().do("POST", target, ""), 404,
			errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idA.String(), "[]"))
	})
	t.Run("NothingWasSent", func(t *testing.T) {
		t.Parallel()
		f := newFixture()
		f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) { return entity.Redrive{}, nil })
		wantAnswer(t, f.open().do("POST", target, ""), 200, `{"id":"`+idA.String()+`","status":"RESOLVED",`+
			`"message":"message retry initiated","published":false,"topic":null,"partition":null,"offset":null,"dlq_redrive_id":null,"edited":false}`)
	})
}

func TestRetryAll(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/orders.dlq.v1/retry-all"
	answer := func(n int) string {
		return fmt.Sprintf(`{"retried":%d,"message":"%d messages retried in topic orders.dlq.v1","redrive_id":"%s",`+
			`"selected":%d,"failed":0,"dead":0,"in_doubt":0,"skipped":0,"waiting":0,"reasons":{}}`, n, n, redrive, n)
	}
	t.Run("EmptyTopic", func(t *testing.T) {
		t.Parallel()
		wantAnswer(t, newFixture().open().do("POST", target, ""), 200, answer(0))
	})
	t.Run("Messages", func(t *testing.T) {
		t.Parallel()
		wantAnswer(t, newFixture(message(idA), message(idB)).open().do("POST", target, ""), 200, answer(2))
	})
	t.Run("FinalMessagesAreLeftOut", func(t *testing.T) {
		t.Parallel()
		f := newFixture(message(idA), message(idB, in(entity.Dead, 3)), message(idGone, in(entity.Resolved, 1))).open()
		wantAnswer(t, f.do("POST", target, ""), 200, answer(1))
	})
	t.Run("EveryCount", func(t *testing.T) {
		t.Parallel()
		f := newFixture()
		f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) {
			return entity.Redrive{ID: redrive, Selected: 15, Counts: entity.RedriveCounts{
				Succeeded: 1, Failed: 5, Dead: 3, InDoubt: 4, Skipped: 5, Reasons: map[string]int{"UNKNOWN_TOPIC": 5},
			}}, nil
		})
		wantAnswer(t, f.open().do("POST", target, ""), 200, `{"retried":1,"message":"1 messages retried in topic orders.dlq.v1",`+
			`"redrive_id":"`+redrive.String()+`","selected":15,"failed":5,"dead":3,"in_doubt":4,"skipped":5,"waiting":0,"reasons":{"UNKNOWN_TOPIC":5}}`)
	})
	t.Run("Interrupted", func(t *testing.T) {
		t.Parallel()
		f := newFixture()
		f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) {
			stood := entity.Redrive{ID: redrive, Selected: 20, Counts: entity.RedriveCounts{
				Succeeded: 4, Failed: 3, Dead: 1, InDoubt: 2, Skipped: 5, Waiting: 6,
			}}
			return stood, &entity.InterruptedError{Redrive: stood, Err: context.Canceled}
		})
		w := f.open().do("POST", target, "")
		wantAnswer(t, w, 503, errorJSON("SYS_DLQ_UNAVAILABLE", unavailableText, interruptedJSON(20, 4, 3, 1, 2, 5, 6)))
		wantHeader(t, w.Header(), "Retry-After", "5")
	})
}

// A client that leaves must not decide what becomes of messages.
func TestChangesGoOnWithoutTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path string }{
		{"POST", "/api/v1/dlq/orders.dlq.v1/retry-all"},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/retry"},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/dead"},
		{"DELETE", "/api/v1/dlq/messages/" + idA.String()},
	} {
		f := newFixture(message(idA)).open() // the memory store refuses a context that has ended
		gone, leave := context.WithCancel(t.Context())
		leave()
		if w := f.send(httptest.NewRequest(c.method, c.path, nil).WithContext(gone)); w.Code != 200 {
			t.Errorf("%s %s of a client that left = %d %s, want 200", c.method, c.path, w.Code, w.Body)
		}
	}
}

func TestPublishFailed(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) {
		return entity.Redrive{}, fmt.Errorf("retry: %w", &entity.PublishError{
			ID: idA, Class: entity.NetworkTimeout, Status: entity.Pending, RetryAt: noon.Add(2 * time.Second), Reason: "broker kafka-7.internal",
		})
	})
	wantAnswer(t, f.open().do("POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", ""), 502,
		errorJSON("SYS_DLQ_PUBLISH_FAILED", "the message could not be published", `[{"field":"class","reason":"NETWORK_TIMEOUT"},`+
			`{"field":"status","reason":"PENDING"},{"field":"retry_at","reason":"2026-02-20T10:30:02.000+00:00"}]`))
}

func TestRetry_Body(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/messages/" + idA.String() + "/retry"
	for body, want := range map[string]bool{"": false, " \n": false, "{}": false, `{"accept_duplicate":false}`: false, ` {"accept_duplicate" : true} `: true} {
		f, spy := newFixture(), &spyRedriver{}
		f.redriver = spy
		if w := f.open().do("POST", target, body); w.Code != 200 || spy.order.AcceptDuplicate != want {
			t.Errorf("body %q: status %d, accept_duplicate = %t, want 200 and %t", body, w.Code, spy.order.AcceptDuplicate, want)
		}
	}
}

type spyRedriver struct {
	redriverFunc
	order entity.RetryOrder
}

func (s *spyRedriver) Retry(_ context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	s.order = order
	return entity.RetryResult{ID: order.ID, Status: entity.Resolved}, nil
}

// reading counts how often a message is read.
type reading struct {
	*fake.Store
	gets atomic.Int32
}

func (r *reading) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	r.gets.Add(1)
	return r.Store.Get(ctx, id, maxValue)
}

// The redriver gets what the checks have read: they were about what is sent.
func TestRetryReadsItsMessageOnce(t *testing.T) {
	t.Parallel()
	const edit = `{"edit":{"payload":{"order_id":2}}}`
	for name, c := range map[string]struct {
		roles  []auth.Role
		topics string
		body   string
		reads  int32
	}{
		"OfSomeTopics":              {[]auth.Role{auth.Operator}, "orders.*", "", 1},
		"OfSomeTopicsWithAnEdit":    {[]auth.Role{auth.Operator, auth.Edit}, "orders.*", edit, 1},
		"OfEverythingWithAnEdit":    {[]auth.Role{auth.Operator, auth.Edit}, "*", edit, 1},
		"OfEverythingByTheRedriver": {[]auth.Role{auth.Operator}, "*", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, order, _ := orderingFixture(message(idA, withValue(`{"order_id":1}`)))
			store := &reading{Store: f.memory}
			f.store, f.options = store, []Option{judgedAs(trustedOrigin)}
			f.guarded(person("p", c.topics, c.roles...))
			if w := f.by("p", "POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", c.body); w.Code != 200 {
				t.Fatalf("retry = %d %s, want 200", w.Code, w.Body)
			}
			if got := store.gets.Load(); got != c.reads {
				t.Errorf("the message was read %d times, want %d", got, c.reads)
			}
			if m := order.Message; (m != nil) != (c.reads == 1) || m != nil && string(m.Record.Value) != `{"order_id":1}` {
				t.Errorf("the redriver got %+v, want the message that was read", m)
			}
		})
	}
}
