package rest

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// renamed are the names of a schema that calls the members of card by another name, within a branch of a union.
type renamed struct{ within string }

func (n renamed) Member(name string) ([]string, entity.Names, bool) {
	switch {
	case n.within == "" && name == "card":
		return []string{name}, renamed{"card"}, false
	case n.within == "card" && name == "pay.Card":
		return []string{name}, renamed{"branch"}, true
	case n.within == "branch" && name == "n":
		return []string{name, "number"}, nil, false
	}
	return []string{name}, nil, false
}

func (renamed) Element() entity.Names { return nil }
func (renamed) Known() []string       { return nil }

// A mask holds whatever a schema makes of the name: in the difference of an edit, in a patch that somebody wrote who may
// see the value, and for the mask text that an editor sends back.
func TestMasks_FollowTheNamesOfTheSchema(t *testing.T) {
	t.Parallel()
	masks := maskOf("$.card.number")
	f := newFixture(message(idA, withValue(`enc:{"card":{"pay.Card":{"n":"`+secretCard+`"}}}`)))
	f.with(WithSchemas(&fakeSchemas{names: renamed{}}), WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}))
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask))
	f.index(masks)
	wantStatus(t, f.by("ana", "GET", oneA, ""), 200, `"payload":{"card":{"pay.Card":{"n":"***"}}}`, `"masked":["$.card.number"]`)
	wantStatus(t, f.by("root", "GET", oneA+"?unmask=true", ""), 200, secretCard)
	back := `{"edit":{"payload":{"card":{"pay.Card":{"n":"***"}}}}}`
	wantEnvelope(t, f.by("ana", "POST", retryA, back), 400, "edit.payload")
	wantStatus(t, f.by("root", "POST", retryA, strings.Replace(back, "***", secretCard+"1", 1)), 200)
	wantStatus(t, f.by("ana", "GET", oneA+"/history", ""), 200, `"payload_changed":true,"payload_patch":[]`)

	order := `{"filter":{"topic":"orders.events.v1"},"patch":[{"op":"replace","path":"/card/pay.Card/n","value":"` + secretCard + `"}]}`
	wantStatus(t, f.by("root", "POST", redrivesPath, order), 202)
	for _, path := range []string{redrivesPath, "/api/v1/audit"} {
		wantWithout(t, f.by("ana", "GET", path, ""), secretCard)
	}
}

// A masked key is found by nobody who may not see it, neither by its JSON nor by its bytes, and no shared view, redrive or
// entry of the trail shows it.
func TestMasks_HoldForTheBytesOfKeys(t *testing.T) {
	t.Parallel()
	masks := maskOf("$.ssn")
	key := "\x00\x00\x00\x00\x03\x16123-45-6789"
	query := url.Values{"key_base64": {base64.StdEncoding.EncodeToString([]byte(key))}}.Encode()
	plain := `{"ssn":"222-PLAIN"}`
	f := newFixture(message(idA, withKey(key)), message(idB, withKey(plain)), message(idGone, withKey("customer-42")))
	f.with(WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}))
	f.guarded(person("ana", "*", auth.Admin), person("root", "*", auth.Admin, auth.Unmask))
	f.index(masks)
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export?format=csv", "/api/v1/export"} {
		w := f.by("ana", "GET", target, "")
		wantStatus(t, w, 200)
		wantWithout(t, w, "123-45-6789", base64.StdEncoding.EncodeToString([]byte(key)), "222-PLAIN")
	}
	wantStatus(t, f.by("ana", "GET", "/api/v1/messages", ""), 200, `"data":"customer-42"`, `"data":"{\"ssn\":\"***\"}"`)
	for target, want := range map[string]int{"/api/v1/messages?" + query: 1, "/api/v1/messages?key=" + url.QueryEscape(plain): 1} {
		wantEnvelope(t, f.by("ana", "GET", target, ""), 403, "key")
		if got := ids(t, f.by("root", "GET", target, ""), "messages"); len(got) != want {
			t.Errorf("GET %s finds %d, want %d", target, len(got), want)
		}
	}
	if got := ids(t, f.by("ana", "GET", "/api/v1/messages?key=customer-42", ""), "messages"); len(got) != 1 {
		t.Errorf("a key that is not masked finds %d messages, want 1", len(got))
	}
	wantEnvelope(t, f.by("root", "PUT", views+"/theirs", `{"query":"`+query+`","shared":true}`), 400, "query")
	wantStatus(t, f.by("root", "POST", redrivesPath, `{"filter":{"key":"{\"ssn\":\"222-PLAIN\"}"}}`), 202)
	wantStatus(t, f.by("root", "GET", "/api/v1/messages?unmask=true&"+query, ""), 200)
	for _, path := range []string{redrivesPath, "/api/v1/audit"} {
		wantWithout(t, f.by("ana", "GET", path, ""), "222-PLAIN", url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(key))))
	}
}
