package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The tests of this file cover what users request in the issue trackers of similar tools. They use
// the API through its generated client, and compare every request and answer with the API's
// document.

// "Retry all" must mean all matching messages, not only those on the page (issues hangfire 1442,
// mission_control-jobs 12 and others).
func TestOperators_RetryEverythingThatMatchesBeyondThePage(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 130 {
		o.failing([]string{"com.acme.Timeout", "com.acme.Invalid"}[n%2], fmt.Sprintf("order %d: no", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	o.takenIn()
	page := o.search(client.SearchMessagesParams{ErrorClass: new("com.acme.Timeout"), Limit: new(10), Count: new(client.SearchMessagesParamsCountExact)})
	count, _ := json.Marshal(page.Count)
	if len(page.Messages) != 10 || page.NextCursor == nil || string(count) != `{"exact":true,"messages":65}` {
		t.Fatalf("a page of %d with count %s, want 10 of 65, exact", len(page.Messages), count)
	}
	done := o.redrive(client.RedriveOrder{Filter: &client.Filter{ErrorClass: new("com.acme.Timeout")}})
	if done.Selected != 65 || done.Succeeded != 65 {
		t.Errorf("selected %d, succeeded %d, want all 65", done.Selected, done.Succeeded)
	}
	if n := o.count("status = 'RESOLVED' AND error_class = 'com.acme.Timeout'"); n != 65 {
		t.Errorf("%d RESOLVED, want 65", n)
	}
	if n := o.count("status = 'PENDING' AND error_class = 'com.acme.Invalid'"); n != 65 {
		t.Errorf("%d of the others are PENDING, want all 65", n)
	}
}

// An operator finds a message by one of its headers and retries it. Its record goes, unchanged, to the topic that its
// dead-letter header names (issues kafka-ui 1920, akhq 579).
func TestOperators_RedriveToTheTopicInTheHeader(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	o.failing("com.acme.Timeout", "no", `{"a":  1}`, kgo.RecordHeader{Key: "trace", Value: []byte("t-1")})
	o.takenIn()
	found := o.search(client.SearchMessagesParams{Header: &[]string{"trace=t-1"}})
	if len(found.Messages) != 1 || found.Messages[0].OriginalTopic != o.target {
		t.Fatalf("found %+v, want the one of %s", found.Messages, o.target)
	}
	o.retry(found.Messages[0].Id, client.RetryMessageJSONRequestBody{})
	sent := o.kafka.readAll(o.target)
	if len(sent) != 1 || string(sent[0].Value) != `{"a":  1}` || string(sent[0].Key) != "order-0" || header(sent[0], "trace") != "t-1" {
		t.Errorf("sent %d records, want the one unchanged", len(sent))
	}
}

// The retry of an error group sends only the messages that the group contained when the operator asked for it. A
// message that arrives later is not sent (issues ServiceControl 660, ServicePulse 267).
func TestOperators_AGroupRetryCoversWhatWasSeen(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 20 {
		o.failing("com.acme.Timeout", fmt.Sprintf("payment %d of customer %d timed out after %d ms", n, n*7, n*100), `{}`)
	}
	o.takenIn()
	groups, err := o.ListGroupsWithResponse(t.Context(), &client.ListGroupsParams{Open: new(true)})
	wantStatus(t, groups, err, http.StatusOK)
	if len(groups.JSON200.Groups) != 1 {
		t.Fatalf("%d groups, want one", len(groups.JSON200.Groups))
	}
	group := groups.JSON200.Groups[0]
	if group.Counts.PENDING != 20 || !group.New || *group.Class != "com.acme.Timeout" {
		t.Errorf("group %+v, want 20 PENDING, new", group)
	}
	res, err := o.CreateRedriveWithResponse(t.Context(), nil, client.RedriveOrder{
		Filter: &client.Filter{GroupId: &group.Id}, Canary: new(1), CanaryWait: new("5s"),
	})
	wantStatus(t, res, err, http.StatusAccepted)
	o.failing("com.acme.Timeout", "payment 99 of customer 98 timed out after 97 ms", `{}`)
	o.takenIn()
	done := o.over(res.JSON202.Id)
	if done.Selected != 20 || done.Succeeded != 20 {
		t.Errorf("selected %d, succeeded %d, want the 20 that were seen", done.Selected, done.Succeeded)
	}
	if n := o.with("PENDING"); n != 1 {
		t.Errorf("%d PENDING, want the one that came later", n)
	}
	if n := o.count("group_id = '" + group.Id.String() + "'"); n != 21 {
		t.Errorf("%d messages of the group, want 21", n)
	}
}

// When a message is edited twice, the second edit must not be ignored silently, as it was in issue ServiceControl 4841.
func TestOperators_ASecondEditIsNeverSilentlyIgnored(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	o.failing("com.acme.Invalid", "no", `{"amount": "12,5"}`)
	o.takenIn()
	id := o.search(client.SearchMessagesParams{}).Messages[0].Id
	edit := func(amount string) (*client.RetryMessageResponse, error) {
		return o.RetryMessageWithResponse(t.Context(), id, nil, client.RetryMessageJSONRequestBody{
			Edit: &client.Edit{Payload: json.RawMessage(`{"amount":` + amount + `}`)},
		})
	}
	first, err := edit("12.5")
	wantStatus(t, first, err, http.StatusOK)
	second, err := edit("13.5")
	wantStatus(t, second, err, http.StatusConflict)
	sent := o.kafka.readAll(o.target)
	if len(sent) != 1 || string(sent[0].Value) != `{"amount":12.5}` {
		t.Errorf("sent %d records, %s, want the first edit once", len(sent), sent[0].Value)
	}
	message, err := o.GetMessageWithResponse(t.Context(), id, nil)
	wantStatus(t, message, err, http.StatusOK)
	if !bytes.Contains(message.Body, []byte(`"payload":{"amount": "12,5"}`)) {
		t.Errorf("the stored message was altered: %s", message.Body)
	}
	history, err := o.GetHistoryWithResponse(t.Context(), id, nil)
	wantStatus(t, history, err, http.StatusOK)
	if !bytes.Contains(history.Body, []byte(`"payload_changed":true`)) || !bytes.Contains(history.Body, []byte(`12.5`)) {
		t.Errorf("the difference is not in the history: %s", history.Body)
	}
}

// "Delete all" must delete only the messages that match the filter; in issue sidekiq 3243, the filter was ignored.
func TestOperators_DeleteAllObeysTheFilter(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 40 {
		o.failing([]string{"com.acme.Timeout", "com.acme.Invalid"}[n%2], "no", fmt.Sprintf(`{"customer":{"id":%d}}`, n%4))
	}
	o.takenIn()
	done := o.redrive(client.RedriveOrder{Action: new(client.RedriveOrderActionDelete), Filter: &client.Filter{
		ErrorClass: new("com.acme.Timeout"), Payload: &[]string{"$.customer.id = 2"},
	}})
	if done.Selected != 10 || done.Succeeded != 10 {
		t.Errorf("selected %d, succeeded %d, want the 10 that match", done.Selected, done.Succeeded)
	}
	if n := o.count("true"); n != 30 {
		t.Errorf("%d messages are left, want 30", n)
	}
	if n := o.count(`payload @> '{"customer":{"id":2}}'`); n != 0 {
		t.Errorf("%d messages that match are left", n)
	}
}

// A user who may not see masked fields cannot find out their values by searching for guesses (issues provectus 4115,
// kafbat 1311).
func TestOperators_MaskedFieldsCannotBeSearched(t *testing.T) {
	t.Parallel()
	who := people(map[string][]grant{"viewer": {{"viewer", "*"}}, "unmask": {{"viewer", "*"}, {"unmask", "*"}}})
	o := newOperators(t, append(withTokens(t, who), "DLQ_MASKING_PAYLOAD=$.card.number", "DLQ_MASKING_HEADERS=authorization")...)
	o.ClientWithResponses = o.as(who["viewer"])
	o.failing("com.acme.Timeout", "no", `{"card":{"number":"4111-2222","holder":"Ada"}}`, kgo.RecordHeader{Key: "authorization", Value: []byte("secret-9")})
	o.takenIn()
	found := o.search(client.SearchMessagesParams{Q: new("holder")})
	if len(found.Messages) != 1 {
		t.Fatalf("found %d, want the one", len(found.Messages))
	}
	shown, _ := json.Marshal(found.Messages[0])
	if strings.Contains(string(shown), "4111") || strings.Contains(string(shown), "secret-9") || !strings.Contains(string(shown), "***") {
		t.Errorf("the list shows %s, want *** in place of the masked field", shown)
	}
	if hits := o.search(client.SearchMessagesParams{Q: new("4111-2222")}).Messages; len(hits) != 0 {
		t.Error("free text finds a masked value")
	}
	for name, params := range map[string]client.SearchMessagesParams{
		"the field":           {Payload: &[]string{"$.card.number = 4111-2222"}},
		"its parent object":   {Payload: &[]string{"$.card"}},
		"the header":          {Header: &[]string{"Authorization=secret-9"}},
		"the header by a key": {Header: &[]string{"authorization"}},
	} {
		res, err := o.SearchMessagesWithResponse(t.Context(), &params)
		check.NoError(t, err)
		if res.StatusCode() != http.StatusForbidden {
			t.Errorf("%s: %d %s, want 403", name, res.StatusCode(), res.Body)
		}
	}
	raw, err := o.GetPayloadWithResponse(t.Context(), found.Messages[0].Id)
	wantStatus(t, raw, err, http.StatusForbidden)
	unmasked := o.as(who["unmask"])
	message, err := unmasked.GetMessageWithResponse(t.Context(), found.Messages[0].Id, &client.GetMessageParams{Unmask: new(true)})
	wantStatus(t, message, err, http.StatusOK)
	if !bytes.Contains(message.Body, []byte("4111-2222")) {
		t.Errorf("with the grant: %s, want the number", message.Body)
	}
	if n := o.audited("unmask"); n != 1 {
		t.Errorf("%d entries of it in the audit trail, want 1", n)
	}
}

// One redrive with a patch corrects many messages, after a preview that shows the patch on a sample (dev.to, "23,000
// messages stuck after schema change").
func TestOperators_OneChangeMendsThousands(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 60 {
		value := fmt.Sprintf(`{"id":%d,"ammount":%d}`, 9007199254740993+n, n)
		if n%10 == 9 {
			value = `not JSON`
		}
		o.failing("com.acme.Schema", "unknown field ammount", value)
	}
	o.takenIn()
	order := client.RedriveOrder{
		Filter: &client.Filter{ErrorClass: new("com.acme.Schema")}, DryRun: new(true),
		Patch: &[]client.PatchOperation{{Op: "move", From: new("/ammount"), Path: "/amount"}},
	}
	preview, err := o.CreateRedriveWithResponse(t.Context(), nil, order)
	wantStatus(t, preview, err, http.StatusOK)
	if len(preview.JSON200.Samples) == 0 {
		t.Fatalf("dry run: %s, want samples", preview.Body)
	}
	order.DryRun = nil
	done := o.redrive(order)
	if done.Succeeded != 54 || done.Skipped != 6 || done.Reasons["patch_failed"] != 6 {
		t.Errorf("succeeded %d, skipped %d, reasons %v, want 54, 6 of patch_failed", done.Succeeded, done.Skipped, done.Reasons)
	}
	sent := o.kafka.readAll(o.target)
	for _, r := range sent {
		var n int
		_, err := fmt.Sscanf(string(r.Value[bytes.LastIndexByte(r.Value, ':')+1:]), "%d}", &n)
		if want := fmt.Sprintf(`{"id":%d,"amount":%d}`, 9007199254740993+n, n); err != nil || string(r.Value) != want {
			t.Fatalf("sent %s, want %s, and every digit of the id", r.Value, want)
		}
	}
	if len(sent) != 54 || o.count("payload ? 'ammount'") != 54 {
		t.Errorf("sent %d, %d stored unchanged, want 54 and 54", len(sent), o.count("payload ? 'ammount'"))
	}
}

// An archived message is found by its words. When it is restored from the archive, the message can be retried.
func TestOperators_WhatIsArchivedCanBeFoundAndRestored(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	o.failing("com.acme.Timeout", "archived failure", `{"n":1}`)
	o.takenIn()
	id := o.search(client.SearchMessagesParams{}).Messages[0].Id
	o.retry(id, client.RetryMessageJSONRequestBody{})
	if _, err := o.db.Exec(`UPDATE dlq.dlq_messages SET updated_at = updated_at - interval '60 days'`); err != nil {
		t.Fatal(err)
	}
	o.must("archiver")
	if n := o.count("true"); n != 0 {
		t.Fatalf("%d messages in the live table, want none", n)
	}
	found, err := o.SearchArchiveWithResponse(t.Context(), &client.SearchArchiveParams{Q: new("archived failure")})
	wantStatus(t, found, err, http.StatusOK)
	if len(found.JSON200.Messages) != 1 || found.JSON200.Messages[0].Id != id {
		t.Fatalf("the archive has %s, want the message", found.Body)
	}
	back, err := o.RestoreMessageWithResponse(t.Context(), id, nil, client.RestoreMessageJSONRequestBody{})
	wantStatus(t, back, err, http.StatusOK)
	o.retry(id, client.RetryMessageJSONRequestBody{})
	if sent := o.kafka.readAll(o.target); len(sent) != 2 || string(sent[1].Value) != `{"n":1}` {
		t.Errorf("%d records sent, want 2", len(sent))
	}
}

// Dead letters whose original topic follows neither from a header nor from the name of their topic wait. An operator
// sets the topic of one of them, and one rule in the mapping sets it for all others.
func TestOperators_UnknownOriginsAreListedAndMapped(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 5 {
		r := &kgo.Record{Topic: o.source, Value: fmt.Appendf(nil, `{"n":%d}`, n)}
		o.sent = append(o.sent, r)
		o.kafka.produce(r)
	}
	// With these topics, the name of the dead-letter topic fits two original topics, so it decides nothing.
	o.kafka.create(o.topic("orders.v1"), 1)
	o.kafka.create(o.topic("orders"), 1)
	o.takenIn()
	unknown := o.search(client.SearchMessagesParams{Origin: new(client.SearchMessagesParamsOriginUnknown)})
	if len(unknown.Messages) != 5 {
		t.Fatalf("%d of unknown origin, want 5", len(unknown.Messages))
	}
	one, err := o.SetOriginWithResponse(t.Context(), unknown.Messages[0].Id, nil, client.SetOriginJSONRequestBody{OriginalTopic: o.target})
	wantStatus(t, one, err, http.StatusOK)
	all, err := o.ReplaceMappingsWithResponse(t.Context(), nil, client.ReplaceMappingsJSONRequestBody{
		Version: 0, Rules: []client.MappingRule{{Pattern: o.prefix + "-*.dlq.v1", Original: o.prefix + "-$1.events.v1"}}, Apply: new(true),
	})
	wantStatus(t, all, err, http.StatusOK)
	if all.JSON200.Redrives == nil || len(*all.JSON200.Redrives) != 1 {
		t.Fatalf("mappings: %s, want one redrive", all.Body)
	}
	stale, err := o.ReplaceMappingsWithResponse(t.Context(), nil, client.ReplaceMappingsJSONRequestBody{Version: 0, Rules: []client.MappingRule{}})
	wantStatus(t, stale, err, http.StatusConflict)
	now, err := o.GetMappingsWithResponse(t.Context())
	wantStatus(t, now, err, http.StatusOK)
	if m := now.JSON200; len(m.Rules) != 1 || m.Version != all.JSON200.Version || m.Version == 0 {
		t.Errorf("after a change that was refused: %s, want the rule", now.Body)
	}
	if done := o.over((*all.JSON200.Redrives)[0]); done.Succeeded != 4 {
		t.Errorf("mapped %d, want the other 4", done.Succeeded)
	}
	if done := o.redrive(client.RedriveOrder{Filter: &client.Filter{Topic: &o.target}}); done.Succeeded != 5 {
		t.Errorf("sent %d, want all 5", done.Succeeded)
	}
}
