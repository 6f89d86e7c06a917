package rest

import "testing"

// Each test in this file is named after a feature that operators often request of programs like this one.

// An edit that comes too late gets an error, and so does an edit that repeats an Idempotency-Key with another body.
// Neither gets the answer to the first edit.
func TestASecondEditIsNeverSilentlyIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	first := wantStatus(t, f.do("POST", retryA, `{"edit":{"payload":1}}`, keyHeader, "k"), 200, `"edited":true`)
	wantEnvelope(t, f.do("POST", retryA, `{"edit":{"payload":2}}`, keyHeader, "k"), 409)
	wantEnvelope(t, f.do("POST", retryA, `{"edit":{"payload":2}}`), 409)
	wantEnvelope(t, f.do("POST", retryA, `{}`, keyHeader, "k"), 409)
	wantAnswer(t, f.do("POST", retryA, `{"edit":{"payload":1}}`, keyHeader, "k"), 200, first)
	attempts, err := f.memory.History(t.Context(), idA)
	if err != nil || len(attempts) != 1 || string(attempts[0].Edit.Value) != "1" {
		t.Errorf("attempts %+v, %v, want the first alone", attempts, err)
	}
}

// A principal who may not see a masked value cannot find it out by searching.
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
			wantEnvelope(t, f.by("ana", "GET", path+query, ""), 403, field)
			wantStatus(t, f.by("root", "GET", path+query, ""), 200)
		}
	}
	for body, field := range map[string]string{
		`{"filter":{"payload":["$.card.number=` + secretCard +
			`"]},"dry_run":true}`: "filter.payload",
		`{"filter":{"header":["Authorization"]}}`: "filter.header",
		`{"filter":{"topic":"orders.dlq.v1"},"patch":[{"op":"test","path":"/card/number","value":"` + secretCard + `"}],"dry_run":true}`: "patch",
		`{"filter":{"topic":"orders.dlq.v1"},"patch":[{"op":"copy","from":"/card","path":"/note"}]}`:                                     "patch",
	} {
		wantEnvelope(t, f.by("ana", "POST", redrivesPath, body), 403, field)
	}
	wantStatus(t, f.by("ana", "GET", "/api/v1/messages?q="+secretCard, ""), 200, `"messages":[]`)
	// Eve has the grant unmask on another topic. Her search does not find these messages, because it is limited to that
	// topic.
	wantStatus(t, f.by("eve", "GET", "/api/v1/messages?count=exact&payload=$.card.number", ""), 200, `"messages":[]`, `"messages":0`)
	// The list of redrives does not show the masked values by which other users have selected messages.
	wantStatus(t, f.by("root", "POST", redrivesPath, `{"filter":{"payload":["$.card.number=`+secretCard+`"],"header":["Authorization=`+
		secretToken+`"]}}`), 202)
	w := f.by("ana", "GET", redrivesPath, "")
	wantStatus(t, w, 200, "$.card.number=***")
	wantWithout(t, w, secretCard, "s3cr3t")
}
