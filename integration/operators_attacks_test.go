package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
)

// The running API answers no request with an internal error, not even one with hostile parameters or a hostile body.
func TestOperators_AttacksOnTheRunningProgram(t *testing.T) {
	t.Parallel()
	o := newOperators(t, manyExports)
	o.failing("com.acme.Timeout", "no \u202e\x1b[31m'; DROP TABLE dlq.dlq_messages; --", `{"a":"\u202e"}`)
	o.takenIn()
	attacks, err := openapitest.Attacks()
	check.NoError(t, err)
	o.attack(attacks)
	o.api.wantRunning()
	if n := o.count("true"); n != 1 {
		t.Errorf("%d messages, want the one", n)
	}
}

// The OpenAPI document describes every answer that the API gives to random requests, some of which are valid.
func TestOperators_RandomRequestsToTheRunningProgram(t *testing.T) {
	t.Parallel()
	o := newOperators(t, manyExports)
	for n := range 20 {
		o.failing("com.acme.Timeout", fmt.Sprintf("order %d is late", n), []string{`{"a":[{"b":null}]}`, "text", "\xff", `{"card":{}}`}[n%4])
	}
	o.takenIn()
	var ids []string
	for _, m := range o.search(client.SearchMessagesParams{Limit: new(20)}).Messages {
		ids = append(ids, m.Id.String(), m.GroupId.String())
	}
	requests, err := openapitest.Random(ids...)
	check.NoError(t, err)
	seed := int(time.Now().UnixNano() & 0xffffff)
	t.Logf("random requests from seed %d", seed)
	attacks := make([]openapitest.Attack, 400)
	for n := range attacks {
		attacks[n] = requests.Example(seed + n)
	}
	o.attack(attacks)
	o.api.wantRunning()
}

// manyExports allows more concurrent exports than attack sends requests at the same time.
const manyExports = "DLQ_SERVER_MAX_EXPORTS=16"

// attack sends the requests of all attacks, several at the same time: the order does not matter.
func (o *operators) attack(attacks []openapitest.Attack) {
	o.t.Helper()
	work := make(chan openapitest.Attack)
	var failures atomic.Int64
	var workers sync.WaitGroup
	for range 6 {
		workers.Go(func() {
			for a := range work {
				if err := o.send(a); err != nil && failures.Add(1) <= 20 {
					o.t.Error(err)
				}
			}
		})
	}
	for _, a := range attacks {
		work <- a
	}
	close(work)
	workers.Wait()
}

// send sends the request of an attack, and returns an error that describes a wrong answer.
func (o *operators) send(a openapitest.Attack) error {
	req, err := http.NewRequestWithContext(o.t.Context(), a.Method, o.api.url+a.Path, bytes.NewReader(a.Body))
	if err != nil {
		return nil // no HTTP client can send this request
	}
	req.Header = a.Header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil // no HTTP client can read this answer; the test checks at its end that the API still runs
	}
	defer func() { _ = res.Body.Close() }()
	var answer bytes.Buffer
	_, _ = answer.ReadFrom(res.Body)
	return a.Judge(res.StatusCode, res.Header, answer.Bytes())
}
