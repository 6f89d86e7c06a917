package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	someBytes = `"payload":null,"payload_size":5,"payload_omitted":"not_json"`
	someMasks = `"masked":["header:auth"],"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}]`
)

// masksFor is the API of somebody who may look behind the masks that there are.
func masksFor(a *anAPI) *anAPI {
	return a.says("GET /api/v1/session", viewer{Name: "ana", Mode: "token", Masking: true, Grants: []grant{{"admin", []string{"*"}}, {"unmask", []string{"*"}}}}).
		says("GET "+messageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("plain")) }))
}

// looks counts the calls that the audit trail notes as looking behind the masks.
func looks(a *anAPI) (n int) {
	for _, r := range a.asked {
		if r.URL.Query().Get("unmask") == "true" || strings.HasSuffix(r.URL.Path, "/payload") {
			n++
		}
	}
	return n
}

// getFrom asks for a page as browsers do that say where from.
func getFrom(t *testing.T, site http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

func TestBytesAreUnmaskedOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	for _, path := range []string{messagePath, messagePath + "?view=text", messagePath + "?view=hex", messagePath + "/edit"} {
		a := masksFor(withMessage(t, someBytes))
		body := get(t, site(t, a), path).Body.String()
		if got := looks(a); got != 0 {
			t.Errorf("%s: got %d looks behind the masks that nobody asked for", path, got)
		}
		mustHave(t, body, "cannot be masked", "unmask=true")
		mustNotHave(t, body, "plain<")
	}
	for _, path := range []string{messagePath + "?unmask=true", messagePath + "?view=text&unmask=true", messagePath + "/edit?unmask=true"} {
		a := masksFor(withMessage(t, someBytes))
		body := get(t, site(t, a), path).Body.String()
		if got := looks(a); got != 1 {
			t.Errorf("%s: got %d looks behind the masks, want the one that was asked for", path, got)
		}
		mustHave(t, body, "plain</")
	}
}

func TestWhatIsPolledLoadsNoPayload(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*anAPI{"Masks": masksFor(withMessage(t, someBytes)), "NoMasks": withMessage(t, someBytes)} {
		w := getFrom(t, site(t, a), messagePath+"?seen=RETRYING", "HX-Request", "true", "HX-Target", "outcome")
		mustHave(t, w.Body.String(), `id="outcome"`, "Its state has changed")
		for _, r := range a.asked {
			if r.URL.Path != messageAPI && r.URL.Path != "/api/v1/session" {
				t.Errorf("%s: got %s asked for, want only the message", name, r.URL.Path)
			}
		}
	}
}

func TestLookingBehindTheMasksIsOneEntry(t *testing.T) {
	t.Parallel()
	a := masksFor(withMessage(t, someMasks))
	body := get(t, site(t, a), messagePath+"?unmask=true").Body.String()
	if got := looks(a); got != 1 {
		t.Errorf("got %d looks behind the masks, want 1", got)
	}
	mustHave(t, body, "Shown without masks")
	edited := raw(`{"attempts":[{"number":1,"to_status":"PENDING","edit":{"payload_changed":true,"payload_patch":[{"op":"replace","path":"/card","value":"***"}]}}],"changes":[],"lineage":[]}`)
	a = masksFor(withMessage(t, someMasks)).says("GET "+messageAPI+"/history", edited)
	if get(t, site(t, a), messagePath+"?unmask=true"); looks(a) != 2 {
		t.Errorf("got %d looks behind the masks, want the message and what was sent of it", looks(a))
	}
	a = masksFor(withMessage(t, ""))
	body = get(t, site(t, a), messagePath+"?unmask=true").Body.String()
	if got := looks(a); got != 0 || strings.Contains(body, "Shown without masks") {
		t.Errorf("got %d looks, or told of, where nothing is masked, want none", got)
	}
}

func TestNobodyIsMadeToLookBehindTheMasks(t *testing.T) {
	t.Parallel()
	for from, noted := range map[string]int{"cross-site": 0, "same-site": 0, "same-origin": 1, "none": 1, "": 1} {
		for _, path := range []string{messagePath + "?unmask=true", messagePath + "/edit?unmask=true", messagePath + "/payload"} {
			a := masksFor(withMessage(t, someMasks))
			w := getFrom(t, site(t, a), path, "Sec-Fetch-Site", from)
			if got := looks(a); got != noted {
				t.Errorf("%s from %q: got %d looks behind the masks, want %d", path, from, got, noted)
			}
			if noted == 0 && w.Code == http.StatusOK {
				mustHave(t, w.Body.String(), "Unmask it")
			}
		}
	}
}

// A record may have the text itself that stands for what is hidden in others.
func TestMaskedIsOnlyWhatTheAPIHasHidden(t *testing.T) {
	t.Parallel()
	stars := `"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}],"payload":{"a":"***","b":[{"c d":"***"},"***"],"a.b":"***"}`
	for masked, want := range map[string]int{
		``: 0, `"header:auth"`: 1, `"header:other"`: 0, `"$.a"`: 1, `"$.b[*]"`: 1, `"$.b[*]['c d']"`: 1, `"$.b['c d']"`: 1, `"$['a.b']"`: 1, `"$.x"`: 0, `"$"`: 0,
	} {
		body := get(t, site(t, withMessage(t, stars+`,"masked":[`+masked+`]`)), messagePath).Body.String()
		if got := strings.Count(body, `<span class="tag">masked</span>`); got != want {
			t.Errorf("masked %s: got %d values said to be masked, want %d", masked, got, want)
		}
	}
}
