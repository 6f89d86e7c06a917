package rest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + clientTrace + "-b7ad6b7169203331-01"
)

// The audit trail contains the actor, the reason and the request id of every change.
func TestCause(t *testing.T) {
	t.Parallel()
	const reason = "the consumer was fixed 修正済み"
	body := `{"reason":"` + reason + `"}`
	paused := "/api/v1/redrives/" + idPaused.String()
	for _, c := range []struct {
		method, target, body string
		action               entity.Action
	}{
		{"POST", retryA, body, entity.ActionRetry},
		{"POST", oneA + "/dead", body, entity.ActionDead},
		{"POST", oneB + "/requeue", body, entity.ActionRequeue},
		{"DELETE", oneA + "?reason=" + url.QueryEscape(reason), "", entity.ActionDelete},
		{"POST", "/api/v1/dlq/nothing/retry-all", body, entity.ActionCreate},
		{"POST", "/api/v1/redrives", `{"ids":["` + idA.String() + `"],"reason":"` + reason + `"}`, entity.ActionCreate},
		{"POST", "/api/v1/redrives/" + idRunning.String() + "/pause", body, entity.ActionPause},
		{"POST", paused + "/resume", body, entity.ActionResume},
		{"POST", paused + "/cancel", body, entity.ActionCancel},
		{
			"POST", "/api/v1/dlq/messages/" + idUnknown.String() + "/origin", `{"original_topic":"payments","reason":"` + reason + `"}`,
			entity.ActionMap,
		},
		{"POST", "/api/v1/archive/" + idArchived.String() + "/restore", body, entity.ActionRestore},
		{"DELETE", "/api/v1/archive/" + idArchived.String(), body, entity.ActionErase},
		{"PATCH", "/api/v1/groups/" + failure.ID().String(), `{"muted":true,"reason":"` + reason + `"}`, entity.ActionAnnotate},
		{"PUT", "/api/v1/mappings", `{"version":0,"rules":[],"reason":"` + reason + `"}`, entity.ActionReplace},
	} {
		t.Run(c.method+c.target, func(t *testing.T) {
			t.Parallel()
			f := documentFixture()
			if w := f.do(c.method, c.target, c.body, "Traceparent", traceparent); w.Code >= 300 {
				t.Fatalf("answer = %d %s, want success", w.Code, w.Body)
			}
			entries := f.trail(t, repository.TrailQuery{Action: c.action})
			want := entity.AuditInfo{Actor: "anonymous", Reason: reason, RequestID: testID, TraceID: clientTrace}
			check.Require(t, len(entries) > 0 && entries[0].Cause.Call != uuid.Nil, "trail = %+v, want an entry with the server's own id", entries)
			want.Call = entries[0].Cause.Call
			if entries[0].Cause != want {
				t.Errorf("trail = %+v, want an entry by %+v", entries, want)
			}
		})
	}
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		traceparent:                                        clientTrace,
		traceparent[:53] + "00":                            clientTrace,
		"01" + traceparent[2:] + "-more":                   clientTrace,
		"01" + traceparent[2:]:                             clientTrace,
		"":                                                 "",
		traceparent + "-more":                              "",
		"01" + traceparent[2:] + "more":                    "",
		"ff" + traceparent[2:]:                             "",
		strings.ToUpper(traceparent):                       "",
		traceparent[:54]:                                   "",
		strings.ReplaceAll(traceparent, "-", "_"):          "",
		strings.Replace(traceparent, "0af", "0xf", 1):      "",
		"00-" + strings.Repeat("0", 32) + traceparent[35:]: "",
		traceparent[:36] + strings.Repeat("0", 16) + "-01": "",
	} {
		if got := traceID(requestWith(header), trace.SpanContext{}); got != want {
			t.Errorf("traceID(%q) = %q, want %q", header, got, want)
		}
	}
	if got := traceID(requestWith(traceparent, traceparent), trace.SpanContext{}); got != "" {
		t.Errorf("traceID of two headers = %q, want none", got)
	}
}

// requestWith returns the headers of a request.
func requestWith(traceparents ...string) http.Header { return http.Header{"Traceparent": traceparents} }

func TestReason(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("あ", 500)
	dead := func(body string) *reply {
		return newFixture(message(idA)).open().do("POST", oneA+"/dead", body)
	}
	wantStatus(t, dead(`{"reason":""}`), 200)
	wantStatus(t, dead(`{"reason":"`+long+`"}`), 200)
	for _, bad := range []string{`"` + long + `x"`, `"a\nb"`, `"\u0000"`, `"\u001b[31m"`, `"\u0085"`, `1`, `null`} {
		wantEnvelope(t, dead(`{"reason":`+bad+`}`), 400, "reason")
	}
	for _, query := range []string{"reason=a%0Ab", "reason=%ff", "reason=a&reason=b", "reason=" + url.QueryEscape(long+"x")} {
		w := newFixture(message(idA)).open().do("DELETE", oneA+"?"+query, "")
		wantEnvelope(t, w, 400, "reason")
	}
}
