package rest

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Secrets that the messages of these tests must not show: one in the payload, one in a header, and one in the header
// from which the stack trace is read.
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

// maskedFixture has a message with secrets and three persons: ana does not have the grant unmask, eve has it on another
// topic, and root on all topics.
func maskedFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(secretMessage())
	masks := maskOf("$.card.number", "authorization", "trace")
	f.with(WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}), WithDialects(stackTraces{of: func(m entity.Message) string {
		for _, h := range m.Record.Headers {
			if h.Key == "trace" {
				return string(h.Value)
			}
		}
		return ""
	}}))
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask),
		grants("eve", person("", "*", auth.Admin), person("", "payments.*", auth.Unmask)))
	f.index(masks)
	return f
}

// derivedByHeader reports which fields are masked, when each field comes from one header: the stack trace from the
// header "trace", the error message from "said", the class from "class", the consumer group from "group".
type derivedByHeader struct{ masks *payload.Masks }

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

// A field that was read from a masked header is masked too, and callers without the grant cannot use it in searches,
// exports and redrives.
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
	masks := maskOf("said", "class", "group")
	f := newFixture(m).with(WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}))
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask))
	check.NoError(t, f.memory.SaveFingerprints(t.Context(), []entity.Fingerprint{{Title: secret, Class: secret, Frames: []string{secret}}}))
	wantWithout(t, f.by("ana", "GET", "/api/v1/dlq/orders.dlq.v1", ""), secret) // this route always masks
	w := f.by("ana", "POST", redrivesPath, `{"filter":{"topic":"orders.events.v1"},"dry_run":true}`)
	wantStatus(t, w, 200, `"messages":[{"id":"`+idA.String()+`"`, `"error_message":"`+wire.MaskedText+`"`)
	wantWithout(t, w, secret)
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export", "/api/v1/export?format=csv", "/api/v1/groups", "/api/v1/groups/" + m.Group.String()} {
		w := f.by("ana", "GET", target, "")
		wantStatus(t, w, 200, wire.MaskedText)
		wantWithout(t, w, secret)
		wantEnvelope(t, f.by("ana", "GET", unmasking(target), ""), 403)
		before := len(unmasked(t, f))
		wantStatus(t, f.by("root", "GET", unmasking(target), ""), 200, secret)
		if n := len(unmasked(t, f)); n != before+1 {
			t.Errorf("GET %s: %d lines of the trail, want 1", target, n-before)
		}
	}
	wantStatus(t, f.by("ana", "GET", oneA, ""), 200, `"masked":["header:said","header:class","header:group","error_message","error_class","consumer_group"]`)
	for _, filter := range []string{"error_class", "consumer_group"} {
		wantEnvelope(t, f.by("ana", "GET", "/api/v1/messages?"+filter+"="+secret, ""), 403, filter)
		wantEnvelope(t, f.by("ana", "GET", "/api/v1/export?"+filter+"="+secret, ""), 403)
		order := `{"filter":{"` + filter + `":"` + secret + `"},"dry_run":true}`
		wantEnvelope(t, f.by("ana", "POST", redrivesPath, order), 403)
		w := f.by("root", "POST", redrivesPath, strings.Replace(order, "true", "false", 1))
		wantStatus(t, w, 202)
		wantWithout(t, w, secret)
	}
}

// unmasking returns the target with unmask=true.
func unmasking(target string) string {
	if strings.Contains(target, "?") {
		return target + "&unmask=true"
	}
	return target + "?unmask=true"
}

// everywhere lists requests that show a live message or a part of it.
func everywhere() []string {
	id := idA.String()
	return []string{
		"/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/messages/" + id, "/api/v1/messages", "/api/v1/messages?q=fine",
		"/api/v1/export", "/api/v1/export?format=csv", "/api/v1/dlq/messages/" + id + "/history", "/api/v1/dlq/messages/" + id + "/payload",
	}
}

// Without the grant, every request of everywhere gets masks or, for the payload, a 403.
func TestMasks_HoldEverywhere(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	edit := `{"edit":{"payload":{"order":2,"card":{"number":"` + secretCard + `"}},"headers":[{"key":"Authorization","value":"` +
		secretToken + `"},{"key":"tenant","value":"acme"}]}}`
	wantStatus(t, f.by("root", "POST", retryA, edit), 200)
	for _, who := range []string{"ana", "eve"} {
		for _, target := range everywhere() {
			w := f.by(who, "GET", target, "")
			wantWithout(t, w, secretCard, secretToken, secretStack)
			if strings.HasSuffix(target, "/payload") {
				wantEnvelope(t, w, 403)
			} else {
				wantStatus(t, w, 200, "acme")
			}
		}
	}
}

// An answer lists the values that it masks, and all its other text is as the producer wrote it.
func TestMasks_TouchNothingElse(t *testing.T) {
	t.Parallel()
	wantStatus(t, maskedFixture(t).by("ana", "GET", oneA, ""), 200,
		`"payload":{"order": 1, "card": {"number": "***"}, "note":"fine"}`, `{"key":"Authorization","value":{"encoding":"utf8","data":"***"}}`,
		`"stack_trace":"***"`, `"masked":["$.card.number","header:Authorization","header:trace","stack_trace"]`, `"data":"acme"`)
}

// Unmasking needs the grant on the message's topic, and is recorded in the audit trail.
func TestUnmask(t *testing.T) {
	t.Parallel()
	for _, target := range everywhere()[1:] { // the first route is left out, because it masks even with unmask=true
		f := maskedFixture(t)
		wantEnvelope(t, f.by("ana", "GET", unmasking(target), ""), 403)
		if n := len(unmasked(t, f)); n != 0 {
			t.Errorf("GET %s by one who may not: %d entries in the trail, want none", target, n)
		}
		w := f.by("root", "GET", unmasking(target), "")
		wantStatus(t, w, 200)
		if !strings.HasSuffix(target, "/history") {
			wantStatus(t, w, 200, secretCard)
		}
		entries := unmasked(t, f)
		if len(entries) != 1 || entries[0].Cause.Actor != "root" || entries[0].Cause.RequestID != testID {
			t.Fatalf("GET %s: trail %+v, want one entry by root", target, entries)
		}
		if e := entries[0]; strings.Contains(target, "/dlq/messages/") {
			if e.Kind != entity.KindMessage || e.ObjectID != idA {
				t.Errorf("GET %s: entry %+v, want it about the message", target, e)
			}
		} else if e.Kind != entity.KindList || !strings.HasPrefix(e.LastError, "GET "+strings.SplitN(target, "?", 2)[0]) {
			t.Errorf("GET %s: entry %+v, want it about the list", target, e)
		}
	}
}

func unmasked(t *testing.T, f *fixture) []entity.AuditEntry {
	t.Helper()
	return f.trail(t, repository.TrailQuery{Action: entity.ActionUnmask})
}

// A principal with the role unmask on some topics sees messages of other topics only with masks.
func TestUnmask_TopicByTopic(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	w := f.by("eve", "GET", "/api/v1/messages?unmask=true", "")
	wantStatus(t, w, 200)
	wantWithout(t, w, secretCard)
	wantEnvelope(t, f.by("eve", "GET", oneA+"?unmask=true", ""), 403)
}

// Grants of viewer and unmask that match the same topic are combined, even if their patterns differ.
func TestSearchOfMaskedFields_ByGrantsWrittenDifferently(t *testing.T) {
	t.Parallel()
	for topics, want := range map[string]bool{"orders.events.v1": true, "*.v1": true, "orders.other.*": false} {
		f := maskedFixture(t)
		mia := grants("mia", person("", "orders.*", auth.Viewer), person("", topics, auth.Unmask))
		WithAuth(people{"mia": mia}, auth.ModeToken)(f.server)
		q := "/api/v1/messages?" + url.Values{"payload": {`$.card.number="` + secretCard + `"`}}.Encode()
		if got := len(ids(t, f.by("mia", "GET", q, ""), "messages")) == 1; got != want {
			t.Errorf("unmask on %s: found %t, want %t", topics, got, want)
		}
	}
}

// A key with a schema may have masked values, so a caller who may not see them may not search for such a key.
func TestSearchOfMaskedFields_InKeys(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	search := func(who, key string) *reply {
		return f.by(who, "GET", "/api/v1/messages?key="+url.QueryEscape(key), "")
	}
	wantEnvelope(t, search("ana", `{"card":{"number":"4111"}}`), 403, "key")
	for who, key := range map[string]string{"ana": `{"order":1}`, "root": `{"card":{"number":"4111"}}`} {
		wantStatus(t, search(who, key), 200)
	}
	wantStatus(t, search("ana", "card-4111"), 200)
}

// unrecorded returns a store that accepts no entry of the audit trail.
func unrecorded(s *fake.Store) *hooked {
	store := hook(s)
	store.record = func(context.Context, entity.AuditEntry) error { return entity.ErrUnavailable }
	return store
}

// When the audit trail cannot record the read, masked values are not shown.
func TestUnmask_NothingIsShownThatIsNotNoted(t *testing.T) {
	t.Parallel()
	f := newFixture(secretMessage()).with(WithMasks(maskOf("$.card.number")))
	f.over(unrecorded(f.memory)).open()
	for _, target := range []string{"/api/v1/messages?unmask=true", "/api/v1/export?unmask=true", oneA + "?unmask=true", oneA + "/payload"} {
		w := f.do("GET", target, "")
		wantEnvelope(t, w, 503)
		wantWithout(t, w, secretCard)
	}
}

// A read is in the audit trail once, even if a replica answered a part of it and the database then answered all of it.
func TestUnmask_ARepeatedReadIsNotedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(secretMessage()).with(WithMasks(maskOf("$.card.number")))
	store, reads := hook(f.memory), 0
	store.search = func(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
		if reads++; reads == 1 {
			return repository.SearchPage{}, repository.ErrReadAgain
		}
		return f.memory.Search(ctx, q)
	}
	f.over(store).open()
	wantStatus(t, f.do("GET", "/api/v1/messages?unmask=true", ""), 200, secretCard)
	if entries := unmasked(t, f); reads != 2 || len(entries) != 1 {
		t.Errorf("%d reads with %d entries in the trail, want 2 with 1", reads, len(entries))
	}
}

// The audit trail does not keep the values that a masked field was compared with.
func TestUnmask_TrailHasNoSecrets(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	q := "payload=" + url.QueryEscape("$.card.number="+secretCard) + "&header=" + url.QueryEscape("Authorization="+secretToken) +
		"&topic=orders.dlq.v1"
	wantStatus(t, f.by("root", "GET", "/api/v1/messages?unmask=true&"+q, ""), 200, secretCard)
	entries := unmasked(t, f)
	if len(entries) != 1 || strings.Contains(entries[0].LastError, secretCard) || strings.Contains(entries[0].LastError, "s3cr3t") ||
		!strings.Contains(entries[0].LastError, "topic=orders.dlq.v1") {
		t.Errorf("trail %+v, want the question without the secrets", entries)
	}
}

// An edit that contains the text of a mask at a masked path is refused. Otherwise the consumer would get this text in
// place of the value.
func TestEdit_MasksAreNotSentBack(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	for body, field := range map[string]string{
		`{"payload":{"order":1,"card":{"number":"***"},"note":"fixed"}}`:                   "edit.payload",
		`{"headers":[{"key":"tenant","value":"a"},{"key":"AUTHORIZATION","value":"***"}]}`: "edit.headers[1].value",
	} {
		wantEnvelope(t, f.by("ana", "POST", retryA, `{"edit":`+body+`}`), 400, field)
	}
	wantStatus(t, f.by("ana", "POST", retryA, `{"edit":{"payload":{"card":{"number":"1"},"note":"***"}}}`),
		200) // the text of a mask is allowed in a field that is not masked
}

// A caller without the grant unmask may edit a message. The history shows this caller the changes, except those of
// masked values.
func TestEdit_DifferenceIsMasked(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	wantStatus(t, f.by("ana", "POST", retryA, `{"edit":{"payload":{"order":2,"card":{"number":"5500000000000004"},"note":"fine"}}}`), 200)
	w := f.by("ana", "GET", oneA+"/history", "")
	wantStatus(t, w, 200, `"path":"/order","value":2`)
	wantWithout(t, w, secretCard, "5500000000000004")
	wantStatus(t, f.by("root", "GET", oneA+"/history?unmask=true", ""), 200, "5500000000000004")
}

// A dry run shows samples with masks, and a patch that touches masked values needs the grant unmask.
func TestPatch_SamplesAreMasked(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	f.redriver = &stub{preview: entity.Preview{Samples: []entity.PatchSample{
		{
			MessageID: idA, Before: []byte(`{"order": 1, "card": {"number": "` + secretCard + `"}}`),
			After: []byte(`{"order":2,"card":{"number":"` + secretCard + `"}}`),
		},
		{MessageID: idB, Before: []byte(`{"card":{"number":"` + secretCard + `"}}`), Reason: "no such path"},
	}, Check: entity.PatchCheck{Checked: 5, Failed: 3, Failures: []entity.PatchFailure{
		{Reason: `$.cards["` + secretCard + `"]: a number is required`, Messages: 2, Example: idA}, {Reason: "no such path", Messages: 1, Example: idB},
	}}}}
	f.open()
	order := `{"filter":{"topic":"orders.dlq.v1"},"dry_run":true,"patch":[{"op":"replace","path":"/order","value":2}]}`
	w := f.by("ana", "POST", redrivesPath, order)
	wantStatus(t, w, 200, `"after":{"order":2,"card":{"number":"***"}},"reason":null`, `"after":null,"reason":"the reason is hidden`,
		`"patch_failures":[{"reason":"the reason is hidden, because fields of payloads are masked","messages":3,"example":"`+idA.String())
	wantWithout(t, w, secretCard, "no such path")
	wantStatus(t, f.by("root", "POST", redrivesPath, order), 200, `"after":null,"reason":"no such path"`, `"patch_failures":[{"reason":"$.cards[`)
	wantEnvelope(t, f.by("ana", "POST", redrivesPath, strings.Replace(order, "/order", "/card/number", 1)), 403, "patch")
}

// A read that found no free memory is repeated. The two reads add only one entry to the audit trail.
func TestUnmaskedReadIsRecordedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(secretMessage()).with(WithMasks(maskOf("$.card.number")))
	store := &roomlessStore{Store: f.memory}
	f.over(store).guarded(person("root", "*", auth.Admin, auth.Unmask))
	for range 2 {
		wantStatus(t, f.by("root", "GET", oneA+"/history?unmask=true", ""), 200)
	}
	if n := len(unmasked(t, f)); n != 2 || store.asked != 3 {
		t.Errorf("the audit trail has %d entries after %d reads, want one for each request, of which the first read twice", n, store.asked)
	}
}

// roomlessStore is a store that has no free memory the first time that a history is read.
type roomlessStore struct {
	*fake.Store
	asked int
}

func (s *roomlessStore) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	if s.asked++; s.asked == 1 {
		accountOf(ctx).wanted = 2 * pageReservation
		return nil, errNoMemory
	}
	return s.Store.History(ctx, id)
}
