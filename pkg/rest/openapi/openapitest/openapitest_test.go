package openapitest

import (
	"net/http"
	"strings"
	"testing"
)

var asJSON = http.Header{"Content-Type": {"application/json"}}

const refusal = `{"error":{"code":"SYS_DLQ_VALIDATION_ERROR","message":"m","request_id":"r","details":[]}}`

// What is wrong is seen, and what is right is not complained of.
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
		"a route that nobody knows": {
			Exchange{Method: "GET", Path: "/api/v1/other", Status: 404, AnswerHeader: asJSON, Answer: []byte(refusal)}, "",
		},
		"a route that nobody described": {
			Exchange{Method: "GET", Path: "/api/v1/other", Status: 200, AnswerHeader: asJSON, Answer: []byte(`{}`)}, "not in the document",
		},
	} {
		err := Check(c.exchange)
		if got := err != nil; got != (c.want != "") || got && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a complaint with %q", name, err, c.want)
		}
	}
}

// Every operation is attacked, at each parameter and each field.
func TestAttacks(t *testing.T) {
	t.Parallel()
	attacks, err := Attacks()
	if err != nil {
		t.Fatal(err)
	}
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
