package rest

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const acceptEnvelope = `{"accept_envelope":true}`

// TestRetryOfAnEnvelope: the refusal is a conflict with its class. Accepting the envelope needs operator on the
// dead-letter topic too, even if a declaration confirms the original topic.
func TestRetryOfAnEnvelope(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.redriver = failing(fmt.Errorf("retry: %w", &entity.RefusedError{Class: entity.Envelope, Reason: "the whole envelope"}))
	wantAnswer(t, f.open().do("POST", retryA, ""), 409, errorJSON("SYS_DLQ_CONFLICT", "the whole envelope",
		`[{"field":"reason","reason":"the whole envelope"},{"field":"class","reason":"ENVELOPE"}]`))
	orders, gamma := person("p", "orders.*", auth.Operator), person("p", "gamma.*", auth.Operator)
	for name, c := range map[string]struct {
		auth.Principal
		body   string
		status int
	}{
		"Orders": {orders, acceptEnvelope, 403}, "OrdersUnasked": {orders, "", 200}, "OrdersNo": {orders, `{"accept_envelope":false}`, 200},
		"Both": {grants("p", orders, gamma), acceptEnvelope, 200}, "Everything": {person("p", "*", auth.Operator), acceptEnvelope, 200},
		"GammaAsViewer": {grants("p", orders, person("p", "gamma.*", auth.Viewer)), acceptEnvelope, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, orders := orderingFixture(claimed())
			w := f.with(judgedAs(declaredOrigin)).guarded(c.Principal).by("p", "POST", retryA, c.body)
			if wantStatus(t, w, c.status); c.status == 403 {
				wantStatus(t, w, 403, "gamma.dlq.v1")
				return
			}
			check.Equal(t, orders.retried.AcceptEnvelope, c.body == acceptEnvelope, "AcceptEnvelope")
		})
	}
}

// TestRedriveOfEnvelopes: a redrive and the retry of a topic pass the option on. Who is not operator on the dead-letter
// topic of an envelope gets 403, and nothing begins.
func TestRedriveOfEnvelopes(t *testing.T) {
	t.Parallel()
	const all = "/api/v1/dlq/orders.events.v1/retry-all"
	ids := `{"ids":["` + idA.String() + `"],"accept_envelope":true`
	limited, everything := person("p", "orders.*", auth.Operator), person("p", "*", auth.Operator)
	for name, c := range map[string]struct {
		auth.Principal
		path, body string
		envelopes  int // messages that the preview would still refuse as envelopes
		status     int
	}{
		"Redrive": {everything, redrivesPath, ids + "}", 1, 202}, "RetryAll": {everything, all, acceptEnvelope, 1, 200},
		"LimitedRedrive": {limited, redrivesPath, ids + "}", 0, 202}, "LimitedRetryAll": {limited, all, acceptEnvelope, 0, 200},
		"ForbiddenRedrive": {limited, redrivesPath, ids + "}", 1, 403}, "ForbiddenRetryAll": {limited, all, acceptEnvelope, 1, 403},
		"ForbiddenDryRun": {limited, redrivesPath, ids + `,"dry_run":true}`, 1, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, orders := orderingFixture(claimed())
			orders.preview.Reasons = map[string]int{"ENVELOPE": c.envelopes}
			wantStatus(t, f.guarded(c.Principal).by("p", "POST", c.path, c.body), c.status)
			if c.status == 403 {
				check.Len(t, orders.begun, 0, "redrives")
				return
			}
			check.True(t, len(orders.begun) == 1 && reflect.DeepEqual(orders.begun[0].Options, entity.RedriveOptions{AcceptEnvelope: true}), "began %+v", orders.begun)
		})
	}
	for _, body := range []string{`{"accept_envelope":1}`, `{"accept_envelope":null}`, `{"accept_envelopes":true}`} {
		wantStatus(t, newFixture().open().do("POST", all, body), 400)
	}
}
