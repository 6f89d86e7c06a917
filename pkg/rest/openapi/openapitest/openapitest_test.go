package openapitest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

var (
	asJSON  = http.Header{"Content-Type": {"application/json"}}
	asLines = http.Header{"Content-Type": {"application/x-ndjson"}}
	asTable = http.Header{"Content-Type": {"text/csv; charset=utf-8"}}
)

const refusal = `{"error":{"code":"SYS_DLQ_VALIDATION_ERROR","message":"m","request_id":"r","details":[]}}`

// Wrong exchanges are reported, and correct ones are not.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exchange Exchange
		want     string // part of the complaint; "" for none
	}{
		"an answer as described": {
			Exchange{Method: "GET", Path: "/healthz", Status: 200, AnswerHeader: asJSON, Answer: []byte(`{"status":"ok"}`)}, "",
		},
		"an answer with a field too many": {
			Exchange{Method: "GET", Path: "/healthz", Status: 200, AnswerHeader: asJSON, Answer: []byte(`{"status":"ok","x":1}`)}, "answer",
		},
		"an answer with another value than the constant": {
			Exchange{Method: "GET", Path: "/healthz", Status: 200, AnswerHeader: asJSON, Answer: []byte(`{"status":"bad"}`)}, "answer",
		},
		"a null that the field may not be": {
			Exchange{
				Method: "GET", Path: "/api/v1/messages", Status: 200, AnswerHeader: asJSON,
				Answer: []byte(`{"messages":null,"next_cursor":null,"count":null,"searched_until":null,"searched_back_to":null}`),
			}, "answer",
		},
		"an answer of another type": {
			Exchange{Method: "GET", Path: "/api/v1/topics", Status: 200, AnswerHeader: asJSON, Answer: []byte(`{"topics":{}}`)}, "answer",
		},
		"a refusal without its envelope": {
			Exchange{Method: "GET", Path: "/api/v1/topics", Status: 400, AnswerHeader: asJSON, Answer: []byte(`{}`)}, "answer",
		},
		"a bad parameter that is refused": {
			Exchange{Method: "GET", Path: "/api/v1/dlq/t?page=0", Status: 400, AnswerHeader: asJSON, Answer: []byte(refusal)}, "",
		},
		"a bad parameter that is taken": {
			Exchange{
				Method: "GET", Path: "/api/v1/dlq/t?page=0", Status: 200, AnswerHeader: asJSON,
				Answer: []byte(`{"messages":[],"pagination":{"total_count":0,"page":1,"page_size":20,"has_next":false}}`),
			}, "forbids",
		},
		"an unknown body field that is taken": {
			Exchange{
				Method: "POST", Path: "/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440000/retry", Body: []byte(`{"x":1}`), Status: 200,
				AnswerHeader: asJSON, Answer: []byte(`{"id":"550e8400-e29b-41d4-a716-446655440000","status":"RESOLVED","message":"m","published":true}`),
			}, "forbids",
		},
		"an export whose second line is no message": {
			Exchange{Method: "GET", Path: "/api/v1/export", Status: 200, AnswerHeader: asLines, Answer: []byte("{}\n{}\n")}, "line 1 is not a message",
		},
		"an empty export": {
			Exchange{Method: "GET", Path: "/api/v1/export", Status: 200, AnswerHeader: asLines}, "",
		},
		"an export that is no table": {
			Exchange{Method: "GET", Path: "/api/v1/export", Status: 200, AnswerHeader: asTable, Answer: []byte("a,b\nc\n")}, "answer",
		},
		"a path that two routes have, of which the method knows one": {
			Exchange{Method: "GET", Path: "/api/v1/dlq/messages/retry-all", Status: 400, AnswerHeader: asJSON, Answer: []byte(refusal)}, "",
		},
		"a list with commas and a bare plus sign": {
			Exchange{
				Method: "GET", Path: "/api/v1/messages?status=DEAD,PENDING&created_after=2026-01-01T00:00:00+00:00", Status: 200, AnswerHeader: asJSON,
				Answer: []byte(`{"messages":[],"next_cursor":null,"count":null,"searched_until":null,"searched_back_to":null}`),
			}, "",
		},
		"a list with commas and an unknown word": {
			Exchange{
				Method: "GET", Path: "/api/v1/messages?status=DEAD,dead", Status: 200, AnswerHeader: asJSON,
				Answer: []byte(`{"messages":[],"next_cursor":null,"count":null,"searched_until":null,"searched_back_to":null}`),
			}, "forbids",
		},
		"a route that does not exist": {
			Exchange{Method: "GET", Path: "/api/v1/other", Status: 404, AnswerHeader: asJSON, Answer: []byte(refusal)}, "",
		},
		"a route that is not in the document": {
			Exchange{Method: "GET", Path: "/api/v1/other", Status: 200, AnswerHeader: asJSON, Answer: []byte(`{}`)}, "not in the document",
		},
	} {
		err := Check(c.exchange)
		if got := err != nil; got != (c.want != "") || got && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a complaint with %q", name, err, c.want)
		}
	}
}

// Attacks returns thousands of attacks, some of them on the parameters and fields listed here.
func TestAttacks(t *testing.T) {
	t.Parallel()
	attacks, err := Attacks()
	check.NoError(t, err)
	fields := map[string]bool{}
	for _, a := range attacks {
		fields[a.Operation+" "+a.Field] = true
	}
	for _, want := range []string{
		"listTopic page", "searchMessages q", "searchMessages payload", "createRedrive filter.topic", "createRedrive action", "createRedrive body",
		"retryMessage edit.payload", "retryMessage Idempotency-Key", "annotateGroup link", "replaceMappings rules", "exportMessages format",
	} {
		if !fields[want] {
			t.Errorf("%s is not attacked", want)
		}
	}
	if len(attacks) < 5000 {
		t.Errorf("got %d attacks, want thousands", len(attacks))
	}
}

// Judge accepts correct answers and no others.
func TestJudge(t *testing.T) {
	t.Parallel()
	attack := Attack{Operation: "listTopics", Field: "x", Method: "GET", Path: "/api/v1/topics"}
	twice := attack
	twice.Refused = true
	const named = `{"error":{"code":"SYS_DLQ_VALIDATION_ERROR","message":"m","request_id":"r","details":[{"field":"x","reason":"y"}]}}`
	for name, c := range map[string]struct {
		attack Attack
		status int
		answer string
		want   string // part of the complaint; "" for none
	}{
		"an answer":                  {attack, 200, `{"topics":[],"next_cursor":null,"missing":[]}`, ""},
		"a refusal with a name":      {attack, 400, named, ""},
		"a refusal without a name":   {attack, 400, refusal, "without the name"},
		"a fault of the server":      {attack, 500, refusal, "= 500"},
		"an answer of another shape": {attack, 200, `{}`, "answer"},
		"what had to be refused":     {twice, 200, `{"topics":[],"next_cursor":null,"missing":[]}`, "want it refused"},
	} {
		err := c.attack.Judge(c.status, asJSON, []byte(c.answer))
		if got := err != nil; got != (c.want != "") || got && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a complaint with %q", name, err, c.want)
		}
	}
}

// Random requests reach every operation, and the document forbids a tenth to nine tenths of them.
func TestRandom(t *testing.T) {
	t.Parallel()
	requests, err := Random(NoSuchID)
	check.NoError(t, err)
	attacks, err := Attacks()
	check.NoError(t, err)
	missing := map[string]bool{}
	for _, a := range attacks {
		missing[a.Operation] = true
	}
	forbidden := 0
	for seed := range 1000 {
		a := requests.Example(seed)
		delete(missing, a.Operation)
		if err := Check(Exchange{Method: a.Method, Path: a.Path, Header: a.Header, Body: a.Body, Status: 399}); strings.Contains(err.Error(), "forbids") {
			forbidden++
		}
	}
	if len(missing) > 0 || forbidden < 100 || forbidden > 900 {
		t.Errorf("of 1000 requests the document forbids %d, want some of each; %v are not asked", forbidden, missing)
	}
}
