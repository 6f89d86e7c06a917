package message_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const (
	someBytes = `"payload":null,"payload_size":5,"payload_omitted":"not_json"`
	someMasks = `"masked":["header:auth"],"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}]`
)

// masksFor makes masking active and sets the session of a user who may unmask values.
func masksFor(a *consoletest.API) *consoletest.API {
	return a.As(session.Viewer{Name: "ana", Mode: "token", Masking: true, Grants: []session.Grant{{Role: "admin", Topics: []string{"*"}}, {Role: "unmask", Topics: []string{"*"}}}}).
		Says("GET "+consoletest.MessageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("plain")) }))
}

// looks counts the requests for unmasked values, which each add an entry to the audit trail.
func looks(a *consoletest.API) (n int) {
	for _, r := range a.Requests {
		if r.URL.Query().Get("unmask") == "true" || strings.HasSuffix(r.URL.Path, "/payload") {
			n++
		}
	}
	return n
}

func TestBytesAreUnmaskedOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	for path, asked := range map[string]int{
		"": 0, "?view=text": 0, "?view=hex": 0, "/edit": 0, "?unmask=true": 1, "?view=text&unmask=true": 1, "/edit?unmask=true": 1,
	} {
		a := masksFor(consoletest.WithMessage(t, someBytes))
		body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+path).Body.String()
		if got := looks(a); got != asked {
			t.Errorf("%s: got %d unmasked reads, want %d", path, got, asked)
		}
		if asked > 0 {
			consoletest.MustHave(t, body, "plain</")
			// with this attribute, the browser would store the unmasked values in a draft
			consoletest.MustNotHave(t, body, "data-draft")
			continue
		}
		consoletest.MustHave(t, body, "cannot be masked", "unmask=true")
		consoletest.MustNotHave(t, body, "plain<")
	}
}

func TestWhatIsPolledLoadsNoPayload(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*consoletest.API{"Masks": masksFor(consoletest.WithMessage(t, someBytes)), "NoMasks": consoletest.WithMessage(t, someBytes)} {
		w := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"?seen=RETRYING", "HX-Request", "true", "HX-Target", "outcome")
		consoletest.MustHave(t, w.Body.String(), `id="outcome"`, "Its state has changed")
		for _, r := range a.Requests {
			if r.URL.Path != consoletest.MessageAPI && r.URL.Path != "/api/v1/session" {
				t.Errorf("%s: got %s asked for, want only the message", name, r.URL.Path)
			}
		}
	}
}

func TestLookingBehindTheMasksIsOneEntry(t *testing.T) {
	t.Parallel()
	edited := consoletest.Raw(`{"attempts":[{"number":1,"to_status":"PENDING","edit":{"payload_changed":true,
		"payload_patch":[{"op":"replace","path":"/card","value":"***"}]}}],"changes":[],"lineage":[]}`)
	for name, c := range map[string]struct {
		members string
		history consoletest.Raw
		want    int
	}{
		"Masks": {someMasks, consoletest.NoHistory, 1}, "MasksOfWhatWasSentToo": {someMasks, edited, 2}, "NoMasks": {"", consoletest.NoHistory, 0},
	} {
		a := masksFor(consoletest.WithMessage(t, c.members)).Says("GET "+consoletest.MessageAPI+"/history", c.history)
		body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"?unmask=true").Body.String()
		if got := looks(a); got != c.want || strings.Contains(body, "Shown unmasked") != (c.want > 0) {
			t.Errorf("%s: got %d unmasked reads, or no notice of them, want %d", name, got, c.want)
		}
	}
}

func TestNobodyIsMadeToLookBehindTheMasks(t *testing.T) {
	t.Parallel()
	for from, noted := range map[string]int{"cross-site": 0, "same-site": 0, "same-origin": 1, "none": 1, "": 1} {
		for _, path := range []string{consoletest.MessagePath + "?unmask=true", consoletest.MessagePath + "/edit?unmask=true", consoletest.MessagePath + "/payload"} {
			a := masksFor(consoletest.WithMessage(t, someMasks))
			w := consoletest.Get(t, consoletest.Site(t, a), path, "Sec-Fetch-Site", from)
			if got := looks(a); got != noted {
				t.Errorf("%s from %q: got %d unmasked reads, want %d", path, from, got, noted)
			}
			if noted == 0 && w.Code == http.StatusOK {
				consoletest.MustHave(t, w.Body.String(), "Unmask it")
			}
		}
	}
}

// A record may itself contain the text that replaces masked values; that text is not shown as masked.
func TestMaskedIsOnlyWhatTheAPIHasHidden(t *testing.T) {
	t.Parallel()
	stars := `"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}],"payload":{"a":"***","b":[{"c d":"***"},"***"],"a.b":"***"}`
	for masked, want := range map[string]int{
		``: 0, `"header:auth"`: 1, `"header:other"`: 0, `"$.a"`: 1, `"$.b[*]"`: 1, `"$.b[*]['c d']"`: 1, `"$.b['c d']"`: 1, `"$['a.b']"`: 1, `"$.x"`: 0, `"$"`: 0,
	} {
		body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, stars+`,"masked":[`+masked+`]`)), consoletest.MessagePath).Body.String()
		if got := strings.Count(body, `<span class="tag">masked</span>`); got != want {
			t.Errorf("masked %s: got %d values said to be masked, want %d", masked, got, want)
		}
	}
}
