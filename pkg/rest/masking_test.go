package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// What the messages of these tests must not show: the one stands in the payload,
// the other in a header, the third in a header that the stack trace is read from.
const (
	secretCard  = "4111111111111111"
	secretToken = "Bearer s3cr3t-t0ken"
	secretStack = "at com.acme.Secret.java"
)

func secretMessage() entity.Message {
	return message(idA, withValue(`{"order": 1, "card": {"number": "`+secretCard+`"}, "note":"fine"}`), func(m *entity.Message) {
		m.Record.Headers = []entity.Header{
			{Key: "Authorization", Value: []byte(secretToken)}, {Key: "trace", Value: []byte(secretStack)}, {Key: "tenant", Value: []byte("acme")},
		}
	})
}

// maskedFixture has a message with secrets, and somebody of each kind: ana sees
// masks, eve sees behind them on another topic, root everywhere.
func maskedFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(secretMessage())
	masks := maskOf("$.card.number", "authorization", "trace")
	f.options = []Option{WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}), withStackTrace(func(m entity.Message) string {
		for _, h := range m.Record.Headers {
			if h.Key == "trace" {
				return string(h.Value)
			}
		}
		return ""
	})}
	f.redriver = editing{acknowledging{f.memory}, f.memory}
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask),
		auth.Principal{Name: "eve", Grants: append(person("", "*", auth.Admin).Grants, person("", "payments.*", auth.Unmask).Grants...)})
	f.catalogue(t, masks)
	return f
}

// derivedByHeader knows a header for each field: trace for stack traces, said for error
// messages, class for classes, group for consumer groups.
type derivedByHeader struct{ masks Masks }

func (d derivedByHeader) Fields() entity.MaskedFields {
	failure := d.masks.Header("said") || d.masks.Header("class")
	return entity.MaskedFields{ErrorMessage: failure, ErrorClass: failure, ConsumerGroup: d.masks.Header("group")}
}

func (d derivedByHeader) Of(m *entity.Message) (fields entity.MaskedFields) {
	for _, h := range m.Record.Headers {
		masked := d.masks.Header(h.Key)
		fields.StackTrace = fields.StackTrace || masked && h.Key == "trace"
		fields.ErrorMessage = fields.ErrorMessage || masked && h.Key == "said"
		fields.ErrorClass = fields.ErrorClass || masked && h.Key == "class"
		fields.ConsumerGroup = fields.ConsumerGroup || masked && h.Key == "group"
	}
	return fields
}

// What was read from a masked header is masked too, and cannot be asked for by those
// who may not see it, in searches, exports and redrives.
func TestMasks_FollowWhatWasReadFromHeaders(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	m := message(idA, func(m *entity.Message) {
		m.ErrorMessage, m.Failure.Class, m.Failure.ConsumerGroup = "no credit for "+secret, "com.acme."+secret, secret+"-group"
		m.Consumption = &entity.Consumption{Group: secret + "-group", Offset: 3}
		m.Group = entity.Fingerprint{Title: secret, Class: secret, Frames: []string{secret}}.ID()
		for _, key := range []string{"said", "class", "group"} {
			m.Record.Headers = append(m.Record.Headers, entity.Header{Key: key, Value: []byte(secret)})
		}
	})
	f := newFixture(m)
	masks := maskOf("said", "class", "group")
	f.options = []Option{WithMasks(masks), WithDerivedMasks(derivedByHeader{masks})}
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask))
	if err := f.memory.NoteFingerprints(t.Context(), []entity.Fingerprint{{Title: secret, Class: secret, Frames: []string{secret}}}); err != nil {
		t.Fatal(err)
	}
	group := "/api/v1/groups/" + m.Group.String()
	for target, masked := range map[string]bool{
		"/api/v1/dlq/messages/" + idA.String(): true, "/api/v1/messages": true, "/api/v1/export": true, "/api/v1/export?format=csv": true,
		"/api/v1/dlq/orders.dlq.v1": false, "/api/v1/groups": true, group: true,
	} {
		if body := f.by("ana", "GET", target, "").Body.String(); strings.Contains(body, secret) || !strings.Contains(body, maskedText) {
			t.Errorf("GET %s = %s, want it masked", target, body)
		}
		unmasking := target + "?unmask=true"
		if strings.Contains(target, "?") {
			unmasking = target + "&unmask=true"
		}
		if !masked {
			continue // the first API's list shows masks to everybody
		}
		wantEnvelope(t, f.by("ana", "GET", unmasking, ""), 403, codeForbidden)
		before := len(unmasked(t, f))
		if body := f.by("root", "GET", unmasking, "").Body.String(); !strings.Contains(body, secret) || len(unmasked(t, f)) != before+1 {
			t.Errorf("GET %s = %s, want what is masked, and a line of the trail", unmasking, body)
		}
	}
	if body := f.by("ana", "GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String(); !strings.Contains(body,
		`"masked":["header:said","header:class","header:group","error_message","error_class","consumer_group"]`) {
		t.Errorf("got %s, want the names of what is masked", body)
	}
	for _, filter := range []string{"error_class", "consumer_group"} {
		e := wantEnvelope(t, f.by("ana", "GET", "/api/v1/messages?"+filter+"="+secret, ""), 403, codeForbidden)
		if firstField(e.Details) != filter {
			t.Errorf("search by %s: details %+v, want it named", filter, e.Details)
		}
		wantEnvelope(t, f.by("ana", "GET", "/api/v1/export?"+filter+"="+secret, ""), 403, codeForbidden)
		order := `{"filter":{"` + filter + `":"` + secret + `"},"dry_run":true}`
		wantEnvelope(t, f.by("ana", "POST", redrives, order), 403, codeForbidden)
		if w := f.by("root", "POST", redrives, strings.Replace(order, "true", "false", 1)); w.Code != 202 || strings.Contains(w.Body.String(), secret) {
			t.Errorf("redrive by %s = %d %s, want it made and the filter masked", filter, w.Code, w.Body)
		}
	}
}

// editing is a redriver that stores edits, as the real one does.
type editing struct {
	acknowledging
	store interface {
		repository.Attempts
	}
}

func (e editing) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	m, err := e.acknowledging.store.Get(ctx, order.ID, -1)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if err := m.CanClaim(); err != nil {
		return entity.RetryResult{}, err
	}
	topic := m.OriginalTopic
	if order.Edit != nil && order.Edit.Topic != "" {
		topic = order.Edit.Topic
	}
	claim := repository.Claim{MessageID: m.ID, ID: orNew(order.Cause.Operation), Topic: topic, Partition: 3, Edit: order.Edit}
	taken, err := e.store.Claim(ctx, []repository.Claim{claim}, repository.Claiming{Expiry: keyLease, Wait: true, Cause: order.Cause, Audit: true})
	if err != nil || len(taken) == 0 {
		return entity.RetryResult{}, errors.Join(err, &entity.ClaimedError{ID: m.ID})
	}
	result := repository.Result{MessageID: m.ID, ClaimID: claim.ID, Verdict: entity.Acknowledged, Partition: 3, Offset: 7}
	if _, err := e.store.Finish(ctx, []repository.Result{result}, order.Cause); err != nil {
		return entity.RetryResult{}, err
	}
	return entity.RetryResult{ID: m.ID, Status: entity.Resolved, Published: true, Topic: topic, Partition: 3, Offset: 7}, nil
}

// everywhere are the routes that show a message or a part of one.
func everywhere() []string {
	id := idA.String()
	return []string{
		"/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/messages/" + id, "/api/v1/messages", "/api/v1/messages?q=fine",
		"/api/v1/export", "/api/v1/export?format=csv", "/api/v1/dlq/messages/" + id + "/history", "/api/v1/dlq/messages/" + id + "/payload",
	}
}

// Masks hold in every place that shows a message.
func TestMasks_HoldEverywhere(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	edit := `{"edit":{"payload":{"order":2,"card":{"number":"` + secretCard + `"}},"headers":[{"key":"Authorization","value":"` + secretToken + `"},{"key":"tenant","value":"acme"}]}}`
	if w := f.by("root", "POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", edit); w.Code != 200 {
		t.Fatalf("retry = %d %s", w.Code, w.Body)
	}
	for _, who := range []string{"ana", "eve"} {
		for _, target := range everywhere() {
			w := f.by(who, "GET", target, "")
			for _, secret := range []string{secretCard, secretToken, secretStack} {
				if strings.Contains(w.Body.String(), secret) {
					t.Errorf("%s: GET %s shows %s: %s", who, target, secret, w.Body)
				}
			}
			if strings.HasSuffix(target, "/payload") {
				wantEnvelope(t, w, 403, codeForbidden)
			} else if w.Code != 200 || !strings.Contains(w.Body.String(), "acme") {
				t.Errorf("%s: GET %s = %d %s, want what is not masked", who, target, w.Code, w.Body)
			}
		}
	}
}

// What is masked is said, and everything else is the producer's own text.
func TestMasks_TouchNothingElse(t *testing.T) {
	t.Parallel()
	body := maskedFixture(t).by("ana", "GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String()
	for _, want := range []string{
		`"payload":{"order": 1, "card": {"number": "***"}, "note":"fine"}`, `{"key":"Authorization","value":{"encoding":"utf8","data":"***"}}`,
		`"stack_trace":"***"`, `"masked":["$.card.number","header:Authorization","header:trace","stack_trace"]`, `"data":"acme"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want %s in it", body, want)
		}
	}
}

// Seeing through masks needs the grant on the message's topic, and is known for
// ever.
func TestUnmask(t *testing.T) {
	t.Parallel()
	for _, target := range everywhere() {
		f := maskedFixture(t)
		separator := "?"
		if strings.Contains(target, "?") {
			separator = "&"
		}
		unmasking := target + separator + "unmask=true"
		if strings.HasPrefix(target, "/api/v1/dlq/orders") {
			continue // the first API's list shows masks to everybody
		}
		wantEnvelope(t, f.by("ana", "GET", unmasking, ""), 403, codeForbidden)
		if n := len(unmasked(t, f)); n != 0 {
			t.Errorf("GET %s by somebody who may not: %d entries in the trail, want none", unmasking, n)
		}
		w := f.by("root", "GET", unmasking, "")
		if w.Code != 200 {
			t.Errorf("GET %s = %d %s", unmasking, w.Code, w.Body)
		}
		if !strings.HasSuffix(target, "/history") && !strings.Contains(w.Body.String(), secretCard) {
			t.Errorf("GET %s = %s, want the card in it", unmasking, w.Body)
		}
		entries := unmasked(t, f)
		if len(entries) != 1 || entries[0].Cause.Actor != "root" || entries[0].Cause.RequestID != testID {
			t.Fatalf("GET %s: trail %+v, want one entry by root", unmasking, entries)
		}
		if e := entries[0]; strings.Contains(target, "/dlq/messages/") {
			if e.Kind != entity.KindMessage || e.ObjectID != idA {
				t.Errorf("GET %s: entry %+v, want it about the message", unmasking, e)
			}
		} else if e.Kind != entity.KindList || !strings.HasPrefix(e.LastError, "GET "+strings.SplitN(target, "?", 2)[0]) {
			t.Errorf("GET %s: entry %+v, want it about the list", unmasking, e)
		}
	}
}

func unmasked(t *testing.T, f *fixture) []entity.AuditEntry {
	t.Helper()
	entries, err := f.memory.Trail(t.Context(), repository.TrailQuery{Action: entity.ActionUnmask, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// Somebody who may see behind the masks of some topics sees those of the others.
func TestUnmask_TopicByTopic(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	w := f.by("eve", "GET", "/api/v1/messages?unmask=true", "")
	if w.Code != 200 || strings.Contains(w.Body.String(), secretCard) {
		t.Errorf("GET messages by eve = %d %s, want masks on a topic that is not hers", w.Code, w.Body)
	}
	wantEnvelope(t, f.by("eve", "GET", "/api/v1/dlq/messages/"+idA.String()+"?unmask=true", ""), 403, codeForbidden)
}

// Grants on the same topic count together, however their patterns were written.
func TestSearchOfMaskedFields_ByGrantsWrittenDifferently(t *testing.T) {
	t.Parallel()
	for topics, want := range map[string]bool{"orders.events.v1": true, "*.v1": true, "orders.other.*": false} {
		f := maskedFixture(t)
		p := person("mia", "orders.*", auth.Viewer)
		p.Grants = append(p.Grants, person("", topics, auth.Unmask).Grants...)
		WithAuth(people{p.Name: p}, auth.ModeToken)(f.server)
		q := "/api/v1/messages?" + url.Values{"payload": {`$.card.number="` + secretCard + `"`}}.Encode()
		if got := len(ids(t, f.by("mia", "GET", q, ""), "messages")) == 1; got != want {
			t.Errorf("unmask on %s: found %t, want %t", topics, got, want)
		}
	}
}

// unrecorded is a store whose audit trail takes nothing.
type unrecorded struct{ Store }

func (unrecorded) Record(context.Context, entity.AuditEntry) error { return entity.ErrUnavailable }

// What cannot be noted is not shown.
func TestUnmask_NothingIsShownThatIsNotNoted(t *testing.T) {
	t.Parallel()
	f := newFixture(secretMessage())
	f.store, f.options = unrecorded{f.memory}, []Option{WithMasks(maskOf("$.card.number"))}
	f.open()
	for _, target := range []string{
		"/api/v1/messages?unmask=true", "/api/v1/export?unmask=true", "/api/v1/dlq/messages/" + idA.String() + "?unmask=true",
		"/api/v1/dlq/messages/" + idA.String() + "/payload",
	} {
		if w := f.do("GET", target, ""); w.Code != 503 || strings.Contains(w.Body.String(), secretCard) {
			t.Errorf("GET %s = %d %s, want 503 and no card", target, w.Code, w.Body)
		}
	}
}

// The trail does not keep what a masked field was searched for.
func TestUnmask_TrailHasNoSecrets(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	q := "payload=" + url.QueryEscape("$.card.number="+secretCard) + "&header=" + url.QueryEscape("Authorization="+secretToken) + "&topic=orders.dlq.v1"
	if w := f.by("root", "GET", "/api/v1/messages?unmask=true&"+q, ""); w.Code != 200 || !strings.Contains(w.Body.String(), secretCard) {
		t.Fatalf("search = %d %s", w.Code, w.Body)
	}
	entries := unmasked(t, f)
	if len(entries) != 1 || strings.Contains(entries[0].LastError, secretCard) || strings.Contains(entries[0].LastError, "s3cr3t") ||
		!strings.Contains(entries[0].LastError, "topic=orders.dlq.v1") {
		t.Errorf("trail %+v, want the question without the secrets", entries)
	}
}

// Masks brought back by an edit would reach the consumer.
func TestEdit_MasksAreNotSentBack(t *testing.T) {
	t.Parallel()
	for body, field := range map[string]string{
		`{"payload":{"order":1,"card":{"number":"***"},"note":"fixed"}}`:                   "edit.payload",
		`{"headers":[{"key":"tenant","value":"a"},{"key":"AUTHORIZATION","value":"***"}]}`: "edit.headers[1].value",
	} {
		f := maskedFixture(t)
		e := wantEnvelope(t, f.by("ana", "POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", `{"edit":`+body+`}`), 400, codeValidation)
		if firstField(e.Details) != field {
			t.Errorf("edit %s: details %+v, want %s", body, e.Details, field)
		}
	}
	f := maskedFixture(t)
	if w := f.by("ana", "POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", `{"edit":{"payload":{"card":{"number":"1"},"note":"***"}}}`); w.Code != 200 {
		t.Errorf("three stars where nothing is masked = %d %s, want 200", w.Code, w.Body)
	}
}

// Somebody who does not see behind the masks may edit, and is shown what changed
// but for what is masked.
func TestEdit_DifferenceIsMasked(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	w := f.by("ana", "POST", "/api/v1/dlq/messages/"+idA.String()+"/retry",
		`{"edit":{"payload":{"order":2,"card":{"number":"5500000000000004"},"note":"fine"}}}`)
	if w.Code != 200 {
		t.Fatalf("edit = %d %s", w.Code, w.Body)
	}
	history := "/api/v1/dlq/messages/" + idA.String() + "/history"
	body := f.by("ana", "GET", history, "").Body.String()
	if strings.Contains(body, secretCard) || strings.Contains(body, "5500000000000004") || !strings.Contains(body, `"path":"/order","value":2`) {
		t.Errorf("history for ana = %s, want the order and no card", body)
	}
	if body := f.by("root", "GET", history+"?unmask=true", "").Body.String(); !strings.Contains(body, "5500000000000004") {
		t.Errorf("history for root = %s, want the card", body)
	}
}

// A dry run shows samples with masks, and a patch that touches what is masked
// needs the grant to see it.
func TestPatch_SamplesAreMasked(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	f.server.redriver = previewing{preview: entity.Preview{Samples: []entity.PatchSample{
		{MessageID: idA, Before: []byte(`{"order": 1, "card": {"number": "` + secretCard + `"}}`), After: []byte(`{"order":2,"card":{"number":"` + secretCard + `"}}`)},
		{MessageID: idB, Before: []byte(`{"card":{"number":"` + secretCard + `"}}`), Reason: "no such path"},
	}}}
	order := `{"filter":{"topic":"orders.dlq.v1"},"dry_run":true,"patch":[{"op":"replace","path":"/order","value":2}]}`
	w := f.by("ana", "POST", redrives, order)
	if w.Code != 200 || strings.Contains(w.Body.String(), secretCard) {
		t.Fatalf("dry run = %d %s", w.Code, w.Body)
	}
	var got previewJSON
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Samples) != 2 ||
		string(got.Samples[0].After) != `{"order":2,"card":{"number":"***"}}` || string(got.Samples[1].After) != "null" || *got.Samples[1].Reason != "no such path" {
		t.Errorf("samples %s, %v", w.Body, err)
	}
	e := wantEnvelope(t, f.by("ana", "POST", redrives, strings.Replace(order, "/order", "/card/number", 1)), 403, codeForbidden)
	if firstField(e.Details) != "patch" {
		t.Errorf("details %+v, want the field patch", e.Details)
	}
}

// A read that had no room begins again, and is one entry of the audit trail.
func TestUnmaskedReadIsRecordedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(secretMessage())
	store := &roomlessStore{Store: f.memory}
	f.store, f.options = store, []Option{WithMasks(maskOf("$.card.number"))}
	f.guarded(person("root", "*", auth.Admin, auth.Unmask))
	target := "/api/v1/dlq/messages/" + idA.String() + "/history?unmask=true"
	if w := f.by("root", "GET", target, ""); w.Code != 200 || store.asked != 2 {
		t.Fatalf("got %d after %d reads, want 200 after 2", w.Code, store.asked)
	}
	if w := f.by("root", "GET", target, ""); w.Code != 200 {
		t.Fatalf("got %d, want 200", w.Code)
	}
	trail, err := f.memory.Trail(t.Context(), repository.TrailQuery{Action: entity.ActionUnmask, Limit: 10})
	if err != nil || len(trail) != 2 {
		t.Errorf("the audit trail has %d entries, %v, want one for each request", len(trail), err)
	}
}

// roomlessStore has no room for the first history that is read.
type roomlessStore struct {
	*fake.Store
	asked int
}

func (s *roomlessStore) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	if s.asked++; s.asked == 1 {
		accountOf(ctx).wanted = 2 * pageRoom
		return nil, errNoRoom
	}
	return s.Store.History(ctx, id)
}
