package integration_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
)

// A user can read and change only the messages of topics for which the user has a role. For messages of other topics,
// the API answers as if they did not exist (issues ServicePulse 1062, kafka-ui 3185).
func TestOperators_WhoMayWhat(t *testing.T) {
	t.Parallel()
	o := &operators{letters: newLetters(newSystem(t))}
	payments, paymentsDLQ := o.topic("payments.events.v1"), o.topic("payments.dlq.v1")
	o.kafka.create(payments, partitions)
	o.kafka.create(paymentsDLQ, partitions)
	who := people(map[string][]grant{
		"orders-viewer":     {{"viewer", o.prefix + "-orders.*"}},
		"payments-viewer":   {{"viewer", o.prefix + "-payments.*"}},
		"payments-operator": {{"operator", o.prefix + "-payments.*"}},
		"admin":             {{"admin", "*"}},
	})
	o.api = o.startReady("api", withTokens(t, who)...)
	o.ClientWithResponses = o.as(who["admin"])
	o.failing("com.acme.Timeout", "orders are late", `{}`)
	r := &kgo.Record{Topic: paymentsDLQ, Value: []byte(`{}`), Headers: []kgo.RecordHeader{
		{Key: "kafka_dlt-original-topic", Value: []byte(payments)}, {Key: "kafka_dlt-exception-fqcn", Value: []byte("com.acme.Declined")},
	}}
	o.sent = append(o.sent, r)
	o.kafka.produce(r)
	o.takenIn()
	ids := map[string]uuid.UUID{}
	for _, m := range o.search(client.SearchMessagesParams{}).Messages {
		ids[m.OriginalTopic] = m.Id
	}
	order, payment := ids[o.target], ids[payments]

	t.Run("without a valid token nothing is visible", func(t *testing.T) {
		for name, token := range map[string]string{"without a token": "", "with a wrong one": "dlqm_AAAA"} {
			res, err := o.client(client.WithToken(token)).ListTopicsWithResponse(t.Context(), nil)
			wantStatus(t, res, err, http.StatusUnauthorized)
			if res.HTTPResponse.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no WWW-Authenticate", name)
			}
		}
	})
	t.Run("a viewer of other topics sees empty lists and 404", func(t *testing.T) {
		o.wantBlind(t, o.as(who["payments-viewer"]), order, o.target)
		o.wantBlind(t, o.as(who["orders-viewer"]), payment, payments)
	})
	t.Run("a viewer retries nothing", func(t *testing.T) {
		res, err := o.as(who["orders-viewer"]).RetryMessageWithResponse(t.Context(), order, nil, client.RetryMessageJSONRequestBody{})
		wantStatus(t, res, err, http.StatusForbidden)
	})
	t.Run("an operator edits nothing without the grant, deletes nothing, sets no rules", func(t *testing.T) {
		operator := o.as(who["payments-operator"])
		edited, err := operator.RetryMessageWithResponse(t.Context(), payment, nil, client.RetryMessageJSONRequestBody{
			Edit: &client.Edit{Payload: json.RawMessage(`{"a":1}`)},
		})
		wantStatus(t, edited, err, http.StatusForbidden)
		deleted, err := operator.DeleteMessageWithResponse(t.Context(), payment, nil)
		wantStatus(t, deleted, err, http.StatusForbidden)
		rules, err := operator.ReplaceMappingsWithResponse(t.Context(), nil, client.ReplaceMappingsJSONRequestBody{Rules: []client.MappingRule{}})
		wantStatus(t, rules, err, http.StatusForbidden)
	})
	t.Run("an operator retries only messages of their topics", func(t *testing.T) {
		operator := o.as(who["payments-operator"])
		res, err := operator.RetryMessageWithResponse(t.Context(), order, nil, client.RetryMessageJSONRequestBody{})
		wantStatus(t, res, err, http.StatusNotFound)
		made, err := operator.CreateRedriveWithResponse(t.Context(), nil, client.RedriveOrder{Filter: &client.Filter{Topic: new(o.prefix + "-*")}})
		wantStatus(t, made, err, http.StatusAccepted)
		if done := o.over(made.JSON202.Id); done.Selected != 1 || done.Succeeded != 1 {
			t.Errorf("selected %d, succeeded %d, want the one payment", done.Selected, done.Succeeded)
		}
		seen, err := o.as(who["orders-viewer"]).GetRedriveWithResponse(t.Context(), made.JSON202.Id)
		wantStatus(t, seen, err, http.StatusNotFound)
		if n := o.count("status = 'PENDING'"); n != 1 {
			t.Errorf("%d PENDING, want the order", n)
		}
	})
	t.Run("the session shows the user", func(t *testing.T) {
		res, err := o.as(who["payments-operator"]).GetSessionWithResponse(t.Context())
		wantStatus(t, res, err, http.StatusOK)
		s := *res.JSON200
		if s.Name != "payments-operator" || s.Mode != "token" || len(s.Grants) != 1 || s.Grants[0].Role != "operator" || s.Grants[0].Topics[0] != o.prefix+"-payments.*" {
			t.Errorf("session %+v, want the operator of payments", s)
		}
	})
	t.Run("the audit trail names the user", func(t *testing.T) {
		res, err := o.ListChangesWithResponse(t.Context(), &client.ListChangesParams{Actor: new("payments-operator")})
		wantStatus(t, res, err, http.StatusOK)
		if len(res.JSON200.Changes) == 0 {
			t.Error("the audit trail has no entry of the operator")
		}
	})
}

// wantBlind checks that this client cannot see a message, its topic and its error group: the API must answer as if they
// did not exist.
func (o *operators) wantBlind(t *testing.T, c *client.ClientWithResponses, id uuid.UUID, topic string) {
	t.Helper()
	message, err := c.GetMessageWithResponse(t.Context(), id, nil)
	wantStatus(t, message, err, http.StatusNotFound)
	payload, err := c.GetPayloadWithResponse(t.Context(), id)
	wantStatus(t, payload, err, http.StatusNotFound)
	history, err := c.GetHistoryWithResponse(t.Context(), id, nil)
	wantStatus(t, history, err, http.StatusNotFound)
	found, err := c.SearchMessagesWithResponse(t.Context(), &client.SearchMessagesParams{Topic: &topic, Count: new(client.SearchMessagesParamsCountExact)})
	wantStatus(t, found, err, http.StatusOK)
	count, _ := json.Marshal(found.JSON200.Count)
	if len(found.JSON200.Messages) != 0 || string(count) != `{"exact":true,"messages":0}` {
		t.Errorf("a search finds %s", found.Body)
	}
	list, err := c.ListTopicWithResponse(t.Context(), topic, nil)
	wantStatus(t, list, err, http.StatusOK)
	if list.JSON200.Pagination.TotalCount != 0 {
		t.Errorf("the list has %s", list.Body)
	}
	topics, err := c.ListTopicsWithResponse(t.Context(), nil)
	wantStatus(t, topics, err, http.StatusOK)
	for _, seen := range topics.JSON200.Topics {
		if seen.Topic == topic {
			t.Errorf("topic %s is listed", topic)
		}
	}
	groups, err := c.ListGroupsWithResponse(t.Context(), nil)
	wantStatus(t, groups, err, http.StatusOK)
	for _, g := range groups.JSON200.Groups {
		for _, share := range g.Topics {
			if share.Topic == topic {
				t.Errorf("a group of topic %s is listed: %+v", topic, g)
			}
		}
	}
	all, err := o.SearchMessagesWithResponse(t.Context(), &client.SearchMessagesParams{Topic: &topic})
	wantStatus(t, all, err, http.StatusOK)
	group, err := c.GetGroupWithResponse(t.Context(), *all.JSON200.Messages[0].GroupId, nil)
	wantStatus(t, group, err, http.StatusNotFound)
}
