package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// Each kind of error, wrapped as the store or the redriver returns it, has its own answer.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		err     error
		status  int
		code    string
		message string
		details string
	}{
		{"Method", respond.Refused(respond.ErrMethod, "no"), 405, respond.CodeValidation, "no", `[]`},
		{"MediaType", respond.Refused(respond.ErrMediaType, "no"), 415, respond.CodeValidation, "no", `[]`},
		{"TooLarge", respond.Refused(respond.ErrTooLarge, "no"), 413, respond.CodeValidation, "no", `[]`},
		{"Field", &entity.FieldError{Field: "page", Reason: "bad"}, 400, respond.CodeValidation, "page: bad", `[{"field":"page","reason":"bad"}]`},
		{
			"TwoFields", errors.Join(&entity.FieldError{Field: "a", Reason: "x"}, &entity.FieldError{Field: "b", Reason: "y"}),
			400, respond.CodeValidation, "a: x", `[{"field":"a","reason":"x"},{"field":"b","reason":"y"}]`,
		},
		{"NotFound", &entity.NotFoundError{ID: idA}, 404, respond.CodeNotFound, "dlq message not found: " + idA.String(), `[]`},
		{
			"NotRetryable", &entity.NotRetryableError{Status: entity.Dead, RetryCount: 3, MaxRetries: 3},
			409, respond.CodeConflict, "message is not retryable: status=DEAD, retry_count=3/3", `[]`,
		},
		{"Claimed", &entity.ClaimedError{ID: idA}, 409, respond.CodeConflict, "message is claimed by a running retry: " + idA.String(), `[]`},
		{
			"Unsettled", &entity.ClaimedError{ID: idA, Unsettled: true}, 409, respond.CodeConflict,
			"message " + idA.String() + ": its last attempt cannot be settled: mark it dead, or retry it with accept_duplicate",
			`[{"field":"id","reason":"mark it dead, or retry it with accept_duplicate"}]`,
		},
		{
			"RedriveIsOver", &entity.RedriveStateError{ID: redrive, From: entity.RedriveFinished, To: entity.RedriveCancelled}, 409, respond.CodeConflict,
			"redrive " + redrive.String() + " is finished and cannot become cancelled", `[]`,
		},
		{"NoRedrive", &entity.RedriveNotFoundError{ID: redrive}, 404, respond.CodeNotFound, "redrive not found: " + redrive.String(), `[]`},
		{
			"Transition", &entity.TransitionError{From: entity.Resolved, To: entity.Dead}, 409, respond.CodeConflict,
			"message cannot move from RESOLVED to DEAD", `[]`,
		},
		{
			"Refused", &entity.RefusedError{Class: entity.LoopRefused, Reason: "it would loop"}, 409, respond.CodeConflict, "it would loop",
			`[{"field":"reason","reason":"it would loop"},{"field":"class","reason":"LOOP_REFUSED"}]`,
		},
		{
			"Publish", &entity.PublishError{Class: entity.BadRecord, Status: entity.Dead, Reason: "secret"},
			502, respond.CodePublishFailed, "the message could not be published",
			`[{"field":"class","reason":"BAD_RECORD"},{"field":"status","reason":"DEAD"}]`,
		},
		{
			"Interrupted", &entity.InterruptedError{Redrive: entity.Redrive{ID: redrive}, Err: errors.New("secret")},
			503, respond.CodeUnavailable, respond.UnavailableText, interruptedJSON(0, 0, 0, 0, 0, 0, 0),
		},
		{"Unavailable", fmt.Errorf("dial secret:5432: %w", entity.ErrUnavailable), 503, respond.CodeUnavailable, respond.UnavailableText, `[]`},
		{"KafkaAway", fmt.Errorf("secret: %w", away{"Kafka"}), 503, respond.CodeUnavailable, "Kafka cannot be reached at the moment, try again later", `[]`},
		{
			"DatabaseAway", &entity.InterruptedError{Redrive: entity.Redrive{ID: redrive}, Err: away{"the database"}}, 503, respond.CodeUnavailable,
			"the database cannot be reached at the moment, try again later", interruptedJSON(0, 0, 0, 0, 0, 0, 0),
		},
		{"SearchEngineAway", fmt.Errorf("search: %w", &repository.EngineAwayError{Cause: errors.New("dial secret:9200"), Reason: "it cannot be reached"}), 503, respond.CodeUnavailable, respond.EngineAwayText, `[{"field":"opensearch","reason":"it cannot be reached"}]`},
		{
			"SearchEngineLate", fmt.Errorf("secret: %w", &repository.EngineLateError{Limit: 10 * time.Second}), 503, respond.CodeUnavailable,
			"the search engine did not answer within 10s: narrow the filter by topic, group or time, or try again", `[]`,
		},
		{"TookTooLong", fmt.Errorf("secret: %w", context.DeadlineExceeded), 503, respond.CodeUnavailable, respond.UnavailableText, `[]`},
		{"Stopped", fmt.Errorf("secret: %w", context.Canceled), 503, respond.CodeUnavailable, respond.UnavailableText, `[]`},
		{"BareNotFound", fmt.Errorf("secret: %w", entity.ErrNotFound), 404, respond.CodeNotFound, "not found", `[]`},
		{"BareConflict", fmt.Errorf("secret: %w", entity.ErrConflict), 409, respond.CodeConflict, "the message's state does not allow this", `[]`},
		{"BareInvalid", fmt.Errorf("secret: %w", entity.ErrInvalid), 400, respond.CodeValidation, "invalid request", `[]`},
		{"Unexpected", errBroken, 500, respond.CodeInternal, "internal error", `[]`},
	} {
		f := newFixture()
		logs := f.logs(zap.WarnLevel)
		f.redriver = failing(fmt.Errorf("where secrets are: %w", c.err))
		w := f.open().do("POST", retryA, "")
		wantAnswer(t, w, c.status, errorJSON(c.code, c.message, c.details))
		if got, want := w.Header().Get("Retry-After") != "", c.status == 503; got != want {
			t.Errorf("%s: Retry-After given = %t, want %t", c.name, got, want)
		}
		wantLogged(t, logs, c.status >= 500)
	}
}

// interruptedJSON returns the details of the answer about an interrupted redrive.
func interruptedJSON(selected, resolved, failed, dead, inDoubt, skipped, waiting int) string {
	return fmt.Sprintf(`[{"field":"redrive_id","reason":"%s"},{"field":"selected","reason":"%d"},{"field":"resolved","reason":"%d"},`+
		`{"field":"failed","reason":"%d"},{"field":"dead","reason":"%d"},{"field":"in_doubt","reason":"%d"},{"field":"skipped","reason":"%d"},`+
		`{"field":"waiting","reason":"%d"}]`,
		redrive, selected, resolved, failed, dead, inDoubt, skipped, waiting)
}

// wantLogged checks that the cause of a 5xx answer is in the log once, with the request id.
func wantLogged(t *testing.T, logs *observer.ObservedLogs, want bool) {
	t.Helper()
	failed := logs.FilterMessage("request failed").FilterField(zap.String("request_id", testID)).All()
	if want != (len(failed) == 1) || want && !strings.Contains(fmt.Sprint(failed[0].ContextMap()["error"]), "where secrets are") {
		t.Errorf("logged %v, want one failure with its cause: %t", failed, want)
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture()
	logs, store := f.logs(zap.ErrorLevel), hook(f.memory)
	f.redriver = &stub{do: func(context.Context) (entity.Redrive, error) { panic("secret") }}
	store.list = func(context.Context, string, repository.Page) (repository.List, error) { panic("secret") }
	f.over(store).open()
	for n, w := range []*reply{
		f.do("POST", "/api/v1/dlq/t/retry-all", ""),
		// The handler runs in a goroutine of its own, where a panic would end the program.
		f.do("GET", "/api/v1/dlq/orders.dlq.v1", ""),
	} {
		wantAnswer(t, w, 500, errorJSON(respond.CodeInternal, "internal error", `[]`))
		if logs.Len() != 2 || !strings.Contains(fmt.Sprint(logs.All()[n].ContextMap()["error"]), "goroutine") {
			t.Errorf("log = %v, want one entry with the stack", logs.All())
		}
	}
}

// away is an error that names what cannot be reached.
type away struct{ what string }

func (a away) Error() string        { return "dial secret:9092" }
func (a away) Away() string         { return a.what }
func (a away) Is(target error) bool { return target == entity.ErrUnavailable }
