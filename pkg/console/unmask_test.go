package console

import (
	"net/http"
	"strings"
	"testing"
)

const (
	someBytes = `"payload":null,"payload_size":5,"payload_omitted":"not_json"`
	someMasks = `"masked":["header:auth"],"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}]`
)

// masksFor is the API of a user who may unmask values.
func masksFor(a *anAPI) *anAPI {
	return a.of(viewer{Name: "ana", Mode: "token", Masking: true, Grants: []grant{{"admin", []string{"*"}}, {"unmask", []string{"*"}}}}).
		says("GET "+messageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("plain")) }))
}

// looks counts the calls that add an unmask entry to the audit trail.
func looks(a *anAPI) (n int) {
	for _, r := range a.asked {
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
		a := masksFor(withMessage(t, someBytes))
		body := get(t, site(t, a), messagePath+path).Body.String()
		if got := looks(a); got != asked {
			t.Errorf("%s: got %d unmasked reads, want %d", path, got, asked)
		}
		if asked > 0 {
			mustHave(t, body, "plain</")
			continue
		}
		mustHave(t, body, "cannot be masked", "unmask=true")
		mustNotHave(t, body, "plain<")
	}
}

func TestWhatIsPolledLoadsNoPayload(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*anAPI{"Masks": masksFor(withMessage(t, someBytes)), "NoMasks": withMessage(t, someBytes)} {
		w := get(t, site(t, a), messagePath+"?seen=RETRYING", "HX-Request", "true", "HX-Target", "outcome")
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
	edited := raw(`{"attempts":[{"number":1,"to_status":"PENDING","edit":{"payload_changed":true,
		"payload_patch":[{"op":"replace","path":"/card","value":"***"}]}}],"changes":[],"lineage":[]}`)
	for name, c := range map[string]struct {
		members string
		history raw
		want    int
	}{
		"Masks": {someMasks, noHistory, 1}, "MasksOfWhatWasSentToo": {someMasks, edited, 2}, "NoMasks": {"", noHistory, 0},
	} {
		a := masksFor(withMessage(t, c.members)).says("GET "+messageAPI+"/history", c.history)
		body := get(t, site(t, a), messagePath+"?unmask=true").Body.String()
		if got := looks(a); got != c.want || strings.Contains(body, "Shown without masks") != (c.want > 0) {
			t.Errorf("%s: got %d unmasked reads, or no notice of them, want %d", name, got, c.want)
		}
	}
}

func TestNobodyIsMadeToLookBehindTheMasks(t *testing.T) {
	t.Parallel()
	for from, noted := range map[string]int{"cross-site": 0, "same-site": 0, "same-origin": 1, "none": 1, "": 1} {
		for _, path := range []string{messagePath + "?unmask=true", messagePath + "/edit?unmask=true", messagePath + "/payload"} {
			a := masksFor(withMessage(t, someMasks))
			w := get(t, site(t, a), path, "Sec-Fetch-Site", from)
			if got := looks(a); got != noted {
				t.Errorf("%s from %q: got %d unmasked reads, want %d", path, from, got, noted)
			}
			if noted == 0 && w.Code == http.StatusOK {
				mustHave(t, w.Body.String(), "Unmask it")
			}
		}
	}
}

// A record may itself contain the text that replaces masked values.
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
