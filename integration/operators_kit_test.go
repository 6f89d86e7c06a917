package integration_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
)

// operators is a system under test with an API, and a generated client that sends requests to this API.
type operators struct {
	*letters
	api *process
	*client.ClientWithResponses
}

func newOperators(t *testing.T, environ ...string) *operators {
	t.Helper()
	return newOperatorsOn(newSystem(t), environ...)
}

// newOperatorsOn starts an API for the given system, and returns it with a client.
func newOperatorsOn(s *system, environ ...string) *operators {
	s.t.Helper()
	o := &operators{letters: newLetters(s)}
	o.api = o.startReady("api", environ...)
	o.ClientWithResponses = o.client()
	return o
}

// client returns a client of the running API, which compares each answer with the API's document.
func (o *operators) client(options ...client.ClientOption) *client.ClientWithResponses {
	o.t.Helper()
	checked := &http.Client{Transport: openapitest.Transport{
		Base: http.DefaultTransport, Complain: func(err error) { o.t.Errorf("the OpenAPI document and the program differ: %v", err) },
	}}
	c, err := client.NewClientWithResponses(o.api.url, append([]client.ClientOption{client.WithHTTPClient(checked)}, options...)...)
	check.NoError(o.t, err)
	return c
}

// as returns a client of the API that sends the token of the given person.
func (o *operators) as(who person) *client.ClientWithResponses {
	o.t.Helper()
	return o.client(client.WithToken(who.token))
}

// failing produces a dead letter with an error and a value.
func (o *operators) failing(class, message, value string, more ...kgo.RecordHeader) {
	n := len(o.sent)
	r := &kgo.Record{
		Topic: o.source, Partition: int32(n % partitions), Key: fmt.Appendf(nil, "order-%d", n), Value: []byte(value),
		Headers: append([]kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(o.target)},
			{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(n%partitions))},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte(class)},
			{Key: "kafka_dlt-exception-message", Value: []byte(message)},
		}, more...),
	}
	o.sent = append(o.sent, r)
	o.kafka.produce(r)
}

// takenIn runs an ingester until it has stored all records, and has given up reading the records to which pointers
// point or has read them, and has filled the column payload of all messages. Then takenIn waits until the search index
// includes all messages.
func (o *operators) takenIn() {
	o.t.Helper()
	p := o.startReady("ingester")
	o.waitStored()
	eventually(o.t, "no record of a pointer is still being read", func() bool {
		return o.count(`EXISTS (SELECT FROM dlq.share_records s WHERE s.message_id = dlq_messages.id AND s.state = 'waiting')`) == 0
	})
	eventually(o.t, "every payload is filled", func() bool { return o.count(`payload_note = 'pending'`) == 0 })
	p.stop()
	o.indexed()
}

func (o *operators) indexed() {
	o.t.Helper()
	eventually(o.t, "everything is indexed", func() bool {
		return o.count(`NOT EXISTS (SELECT FROM dlq.message_documents d WHERE d.message_id = dlq_messages.id)`) == 0
	})
}

func (o *operators) search(params client.SearchMessagesParams) client.Found {
	o.t.Helper()
	res, err := o.SearchMessagesWithResponse(o.t.Context(), &params)
	wantStatus(o.t, res, err, http.StatusOK)
	return *res.JSON200
}

// response is an answer of the generated client.
type response interface {
	StatusCode() int
	GetBody() []byte
}

// wantStatus ends the test unless the answer has this status.
func wantStatus(t *testing.T, res response, err error, status int) {
	t.Helper()
	check.Require(t, err == nil, "no answer of the OpenAPI document: %v", err)
	if res.StatusCode() != status {
		t.Fatalf("answer %d %.500s, want %d", res.StatusCode(), res.GetBody(), status)
	}
}

// only returns the one message that the API lists. The test fails if the API lists more messages or none.
func (o *operators) only() client.Message {
	o.t.Helper()
	found := o.search(client.SearchMessagesParams{}).Messages
	if len(found) != 1 {
		o.t.Fatalf("%d messages, want 1", len(found))
	}
	return found[0]
}

// retry retries the message with this id; the test ends unless the retry succeeds.
func (o *operators) retry(id uuid.UUID, order client.RetryMessageJSONRequestBody) client.RetryResult {
	o.t.Helper()
	res, err := o.RetryMessageWithResponse(o.t.Context(), id, nil, order)
	wantStatus(o.t, res, err, http.StatusOK)
	return *res.JSON200
}

// redrive creates a redrive and waits for its end.
func (o *operators) redrive(order client.RedriveOrder) client.Redrive {
	o.t.Helper()
	res, err := o.CreateRedriveWithResponse(o.t.Context(), nil, order)
	wantStatus(o.t, res, err, http.StatusAccepted)
	return o.over(res.JSON202.Id)
}

func (o *operators) over(id uuid.UUID) client.Redrive {
	o.t.Helper()
	var last client.Redrive
	eventually(o.t, "the redrive is over", func() bool {
		res, err := o.GetRedriveWithResponse(o.t.Context(), id)
		if err != nil || res.JSON200 == nil {
			return false
		}
		last = *res.JSON200
		return last.State == "finished" && last.UnderWay == 0
	})
	return last
}

func (o *operators) audited(action string) (n int) {
	o.t.Helper()
	check.NoError(o.t, o.db.Get(&n, `SELECT count(*) FROM dlq.audit WHERE action = $1`, action))
	return n
}
