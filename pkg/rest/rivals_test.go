package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// What operators ask for, of this kind of program, again and again. Each demand
// has a test that is named after it.

// A page shows two of what matches; the redrive takes all of it.
func TestRetryEverythingThatMatchesBeyondThePage(t *testing.T) {
	t.Parallel()
	f := newFixture()
	for i := range 9 {
		f.memory.Insert(message(sixth(i), at(noon.Add(-time.Duration(i)*time.Minute)), func(m *entity.Message) {
			m.Failure.Class = []string{"Boom", "Boom", "Other"}[i%3]
		}))
	}
	f.open()
	page := f.search(t, "/api/v1/messages?error_class=Boom&limit=2&count=exact")
	if len(page.Messages) != 2 || page.NextCursor == nil || page.Count.Messages != 6 {
		t.Fatalf("page %+v, want 2 of 6", page)
	}
	r := f.redrive(t, `{"filter":{"error_class":"Boom"}}`)
	if r.Selected != 6 || r.Succeeded != 6 {
		t.Errorf("selected %d, succeeded %d, want 6 of 6", r.Selected, r.Succeeded)
	}
	if left := f.search(t, "/api/v1/messages?status=PENDING&count=exact"); left.Count.Messages != 3 {
		t.Errorf("%d are still PENDING, want the 3 that did not match", left.Count.Messages)
	}
}

// redrive makes one, waits for its end and returns it.
func (f *fixture) redrive(t *testing.T, order string) redriveJSON {
	t.Helper()
	w := f.do("POST", redrives, order)
	var r redriveJSON
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != 202 {
		t.Fatalf("POST redrives %s = %d %s", order, w.Code, w.Body)
	}
	if _, err := f.redriver.Wait(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(f.do("GET", redrives+"/"+r.ID.String(), "").Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Messages of one dead-letter topic go back to the topics that their headers
// named, each to its own.
func TestRedriveToTheTopicInTheHeader(t *testing.T) {
	t.Parallel()
	f := newFixture()
	for i, topic := range []string{"orders", "payments", "orders"} {
		f.memory.Insert(message(sixth(i), func(m *entity.Message) { m.OriginalTopic, m.Origin.Confidence = topic, entity.FromHeader }))
	}
	f.open()
	if r := f.redrive(t, `{"filter":{"topic":"orders.dlq.v1"}}`); r.Succeeded != 3 {
		t.Fatalf("redrive %+v", r)
	}
	items := f.do("GET", redrives+"/"+redrive.String()+"/items", "").Body.String()
	for i, topic := range []string{"orders", "payments", "orders"} {
		want := fmt.Sprintf(`"id":"%s","result":"succeeded","reason":null,"topic":"%s"`, sixth(i), topic)
		if !strings.Contains(items, want) {
			t.Errorf("items %s, want %s in it", items, want)
		}
	}
}

// A redrive of a group has what was there when it was made.
func TestAGroupRetryCoversWhatWasSeenAndNotWhatArrivedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(message(sixth(0), inGroup), message(sixth(1), inGroup), message(sixth(2)))
	f.open()
	w := f.do("POST", redrives, `{"filter":{"group_id":"`+idGone.String()+`"}}`)
	f.memory.Insert(message(sixth(3), inGroup))
	var r redriveJSON
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Selected != 2 {
		t.Fatalf("redrive %d %s, want 2 selected", w.Code, w.Body)
	}
	if _, err := f.redriver.Wait(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if got := f.search(t, "/api/v1/messages?status=PENDING&sort=created_at").ids(); got != "23" {
		t.Errorf("PENDING are %q, want the other group's and what arrived later", got)
	}
}

func inGroup(m *entity.Message) { m.Group = idGone }

// An edit that is too late, or that repeats a key with something else in it, is an
// error and not the first one's answer.
func TestASecondEditIsNeverSilentlyIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.redriver = editing{acknowledging{f.memory}, f.memory}
	f.open()
	first := f.do("POST", retryA, `{"edit":{"payload":1}}`, keyHeader, "k")
	if first.Code != 200 || !strings.Contains(first.Body.String(), `"edited":true`) {
		t.Fatalf("first = %d %s", first.Code, first.Body)
	}
	wantEnvelope(t, f.do("POST", retryA, `{"edit":{"payload":2}}`, keyHeader, "k"), 409, codeConflict)
	wantEnvelope(t, f.do("POST", retryA, `{"edit":{"payload":2}}`), 409, codeConflict)
	wantEnvelope(t, f.do("POST", retryA, `{}`, keyHeader, "k"), 409, codeConflict)
	if again := f.do("POST", retryA, `{"edit":{"payload":1}}`, keyHeader, "k"); again.Body.String() != first.Body.String() {
		t.Errorf("the same request again = %s, want %s", again.Body, first.Body)
	}
	attempts, err := f.memory.History(t.Context(), idA)
	if err != nil || len(attempts) != 1 || string(attempts[0].Edit.Value) != "1" {
		t.Errorf("attempts %+v, %v, want the first alone", attempts, err)
	}
}

// Deleting all that match deletes nothing else, in nobody's topics.
func TestDeleteAllObeysTheFilter(t *testing.T) {
	t.Parallel()
	for filter, left := range map[string]string{
		`{"error_class":"Boom"}`:                                      "12345",
		`{"topic":"payments.*"}`:                                      "01245",
		`{"origin":"unknown"}`:                                        "01245",
		`{"payload":["$.customer.id=42"]}`:                            "0123",
		`{"payload":["$.customer.id=42"],"header":["tenant=acme"]}`:   "01235",
		`{"q":"refused"}`:                                             "01234",
		`{"topic":"orders.dlq.v1","status":["DEAD"]}`:                 "012345",
		`{"group_id":"` + idGone.String() + `"}`:                      "01345",
		`{"topic":"*","created_before":"2026-02-20T10:32:00Z"}`:       "2345",
		`{"topic":"orders.*","retried_after":"2026-02-20T11:00:00Z"}`: "2345",
	} {
		f := searchFixture(t)
		f.redriver = deleting{acknowledging{f.memory}}
		f.server.redriver = f.redriver
		f.redrive(t, `{"action":"delete","filter":`+filter+`}`)
		if got := f.search(t, "/api/v1/messages?sort=created_at").ids(); got != left {
			t.Errorf("delete %s leaves %q, want %q", filter, got, left)
		}
	}
}

// A filter that says nothing, or that says it wrongly, deletes nothing.
func TestDeleteAllWithoutAFilterIsRefused(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for _, filter := range []string{`{}`, `{"status":["DEAD","PENDING"]}`, `{"created_before":"2030-01-01T00:00:00Z"}`, `{"topics":"orders"}`, `{"topic":""}`, `{"payload":[]}`, `{"q":""}`} {
		wantEnvelope(t, f.do("POST", redrives, `{"action":"delete","filter":`+filter+`}`), 400, codeValidation)
	}
	if got := f.search(t, "/api/v1/messages?sort=created_at").ids(); got != "012345" {
		t.Errorf("left are %q, want all", got)
	}
}

// deleting carries out redrives of action delete.
type deleting struct{ acknowledging }

func (d deleting) Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	for range 100 {
		batch, err := d.store.LeaseBatch(ctx, id, idGone, time.Minute)
		if err != nil || batch == nil {
			return entity.Redrive{}, err
		}
		results := repository.BatchResults{RedriveID: id, Number: batch.Number, Owner: idGone}
		for i, item := range batch.Items {
			if err := d.store.Delete(ctx, item.MessageID, entity.By("x")); err != nil {
				return entity.Redrive{}, err
			}
			results.Items = append(results.Items, entity.RedriveItem{Number: batch.First + i, MessageID: item.MessageID, Result: entity.ItemSucceeded})
		}
		if _, err := d.store.SaveBatch(ctx, results); err != nil {
			return entity.Redrive{}, err
		}
	}
	return d.store.Redrive(ctx, id)
}

// Whoever may not see what is masked cannot find out by searching, whichever way.
func TestMaskedFieldsCannotBeSearched(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t)
	for query, field := range map[string]string{
		"payload=$.card.number":                 "payload",
		"payload=$.card.number%3D" + secretCard: "payload",
		"payload=$.card":                        "payload",
		"header=authorization":                  "header",
		"header=AUTHORIZATION%3Dx":              "header",
		"payload=$.order&header=Authorization":  "header",
	} {
		for _, path := range []string{"/api/v1/messages?", "/api/v1/messages?unmask=false&", "/api/v1/messages?count=exact&limit=1&", "/api/v1/archive?", "/api/v1/export?"} {
			e := wantEnvelope(t, f.by("ana", "GET", path+query, ""), 403, codeForbidden)
			if firstField(e.Details) != field {
				t.Errorf("GET %s%s: details %+v, want %s", path, query, e.Details, field)
			}
			if w := f.by("root", "GET", path+query, ""); w.Code != 200 {
				t.Errorf("GET %s%s by root = %d %s, want 200", path, query, w.Code, w.Body)
			}
		}
	}
	for body, field := range map[string]string{
		`{"filter":{"payload":["$.card.number=` + secretCard + `"]},"dry_run":true}`:                                                     "filter.payload",
		`{"filter":{"header":["Authorization"]}}`:                                                                                        "filter.header",
		`{"filter":{"topic":"orders.dlq.v1"},"patch":[{"op":"test","path":"/card/number","value":"` + secretCard + `"}],"dry_run":true}`: "patch",
		`{"filter":{"topic":"orders.dlq.v1"},"patch":[{"op":"copy","from":"/card","path":"/note"}]}`:                                     "patch",
	} {
		if e := wantEnvelope(t, f.by("ana", "POST", redrives, body), 403, codeForbidden); firstField(e.Details) != field {
			t.Errorf("%s: details %+v, want %s", body, e.Details, field)
		}
	}
	if got := f.by("ana", "GET", "/api/v1/messages?q="+secretCard, "").Body.String(); !strings.Contains(got, `"messages":[]`) {
		t.Errorf("free text finds the card: %s", got)
	}
	// Eve may see behind the masks of another topic: what she searches there finds
	// nothing here.
	if got := f.by("eve", "GET", "/api/v1/messages?count=exact&payload=$.card.number", "").Body.String(); !strings.Contains(got, `"messages":[]`) || !strings.Contains(got, `"messages":0`) {
		t.Errorf("eve finds %s", got)
	}
	// What others have searched for is not shown either.
	if w := f.by("root", "POST", redrives, `{"filter":{"payload":["$.card.number=`+secretCard+`"],"header":["Authorization=`+secretToken+`"]}}`); w.Code != 202 {
		t.Fatalf("redrive by root = %d %s", w.Code, w.Body)
	}
	if got := f.by("ana", "GET", redrives, "").Body.String(); strings.Contains(got, secretCard) || strings.Contains(got, "s3cr3t") || !strings.Contains(got, "$.card.number=***") {
		t.Errorf("redrives for ana: %s", got)
	}
}

// Nobody's search passes the mask because they are an administrator.
func TestUnmaskIsPartOfNoRole(t *testing.T) {
	t.Parallel()
	for _, role := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin, auth.Edit} {
		if role.Includes(auth.Unmask) {
			t.Errorf("%s includes unmask", role)
		}
	}
}
