package rest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	published := `{"id":"` + idA.String() + `","status":"RESOLVED","message":"message retry initiated",` +
		`"published":true,"topic":"orders.events.v1","partition":3,"offset":7,"dlq_redrive_id":"` + idB.String() + `","edited":false}`
	conflict := func(state string) string {
		return errorJSON("SYS_DLQ_CONFLICT", "message is not retryable: "+state, "[]")
	}
	for _, c := range []struct {
		status  entity.Status
		retries int
		code    int
		want    string
	}{
		{entity.Pending, 0, 200, published},
		{entity.Pending, 2, 200, published},
		{entity.Dead, 3, 409, conflict("status=DEAD, retry_count=3/3")},
		{entity.Resolved, 1, 409, conflict("status=RESOLVED, retry_count=1/3")},
		{entity.Pending, 3, 409, conflict("status=PENDING, retry_count=3/3")},
	} {
		wantAnswer(t, newFixture(message(idA, in(c.status, c.retries))).open().do("POST", retryA, ""), c.code, c.want)
	}
	wantAnswer(t, newFixture().open().do("POST", retryA, ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idA.String(), "[]"))
	f, _ := orderingFixture() // orderingFixture has a redriver that records retries and sends nothing
	wantAnswer(t, f.open().do("POST", retryA, ""), 200, `{"id":"`+idA.String()+`","status":"RESOLVED",`+
		`"message":"message retry initiated","published":false,"topic":null,"partition":null,"offset":null,"dlq_redrive_id":null,"edited":false}`)
}

func TestRetryAll(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/orders.dlq.v1/retry-all"
	final := []entity.Message{message(idA), message(idB, in(entity.Dead, 3)), message(idGone, in(entity.Resolved, 1))}
	for n, messages := range [][]entity.Message{nil, final, {message(idA), message(idB)}} {
		wantAnswer(t, newFixture(messages...).open().do("POST", target, ""), 200, fmt.Sprintf(
			`{"retried":%d,"message":"%d messages retried in topic orders.dlq.v1","redrive_id":"%s",`+
				`"selected":%d,"failed":0,"dead":0,"in_doubt":0,"skipped":0,"waiting":0,"reasons":{}}`, n, n, redrive, n))
	}
	f, ended := orderingFixture()
	ended.do = func(context.Context) (entity.Redrive, error) {
		return entity.Redrive{ID: redrive, Selected: 15, Counts: entity.RedriveCounts{
			Succeeded: 1, Failed: 5, Dead: 3, InDoubt: 4, Skipped: 5, Reasons: map[string]int{"UNKNOWN_TOPIC": 5},
		}}, nil
	}
	wantAnswer(t, f.open().do("POST", target, ""), 200, `{"retried":1,"message":"1 messages retried in topic orders.dlq.v1",`+
		`"redrive_id":"`+redrive.String()+`","selected":15,"failed":5,"dead":3,"in_doubt":4,"skipped":5,"waiting":0,"reasons":{"UNKNOWN_TOPIC":5}}`)
	f.redriver = failing(&entity.InterruptedError{Err: context.Canceled, Redrive: entity.Redrive{
		ID: redrive, Selected: 20, Counts: entity.RedriveCounts{Succeeded: 4, Failed: 3, Dead: 1, InDoubt: 2, Skipped: 5, Waiting: 6},
	}})
	w := f.open().do("POST", target, "")
	wantAnswer(t, w, 503, errorJSON("SYS_DLQ_UNAVAILABLE", respond.UnavailableText, interruptedJSON(20, 4, 3, 1, 2, 5, 6)))
	wantHeader(t, w.Header(), "Retry-After", "5")
}

// A client that disconnects must not affect the result of its change.
func TestChangesGoOnWithoutTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path string }{
		{"POST", "/api/v1/dlq/orders.dlq.v1/retry-all"}, {"POST", retryA}, {"POST", oneA + "/dead"}, {"DELETE", oneA},
	} {
		f := newFixture(message(idA)).open() // the store of the fixture refuses a context that has ended, such as that of a client that has left
		gone, leave := context.WithCancel(t.Context())
		leave()
		wantStatus(t, f.send(httptest.NewRequest(c.method, c.path, nil).WithContext(gone)), 200)
	}
}

func TestPublishFailed(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.redriver = failing(fmt.Errorf("retry: %w", &entity.PublishError{
		ID: idA, Class: entity.NetworkTimeout, Status: entity.Pending, RetryAt: noon.Add(2 * time.Second), Reason: "broker kafka-7.internal",
	}))
	wantAnswer(t, f.open().do("POST", retryA, ""), 502,
		errorJSON("SYS_DLQ_PUBLISH_FAILED", "the message could not be published", `[{"field":"class","reason":"NETWORK_TIMEOUT"},`+
			`{"field":"status","reason":"PENDING"},{"field":"retry_at","reason":"2026-02-20T10:30:02.000+00:00"}]`))
}

func TestRetry_Body(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{"": false, " \n": false, "{}": false, `{"accept_duplicate":false}`: false, ` {"accept_duplicate" : true} `: true} {
		f, orders := orderingFixture()
		if wantStatus(t, f.open().do("POST", retryA, body), 200); orders.retried.AcceptDuplicate != want {
			t.Errorf("body %q: accept_duplicate = %t, want %t", body, orders.retried.AcceptDuplicate, want)
		}
	}
}

// The permission check reads the message of a retry, and the redriver gets this message. So the record that was checked
// is the record that is sent. Without an edit, a caller with operator on all topics needs no such read.
func TestRetryReadsItsMessageOnce(t *testing.T) {
	t.Parallel()
	const edit = `{"edit":{"payload":{"order_id":2}}}`
	for name, c := range map[string]struct {
		roles  []auth.Role
		topics string
		body   string
		reads  int
	}{
		"OfSomeTopics":              {[]auth.Role{auth.Operator}, "orders.*", "", 1},
		"OfSomeTopicsWithAnEdit":    {[]auth.Role{auth.Operator, auth.Edit}, "orders.*", edit, 1},
		"OfEverythingWithAnEdit":    {[]auth.Role{auth.Operator, auth.Edit}, "*", edit, 1},
		"OfEverythingByTheRedriver": {[]auth.Role{auth.Operator}, "*", "", 0},
	} {
		f, orders := orderingFixture(message(idA, withValue(`{"order_id":1}`)))
		store, reads := hook(f.memory), 0
		store.get = func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
			reads++
			return f.memory.Get(ctx, id, maxValue)
		}
		f.over(store).with(judgedAs(trustedOrigin)).guarded(person("p", c.topics, c.roles...))
		wantStatus(t, f.by("p", "POST", retryA, c.body), 200)
		m := orders.retried.Message
		if reads != c.reads || (m != nil) != (c.reads == 1) || m != nil && string(m.Record.Value) != `{"order_id":1}` {
			t.Errorf("%s: read %d times, want %d; the redriver got %+v, want the message that was read", name, reads, c.reads, m)
		}
	}
}
