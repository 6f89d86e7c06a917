package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
)

// An attacker with write access to gamma's dead-letter topic writes a record whose headers name beta's topic as the
// original topic. Neither beta's operators nor automatic retry send this record to beta's topic, while beta's own dead
// letters are still published.
func TestOperators_AForgedOriginIsNotPublished(t *testing.T) {
	t.Parallel()
	o := &operators{letters: newLetters(newSystem(t))}
	gammaDLQ, beta, betaDLQ := o.topic("gamma.dlq.v1"), o.topic("beta.events.v1"), o.topic("beta.dlq.v1")
	for _, topic := range []string{gammaDLQ, beta, betaDLQ} {
		o.kafka.create(topic, 1)
	}
	who := people(map[string][]grant{
		"beta": {{"operator", o.prefix + "-beta.*"}}, "gamma": {{"operator", o.prefix + "-gamma.*"}}, "admin": {{"admin", "*"}},
	})
	o.api = o.startReady("api", append(withTokens(t, who),
		fmt.Sprintf(`DLQ_KAFKA_ORIGINS=[{dlq: "%s-*.dlq.v1", originals: ["%s-$1.*"]}]`, o.prefix, o.prefix),
		"DLQ_REDRIVE_AUTO_TOPICS="+beta)...)
	o.ClientWithResponses = o.as(who["admin"])
	letter := func(dlq string) {
		r := &kgo.Record{Topic: dlq, Value: []byte(`{"from":"` + dlq + `"}`), Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(beta)}, {Key: "kafka_dlt-exception-fqcn", Value: []byte("com.acme.Declined")},
		}}
		o.sent = append(o.sent, r)
		o.kafka.produce(r)
	}
	letter(gammaDLQ)
	letter(betaDLQ)
	o.takenIn()
	eventually(t, "automatic retry has sent beta's own message", func() bool { return o.count("status = 'RESOLVED'") == 1 })

	forged := o.search(client.SearchMessagesParams{Topic: &gammaDLQ}).Messages[0]
	if !forged.Undeclared || forged.UndeclaredReason == nil || forged.Status != "PENDING" || forged.OriginalTopic != beta {
		t.Errorf("the forged message is %+v, want it PENDING and undeclared", forged)
	}
	beta2, gamma := o.as(who["beta"]), o.as(who["gamma"])
	for name, order := range map[string]client.RedriveOrder{
		"by filter": {Filter: &client.Filter{Topic: &beta}}, "by ids": {Ids: &[]uuid.UUID{forged.Id}},
		"by group": {Filter: &client.Filter{GroupId: forged.GroupId}},
	} {
		order.DryRun = new(true)
		dry, err := beta2.CreateRedriveWithResponse(t.Context(), nil, order)
		wantStatus(t, dry, err, http.StatusOK)
		if p := dry.JSON200; p.Sendable != 0 || p.Reasons["UNDECLARED"] != 1 {
			t.Errorf("a dry run %s: %s, want 1 undeclared", name, dry.Body)
		}
		order.DryRun = nil
		made, err := beta2.CreateRedriveWithResponse(t.Context(), nil, order)
		wantStatus(t, made, err, http.StatusAccepted)
		if done := o.over(made.JSON202.Id); done.Succeeded != 0 || done.Reasons["UNDECLARED"] != 1 {
			t.Errorf("a redrive %s sent %d, reasons %v, want 1 undeclared", name, done.Succeeded, done.Reasons)
		}
	}
	for _, topic := range []string{beta, gammaDLQ} {
		all, err := beta2.RetryTopicWithResponse(t.Context(), topic, nil, client.RetryTopicJSONRequestBody{})
		wantStatus(t, all, err, http.StatusOK)
		if all.JSON200.Retried != 0 {
			t.Errorf("retry-all of %s retried %d, want none", topic, all.JSON200.Retried)
		}
	}
	lone, err := beta2.RetryMessageWithResponse(t.Context(), forged.Id, nil, client.RetryMessageJSONRequestBody{})
	wantStatus(t, lone, err, http.StatusForbidden)
	blind, err := gamma.RetryMessageWithResponse(t.Context(), forged.Id, nil, client.RetryMessageJSONRequestBody{})
	wantStatus(t, blind, err, http.StatusNotFound)
	if sent := o.kafka.readAll(beta); len(sent) != 1 || string(sent[0].Value) != `{"from":"`+betaDLQ+`"}` {
		t.Errorf("beta's topic has %d records, want only its own record", len(sent))
	}

	declared, err := o.SetOriginWithResponse(t.Context(), forged.Id, nil, client.SetOriginJSONRequestBody{OriginalTopic: beta})
	wantStatus(t, declared, err, http.StatusOK)
	eventually(t, "automatic retry has sent what an operator declared", func() bool { return o.count("status = 'RESOLVED'") == 2 })
}
