package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const aDryRun = `{"action": "retry", "selected": 12431, "sendable": 12400, "reasons": {"not_retryable": 21, "UNKNOWN_TOPIC": 10},
	"groups": [{"topic": "HOSTILE", "messages": 12400, "class": null, "reason": null}, {"topic": null, "messages": 10, "class": "UNKNOWN_TOPIC", "reason": "HOSTILE"}],
	"samples": [], "patch_checked": 0, "patch_failed": 0, "searched_until": null}`

const aPatchedRun = `{"action": "retry", "selected": 3, "sendable": 3, "reasons": {}, "groups": [], "samples": [
	{"message_id": "HOSTILE", "before": {"a": 1, "b": "HOSTILE"}, "after": {"a": 2, "b": "HOSTILE"}, "reason": null},
	{"message_id": "x", "before": {"c": 1}, "after": null, "reason": "HOSTILE"}], "patch_checked": 2, "patch_failed": 1, "searched_until": null}`

func dryAPI(t *testing.T, dry string) *anAPI {
	t.Helper()
	return newAPI(t).says("POST /api/v1/redrives", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(quoted(dry)))
	}))
}

// ordered is what the API was sent, the last time.
func (a *anAPI) ordered(t *testing.T) (order map[string]any, request *http.Request) {
	t.Helper()
	asked, bodies := a.wasAsked("POST /api/v1/redrives")
	if len(asked) == 0 {
		t.Fatal("got nothing asked of the API, want an order")
	}
	if err := json.Unmarshal([]byte(bodies[len(bodies)-1]), &order); err != nil {
		t.Fatal(err)
	}
	return order, asked[len(asked)-1]
}

// field returns the value of a hidden field of a page.
func field(t *testing.T, body, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(body, `name="`+name+`" value="`)
	value, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		t.Fatalf("want a field %s in the page", name)
	}
	return value
}

func TestNewRedrive(t *testing.T) {
	t.Parallel()
	t.Run("IsLookedAtFirst", func(t *testing.T) {
		t.Parallel()
		a := dryAPI(t, aDryRun)
		body := get(t, site(t, a), "/redrives/new?action=retry&topic=orders.*&status=PENDING,DEAD&header=a&header=b%3Dc&q="+url.QueryEscape(hostile)).Body.String()
		wantIn(t, body, "<strong>12,431 messages</strong> of topic", "PENDING or DEAD", "2026-02-20 12:00:00 UTC", "in another state, or no attempts left",
			"12,400", ">31<", "Retry 12,400 messages</button>", `name="canary" inputmode="numeric" value="1"`, `name="canary_wait" value="60s"`,
			`name="filter.created_before" value="2026-02-20T12:00:00.000Z"`, "unknown origin")
		wantNoMarkup(t, body)
		order, request := a.ordered(t)
		filter, _ := order["filter"].(map[string]any)
		if order["dry_run"] != true || filter["topic"] != "orders.*" || filter["created_before"] != "2026-02-20T12:00:00.000Z" {
			t.Errorf("got %v ordered, want a dry run of the filter up to now", order)
		}
		if got, _ := json.Marshal([]any{filter["status"], filter["header"]}); string(got) != `[["PENDING","DEAD"],["a","b=c"]]` {
			t.Errorf("got %s, want lists as the API has them", got)
		}
		if key := request.Header.Get("Idempotency-Key"); key != "" {
			t.Errorf("got key %q, want none for a look", key)
		}
	})
	t.Run("TakesIDs", func(t *testing.T) {
		t.Parallel()
		a := dryAPI(t, aDryRun)
		body := get(t, site(t, a), "/redrives/new?action=dead&ids=a,b&ids=c&created_before=x").Body.String()
		wantIn(t, body, "chosen one by one", `name="ids" value="a,b,c"`, "Mark 12,400 messages dead", "I mean these 12,400 messages")
		if order, _ := a.ordered(t); order["filter"] != nil || len(order["ids"].([]any)) != 3 { //nolint:forcetypeassert // a panic fails the test
			t.Errorf("got %v, want three ids and no filter", order)
		}
		if strings.Contains(body, `name="canary"`) || strings.Contains(body, `name="patch"`) {
			t.Error("got options of a retry for another action, want none")
		}
	})
	t.Run("NamesTheGroup", func(t *testing.T) {
		t.Parallel()
		a := dryAPI(t, aDryRun).says("GET /api/v1/groups/"+groupID, quoted(aGroup))
		body := get(t, site(t, a), "/redrives/new?group_id="+groupID).Body.String()
		wantIn(t, body, `href="/groups/`+groupID+`">SocketTimeoutException: &lt;script`)
		wantNoMarkup(t, body)
	})
	t.Run("ExplainsWhenNothingIsMeant", func(t *testing.T) {
		t.Parallel()
		wantIn(t, get(t, site(t, newAPI(t)), "/redrives/new").Body.String(), "Say first which", "Look first")
	})
	t.Run("TellsViewersWhyNot", func(t *testing.T) {
		t.Parallel()
		body := get(t, site(t, newAPI(t).says("GET /api/v1/session", readOnly)), "/redrives/new?action=delete&topic=x").Body.String()
		wantIn(t, body, "needs the role admin", "<button disabled>Delete</button>")
	})
	t.Run("OffersNothingWhereNothingGoes", func(t *testing.T) {
		t.Parallel()
		a := dryAPI(t, `{"selected": 3, "sendable": 0, "reasons": {"gone": 3}, "groups": []}`)
		wantIn(t, get(t, site(t, a), "/redrives/new?topic=x").Body.String(), `value="start" disabled>`, "none of them would go")
	})
	t.Run("WaitsForTheTopicOfAMap", func(t *testing.T) {
		t.Parallel()
		wantIn(t, get(t, site(t, newAPI(t)), "/redrives/new?action=map&topic=x").Body.String(), "Name the topic first")
	})
	t.Run("SaysWhatTheAPIRefusesWithWhatWasTyped", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusServiceUnavailable} {
			a := newAPI(t).says("POST /api/v1/redrives", refusal{status, "X", "the catalogue is behind", []map[string]any{{"field": "filter", "reason": "too <wide>"}}})
			w := post(t, site(t, a), "/redrives/new", url.Values{"filter.topic": {"x" + hostile}, "rate": {"7"}, "reason": {"mine"}, "do": {"preview"}})
			if w.Code != status {
				t.Errorf("got %d, want %d", w.Code, status)
			}
			wantIn(t, w.Body.String(), "the catalogue is behind", "too &lt;wide&gt;", `name="rate" inputmode="decimal" value="7"`, `value="mine"`, `name="filter.topic" value="x&lt;script`)
			wantNoMarkup(t, w.Body.String())
		}
	})
	t.Run("SaysWhatIsNoNumber", func(t *testing.T) {
		t.Parallel()
		w := post(t, site(t, newAPI(t)), "/redrives/new", url.Values{
			"filter.topic": {"x"}, "canary": {"many"}, "rate": {"fast"}, "max_failure": {"120"}, "patch": {"["}, "do": {"preview"},
		})
		if w.Code != http.StatusBadRequest {
			t.Errorf("got %d, want 400", w.Code)
		}
		wantIn(t, w.Body.String(), "<code>canary</code>: must be a whole number", "<code>rate</code>", "<code>max_failure</code>: must be a number from 0 to 100",
			"<code>patch</code>: is not JSON", `value="many"`)
	})
}

func TestPatchIsShownOnASample(t *testing.T) {
	t.Parallel()
	a := dryAPI(t, aPatchedRun)
	patch := "[{\"op\": \"replace\",\r\n\"path\": \"/a\", \"value\": 2}]"
	body := post(t, site(t, a), "/redrives/new", url.Values{"filter.topic": {"x"}, "patch": {patch}, "do": {"preview"}, "key": {"k"}}).Body.String()
	wantIn(t, body, "Tried on 2 messages", "does not fit <strong>1</strong>", `<del>  &#34;a&#34;: 1,</del>`, `<ins>  &#34;a&#34;: 2,</ins>`)
	wantNoMarkup(t, body)
	order, request := a.ordered(t)
	if order["patch"] == nil || order["dry_run"] != true {
		t.Errorf("got %v ordered, want a dry run with the patch", order)
	}
	if key := request.Header.Get("Idempotency-Key"); key != "" {
		t.Errorf("got key %q used up for a look, want it kept for what is done", key)
	}
	none := viewer{Name: "op", Grants: []grant{{"operator", []string{"*"}}}}
	wantIn(t, get(t, site(t, dryAPI(t, aDryRun).says("GET /api/v1/session", none)), "/redrives/new?topic=x").Body.String(), "needs the role edit")
}

// filled is the form as a page shows it, for a browser that sends it.
func filled(t *testing.T, s http.Handler, address string, more url.Values) url.Values {
	t.Helper()
	body := get(t, s, address).Body.String()
	form := url.Values{"do": {"start"}}
	for _, name := range []string{"key", "looks", "shown", "action"} {
		form.Set(name, field(t, body, name))
	}
	for _, name := range []string{"filter.created_before", "filter.topic", "filter.key"} {
		form.Set(name, field(t, body, name))
	}
	for name, values := range more {
		form[name] = values
	}
	return form
}

func startable(t *testing.T) *anAPI {
	t.Helper()
	a := newAPI(t)
	return a.says("POST /api/v1/redrives", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(a.bodies[len(a.bodies)-1], `"dry_run":true`) {
			_, _ = w.Write([]byte(quoted(aDryRun)))
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id": "` + redriveID + `"}`))
	}))
}

func TestRedriveIsStarted(t *testing.T) {
	t.Parallel()
	t.Run("AsItWasShown", func(t *testing.T) {
		t.Parallel()
		a := startable(t)
		s := site(t, a)
		form := filled(t, s, "/redrives/new?topic=orders&key=the+record", url.Values{
			"canary": {"2"}, "canary_wait": {"90s"}, "rate": {"0.5"}, "max_failure": {"12.5"}, "max_return": {"0"}, "min_sample": {"5"}, "keep_key_order": {"on"}, "reason": {"fixed"},
		})
		w := post(t, s, "/redrives/new", form)
		wantDone(t, "starting", w, "redrive", "/redrives/"+redriveID)
		order, request := a.ordered(t)
		if got, want := request.Header.Get("Idempotency-Key"), "console-"+form.Get("key"); got != want {
			t.Errorf("got key %q, want the form's, %q", got, want)
		}
		got, _ := json.Marshal(order)
		want := `{"action":"retry","canary":2,"canary_wait":"90s","filter":{"created_before":"2026-02-20T12:00:00.000Z","key":"the record","topic":"orders"},` +
			`"keep_key_order":true,"max_failure_share":0.125,"min_sample":5,"rate":0.5,"reason":"fixed"}`
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("NotWhenSomethingElseWasShown", func(t *testing.T) {
		t.Parallel()
		a := startable(t)
		s := site(t, a)
		w := post(t, s, "/redrives/new", filled(t, s, "/redrives/new?topic=orders&key=the+record", url.Values{"requeue": {"on"}}))
		wantIn(t, w.Body.String(), "Look again", "nothing was started", `name="requeue" value="on" checked`)
		if order, _ := a.ordered(t); order["dry_run"] != true {
			t.Errorf("got %v ordered, want a look alone", order)
		}
	})
	t.Run("NotWithoutWhatHurtsBeingMeant", func(t *testing.T) {
		t.Parallel()
		for action, missing := range map[string][]string{"dead": {"Say that you mean"}, "delete": {"Say that you mean", "needed for a deletion"}} {
			a := startable(t)
			s := site(t, a)
			address := "/redrives/new?topic=orders&key=the+record&action=" + action
			w := post(t, s, "/redrives/new", filled(t, s, address, nil))
			wantIn(t, w.Body.String(), missing...)
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s: got %d, want 400", action, w.Code)
			}
			if w := post(t, s, "/redrives/new", filled(t, s, address, url.Values{"meant": {"on"}, "reason": {"broken"}})); w.Code != http.StatusSeeOther {
				t.Errorf("%s: got %d when it is meant, want it done: %s", action, w.Code, w.Body)
			}
		}
	})
	t.Run("NotWhenItWouldHurtMoreThanWasShown", func(t *testing.T) {
		t.Parallel()
		for _, action := range []string{"dead", "delete"} {
			a, sendable := newAPI(t), "10"
			a.says("POST /api/v1/redrives", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(a.bodies[len(a.bodies)-1], `"dry_run":true`) {
					w.WriteHeader(http.StatusAccepted)
					_, _ = w.Write([]byte(`{"id": "` + redriveID + `"}`))
					return
				}
				_, _ = w.Write([]byte(`{"selected": 200, "sendable": ` + sendable + `, "reasons": {"gone": 1}, "groups": []}`))
			}))
			s := site(t, a)
			form := filled(t, s, "/redrives/new?topic=orders&key=the+record&action="+action, url.Values{"meant": {"on"}, "reason": {"broken"}})
			sendable = "199"
			w := post(t, s, "/redrives/new", form)
			wantIn(t, w.Body.String(), "Look again", "more now than you were shown: 199 messages", "I mean these 199 messages", `name="shown" value="199"`)
			if order, _ := a.ordered(t); w.Code != http.StatusConflict || order["dry_run"] != true || strings.Contains(w.Body.String(), `value="on" checked`) {
				t.Errorf("%s: got %d and %v ordered, want a look alone, and nothing meant yet", action, w.Code, order)
			}
			form.Del("shown")
			if w := post(t, s, "/redrives/new", form); w.Code != http.StatusConflict {
				t.Errorf("%s: got %d when nothing is known to have been shown, want 409", action, w.Code)
			}
			form.Set("shown", "200")
			wantDone(t, action+" of fewer", post(t, s, "/redrives/new", form), "redrive", "/redrives/"+redriveID)
		}
	})
	t.Run("WithAWordOfWhatMayFollow", func(t *testing.T) {
		t.Parallel()
		a := dryAPI(t, `{"selected": 200, "sendable": 10, "reasons": {"not_retryable": 187, "gone": 3}, "groups": []}`)
		wantIn(t, get(t, site(t, a), "/redrives/new?action=delete&ids=a,b").Body.String(), "I mean these 10 messages", "187 more are selected: each is taken too if its state allows it")
	})
	t.Run("NotWhenTheAPIRefuses", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		a.says("POST /api/v1/redrives", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(a.bodies[len(a.bodies)-1], `"dry_run":true`) {
				_, _ = w.Write([]byte(quoted(aDryRun)))
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error": {"code": "X", "message": "canary_wait: must be a duration", "details": []}}`))
		}))
		s := site(t, a)
		w := post(t, s, "/redrives/new", filled(t, s, "/redrives/new?topic=orders&key=the+record", url.Values{"canary": {"1"}, "canary_wait": {"soon"}}))
		if w.Code != http.StatusBadRequest {
			t.Errorf("got %d, want 400", w.Code)
		}
		wantIn(t, w.Body.String(), "canary_wait: must be a duration", `name="canary_wait" value="soon"`)
	})
}

// An address may come from anybody: what it says must not be pressed through unread.
func TestAddressOfARedriveSaysWhatAlone(t *testing.T) {
	t.Parallel()
	a := dryAPI(t, aDryRun)
	how := "&meant=on&reason=cleanup&patch=%5B%5D&rate=7&requeue=on&keep_key_order=on&canary=&canary_wait=1s&max_failure=&max_return=0&min_sample=9999"
	body := get(t, site(t, a), "/redrives/new?action=delete&topic=x"+how).Body.String()
	wantIn(t, body, `name="meant" value="on">`, `name="reason" maxlength="500" autocomplete="off" value="">`)
	body = get(t, site(t, a), "/redrives/new?topic=x"+how).Body.String()
	wantIn(t, body, `name="canary" inputmode="numeric" value="1"`, `name="canary_wait" value="60s"`, `name="max_failure" inputmode="decimal" value="10"`,
		`name="max_return" inputmode="decimal" value="10"`, `name="min_sample" inputmode="numeric" value="20"`, `name="rate" inputmode="decimal" value=""`,
		`name="requeue" value="on">`, `name="keep_key_order" value="on">`)
	if order, _ := a.ordered(t); order["patch"] != nil || order["reason"] != nil || order["requeue"] != nil {
		t.Errorf("got %v looked at, want nothing of how in it", order)
	}
	away := newAPI(t).says("POST /api/v1/redrives", refusal{http.StatusServiceUnavailable, "X", "later", nil})
	wantIn(t, get(t, site(t, away), "/redrives/new?topic=x").Body.String(), `name="canary" inputmode="numeric" value="1"`)
}

func TestDryRun_TellsNobodyWhatIsNotTheirs(t *testing.T) {
	t.Parallel()
	a := dryAPI(t, `{"selected": 2, "sendable": 0, "reasons": {"gone": 2}, "groups": [{"topic": null, "messages": 2, "class": "gone", "reason": null}]}`)
	body := get(t, site(t, a), "/redrives/new?ids=a,b").Body.String()
	wantIn(t, body, "is gone, or not yours to change", "not told")
	if strings.Contains(body, "unknown origin") {
		t.Error("got the messages said to be of unknown origin, want nothing said of them")
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	var got []string
	for _, line := range shortened(difference(strings.Split("a b c d e f g h", " "), strings.Split("a b c d X f g h", " ")), 0, 0) {
		got = append(got, line.Mark+line.Text)
	}
	if want := "…2 lines that stay|c|d|-e|+X|f|g|…1 line that stays"; strings.Join(got, "|") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "|"), want)
	}
	if lines := shortened(difference([]string{"a"}, []string{"a"}), 0, 0); len(lines) != 1 || lines[0].Mark != "…" {
		t.Errorf("got %v of two that are alike, want nothing but what stays", lines)
	}
}
