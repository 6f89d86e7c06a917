package redrive_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

const aDryRun = `{"action": "retry", "selected": 12431, "sendable": 12400, "reasons": {"not_retryable": 21, "UNKNOWN_TOPIC": 10},
	"groups": [{"topic": "HOSTILE", "messages": 12400, "class": null, "reason": null, "replay_removes": ["HOSTILE"]}, {"topic": null, "messages": 10, "class": "UNKNOWN_TOPIC", "reason": "HOSTILE"}],
	"samples": [], "patch_checked": 0, "patch_failed": 0, "overlaps": [], "searched_until": null}`

const redirectedRun = `{"action": "retry", "selected": 12, "sendable": 12, "reasons": {}, "groups": [
	{"topic": "orders", "target": "orders.v2", "messages": 9, "class": null, "reason": null}, {"topic": "payments", "target": "payments", "messages": 3, "class": null, "reason": null}],
	"messages": [{"id": "550e8400-e29b-41d4-a716-446655440000", "original_topic": "orders", "target": "orders.v2", "error_message": "card declined", "error_class": null,
	"cause": "card declined", "created_at": "2026-02-20T11:00:00.000+00:00"}], "samples": [], "patch_checked": 0, "patch_failed": 0, "overlaps": [], "searched_until": null}`

const aPatchedRun = `{"action": "retry", "selected": 3, "sendable": 3, "reasons": {}, "groups": [], "samples": [
	{"message_id": "HOSTILE", "before": {"a": 1, "b": "HOSTILE"}, "after": {"a": 2, "b": "HOSTILE"}, "reason": null},
	{"message_id": "x", "before": {"c": 1}, "after": null, "reason": "HOSTILE"}], "patch_checked": 2, "patch_failed": 1, "searched_until": null}`

func dryAPI(t *testing.T, dry string) *consoletest.API {
	t.Helper()
	return consoletest.NewAPI(t).Says("POST /api/v1/redrives", consoletest.Quoted(dry))
}

// ordered returns the body of the last request that creates a redrive, and this request.
func ordered(t *testing.T, a *consoletest.API) (order string, request *http.Request) {
	t.Helper()
	asked, bodies := a.Asked("POST /api/v1/redrives")
	if len(asked) == 0 {
		t.Fatal("got nothing asked of the API, want an order")
	}
	return bodies[len(bodies)-1], asked[len(asked)-1]
}

func wantLookAlone(t *testing.T, a *consoletest.API) {
	t.Helper()
	if order, _ := ordered(t, a); !strings.Contains(order, `"dry_run":true`) {
		t.Errorf("got %s ordered, want a look alone", order)
	}
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
	none := consoletest.Raw(`{"selected": 3, "sendable": 0, "reasons": {"gone": 3}, "groups": []}`)
	hidden := consoletest.Raw(`{"selected": 2, "sendable": 0, "reasons": {"gone": 2}, "groups": [{"topic": null, "messages": 2, "class": "gone", "reason": null}]}`)
	later := consoletest.Raw(`{"selected": 200, "sendable": 10, "reasons": {"not_retryable": 187, "gone": 3}, "groups": []}`)
	const dry, overlapsUnknown = "POST /api/v1/redrives", "It is not known whether other redrives"
	api := func(t *testing.T) *consoletest.API { t.Helper(); return dryAPI(t, aDryRun) }
	consoletest.Shows(t, api, map[string]consoletest.Look{
		"IsLookedAtFirst": {Path: "/redrives/new?action=retry&topic=orders.*&status=PENDING,DEAD&q=" + url.QueryEscape(consoletest.Hostile), Lacks: []string{overlapsUnknown}, Has: []string{
			"without <code>&lt;script",
			"<strong>12,431 messages</strong> of topic", "PENDING or DEAD", "2026-02-20 12:00:00 UTC", "it is in another state, or has no attempts left",
			"12,400",
			">31<", "Retry 12,400 messages</button>", `name="canary" inputmode="numeric" value="20"`, `name="canary_wait" value="60s"`,
			`name="filter.created_before" value="2026-02-20T12:00:00.000Z"`, "unknown origin",
		}},
		"TakesIDs": {
			Path: "/redrives/new?action=dead&ids=a,b&ids=c&created_before=x", Lacks: []string{`name="canary"`, `name="patch"`},
			Has: []string{"chosen one by one", `name="ids" value="a,b,c"`, "Mark 12,400 messages dead", "Confirm these 12,400 messages"},
		},
		"NamesTheTargets": {Path: "/redrives/new?action=retry&topic=x", Says: consoletest.Answers{dry: consoletest.Raw(redirectedRun)}, Has: []string{
			`<span class="topic">orders.v2</span> <span class="small">redirected</span>`, `<td><span class="topic">payments</span></td>`, "Some of the messages",
			`href="/messages/550e8400-e29b-41d4-a716-446655440000">`, "card declined", "1 h ago", "or to the target of its redirect",
		}},
		"NamesNoTargetsWhenNothingIsSent": {
			Path: "/redrives/new?action=dead&topic=x", Says: consoletest.Answers{dry: consoletest.Raw(strings.ReplaceAll(redirectedRun, `"target": "orders.v2"`, `"target": null`))},
			Has: []string{"Some of the messages", "card declined"}, Lacks: []string{"Sent to", "orders.v2"},
		},
		"NamesTheGroup": {
			Path: "/redrives/new?group_id=" + consoletest.GroupID, Says: consoletest.Answers{"GET /api/v1/groups/" + consoletest.GroupID: consoletest.Quoted(consoletest.AGroup)},
			Has: []string{`href="/groups/` + consoletest.GroupID + `">&lt;script`},
		},
		"ExplainsWhenNothingIsMeant": {Path: "/redrives/new", Has: []string{"Select them first", "Preview"}},
		"TellsViewersWhyNot": {
			Path: "/redrives/new?action=delete&topic=x", Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly},
			Has: []string{"needs the role admin", "<button disabled>Delete</button>"},
		},
		"TellsWhoMayNotPatch": {
			Path: "/redrives/new?topic=x", Says: consoletest.Answers{"GET /api/v1/session": consoletest.WithRole("operator", "*")},
			Has: []string{"needs the role edit"},
		},
		"OffersNothingWhereNothingGoes": {Path: "/redrives/new?topic=x", Says: consoletest.Answers{dry: none}, Has: []string{
			`value="start" disabled>`,
			"none of them can be sent", overlapsUnknown,
		}},
		"TakesArchivedMessages": {
			Path: "/redrives/new?archived=true&action=restore&topic=x", Lacks: []string{"with status", "Requeue", `name="canary"`},
			Has: []string{
				"<strong>12,431 messages</strong> of topic", "in the archive", `name="archived" value="true"`, "Restore 12,400 messages</button>",
				`?action=delete&amp;archived=true&amp;created_before=`, ">Erase</a>",
			},
		},
		"ArchivedRetryTakesNoDeadMessages": {
			Path: "/redrives/new?archived=true&topic=x", Lacks: []string{`name="requeue"`}, Has: []string{`name="canary"`, `name="patch"`},
		},
		"WaitsForTheTopicOfAMap": {Path: "/redrives/new?action=map&topic=x", Has: []string{"Enter the topic first"}},
		"SaysWhatMayFollow": {
			Path: "/redrives/new?action=delete&ids=a,b", Says: consoletest.Answers{dry: later},
			Has: []string{"Confirm these 10 messages", "187 more are selected: each is also processed if its state allows it"},
		},
		"TellsNobodyWhatIsNotTheirs": {
			Path: "/redrives/new?ids=a,b", Says: consoletest.Answers{dry: hidden}, Has: []string{"it no longer exists, or you may not change it", "not shown"},
			Lacks: []string{"unknown origin"},
		},
	})
	a := api(t)
	consoletest.Get(t, consoletest.Site(t, a), "/redrives/new?action=retry&topic=orders.*&status=PENDING,DEAD&header=a&header=b%3Dc")
	consoletest.WantSent(t, a, dry, `{"action":"retry","dry_run":true,"filter":{"created_before":"2026-02-20T12:00:00.000Z","header":["a","b=c"],`+
		`"status":["PENDING","DEAD"],"topic":"orders.*"}}`, "")
	a = api(t)
	consoletest.Get(t, consoletest.Site(t, a), "/redrives/new?archived=true&action=restore&topic=x&created_before=2026-02-20T12:00:00.000Z")
	consoletest.WantSent(t, a, dry, `{"action":"restore","archived":true,"dry_run":true,"filter":{"created_before":"2026-02-20T12:00:00.000Z","topic":"x"}}`, "")
	a = api(t)
	consoletest.Get(t, consoletest.Site(t, a), "/redrives/new?action=dead&ids=a,b&ids=c&created_before=x")
	consoletest.WantSent(t, a, dry, `{"action":"dead","dry_run":true,"ids":["a","b","c"]}`, "")
}

func TestNewRedrive_SaysWhatIsWrongWithWhatWasTyped(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusServiceUnavailable} {
		a := consoletest.NewAPI(t).Says("POST /api/v1/redrives", consoletest.Refuse(status, "X", "the catalogue is behind", []map[string]any{{
			"field":  "filter",
			"reason": "too <wide>",
		}}))
		w := consoletest.Post(t, consoletest.Site(t, a), "/redrives/new", url.Values{
			"filter.topic": {"x" + consoletest.Hostile}, "rate": {"7"}, "reason": {"mine"},
			"do": {"preview"},
		})
		consoletest.WantSays(t, "refused", w, http.StatusOK, "the catalogue is behind", "too &lt;wide&gt;", `name="rate" inputmode="decimal" value="7"`,
			`value="mine"`,
			`name="filter.topic" value="x&lt;script`)
		consoletest.WantNoMarkup(t, w.Body.String())
	}
	w := consoletest.Post(t, consoletest.Site(t, consoletest.NewAPI(t)), "/redrives/new", url.Values{
		"filter.topic": {"x"}, "canary": {"many"}, "rate": {"fast"}, "max_failure": {"120"}, "patch": {"["}, "do": {"preview"},
	})
	consoletest.WantSays(t, "no numbers", w, http.StatusOK, "<code>canary</code>: must be a whole number", "<code>rate</code>",
		"<code>max_failure</code>: must be a number from 0 to 100", "<code>patch</code>: is not JSON", `value="many"`)
}

func TestPatchIsShownOnASample(t *testing.T) {
	t.Parallel()
	a := dryAPI(t, aPatchedRun)
	form := url.Values{
		"filter.topic": {"x"}, "patch": {"[{\"op\": \"replace\",\r\n\"path\": \"/a\", \"value\": 2}]"}, "do": {"preview"},
		"key": {"k"},
	}
	body := consoletest.Post(t, consoletest.Site(t, a), "/redrives/new", form).Body.String()
	consoletest.MustHave(t, body, "Retry up to 3 messages</button>", "Tried on 2 messages", "does not apply to <strong>1</strong>", `<del>  &#34;a&#34;: 1,</del>`, `<ins>  &#34;a&#34;: 2,</ins>`)
	consoletest.WantNoMarkup(t, body)
	consoletest.WantSent(t, a, "POST /api/v1/redrives",
		`{"action":"retry","dry_run":true,"filter":{"created_before":"2026-02-20T12:00:00.000Z","topic":"x"},`+
			`"patch":[{"op":"replace","path":"/a","value":2}]}`, "") // a preview does not use up the idempotency key
}

// filled returns the form that starts a redrive, with the hidden values of the page at the address and the values of
// the parameter more.
func filled(t *testing.T, s http.Handler, address string, more url.Values) url.Values {
	t.Helper()
	body := consoletest.Get(t, s, address).Body.String()
	form := url.Values{"do": {"start"}}
	for _, name := range []string{"key", "looks", "shown", "action", "filter.created_before", "filter.topic", "filter.key"} {
		form.Set(name, field(t, body, name))
	}
	maps.Copy(form, more)
	return form
}

// startable is an API that accepts redrives. A dry run answers that *sendable messages can be sent.
func startable(t *testing.T, sendable *int) *consoletest.API {
	t.Helper()
	a := consoletest.NewAPI(t)
	return a.Says("POST /api/v1/redrives", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if strings.Contains(a.Bodies[len(a.Bodies)-1], `"dry_run":true`) {
			fmt.Fprintf(w, `{"selected": 200, "sendable": %d, "reasons": {"gone": 1}, "groups": []}`, *sendable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id": %q}`, consoletest.RedriveID)
	}))
}

func TestRedriveIsStarted(t *testing.T) {
	t.Parallel()
	const address = "/redrives/new?topic=orders&key=the+record"
	t.Run("AsItWasShown", func(t *testing.T) {
		t.Parallel()
		a := startable(t, new(10))
		s := consoletest.Site(t, a)
		form := filled(t, s, address, url.Values{
			"canary": {"2"}, "canary_wait": {"90s"}, "rate": {"0.5"}, "max_failure": {"12.5"}, "max_return": {"0"}, "min_sample": {"5"},
			"keep_key_order": {"on"}, "reason": {"fixed"},
		})
		consoletest.WantDone(t, "starting", consoletest.Post(t, s, "/redrives/new", form), "redrive", "/redrives/"+consoletest.RedriveID)
		order, request := ordered(t, a)
		if got, want := request.Header.Get("Idempotency-Key"), "console-"+form.Get("key"); got != want {
			t.Errorf("got key %q, want the form's, %q", got, want)
		}
		if want := `{"action":"retry","canary":2,"canary_wait":"90s","filter":{"created_before":"2026-02-20T12:00:00.000Z","key":"the record","topic":"orders"},` +
			`"keep_key_order":true,"max_failure_share":0.125,"min_sample":5,"rate":0.5,"reason":"fixed"}`; order != want {
			t.Errorf("got %s, want %s", order, want)
		}
	})
	t.Run("NotWhenThePreviewLeftEnvelopesOut", func(t *testing.T) {
		t.Parallel()
		a := startable(t, new(10))
		s := consoletest.Site(t, a)
		w := consoletest.Post(t, s, "/redrives/new", filled(t, s, address, url.Values{"accept_envelope": {"on"}}))
		consoletest.MustHave(t, w.Body.String(), "The preview has changed", `name="accept_envelope" value="on" checked`)
		if order, _ := ordered(t, a); !strings.Contains(order, `{"accept_envelope":true,"action":"retry","dry_run":true`) {
			t.Errorf("got %s, want a preview that accepts envelopes", order)
		}
	})
	t.Run("NotWhenSomethingElseWasShown", func(t *testing.T) {
		t.Parallel()
		a := startable(t, new(10))
		s := consoletest.Site(t, a)
		w := consoletest.Post(t, s, "/redrives/new", filled(t, s, address, url.Values{"requeue": {"on"}}))
		consoletest.MustHave(t, w.Body.String(), "The preview has changed", "Nothing was started", `name="requeue" value="on" checked`)
		wantLookAlone(t, a)
	})
	t.Run("NotWithoutWhatHurtsBeingMeant", func(t *testing.T) {
		t.Parallel()
		for action, missing := range map[string][]string{"dead": {"Tick the box to confirm"}, "delete": {"Tick the box to confirm", "required for a deletion"}} {
			s := consoletest.Site(t, startable(t, new(10)))
			consoletest.WantSays(t, action, consoletest.Post(t, s, "/redrives/new", filled(t, s, address+"&action="+action, nil)), http.StatusOK, missing...)
			form := filled(t, s, address+"&action="+action, url.Values{"meant": {"on"}, "reason": {"broken"}})
			consoletest.WantTo(t, action+" that is meant", consoletest.Post(t, s, "/redrives/new", form), "/redrives/"+consoletest.RedriveID)
		}
	})
	t.Run("NotWhenItWouldHurtMoreThanWasShown", func(t *testing.T) {
		t.Parallel()
		for _, action := range []string{"dead", "delete"} {
			sendable := 10
			a := startable(t, &sendable)
			s := consoletest.Site(t, a)
			form := filled(t, s, address+"&action="+action, url.Values{"meant": {"on"}, "reason": {"broken"}})
			sendable = 199
			w := consoletest.Post(t, s, "/redrives/new", form)
			consoletest.WantSays(t, action, w, http.StatusOK, "The preview has changed", "More messages match now than were shown: 199 messages", "Confirm these 199 messages",
				`name="shown" value="199"`)
			consoletest.MustNotHave(t, w.Body.String(), `value="on" checked`) // the box for the confirmation is not ticked
			wantLookAlone(t, a)
			form.Del("shown")
			consoletest.WantSays(t, action+" without what was shown", consoletest.Post(t, s, "/redrives/new", form), http.StatusOK)
			form.Set("shown", "200")
			consoletest.WantDone(t, action+" of fewer", consoletest.Post(t, s, "/redrives/new", form), "redrive", "/redrives/"+consoletest.RedriveID)
		}
	})
	t.Run("NotWhenTheAPIRefuses", func(t *testing.T) {
		t.Parallel()
		a := startable(t, new(10))
		form := filled(t, consoletest.Site(t, a), address, url.Values{"canary": {"1"}, "canary_wait": {"soon"}})
		a.Says("POST /api/v1/redrives", consoletest.Refuse(http.StatusBadRequest, "X", "canary_wait: must be a duration", nil))
		consoletest.WantSays(t, "the page", consoletest.Post(t, consoletest.Site(t, a), "/redrives/new", form), http.StatusOK, "canary_wait: must be a duration",
			`name="canary_wait" value="soon"`)
	})
}

// Anyone may write an address, so an address only selects messages and an action: it starts nothing, and cannot set how
// the redrive works.
func TestAddressOfARedriveSaysWhatAlone(t *testing.T) {
	t.Parallel()
	a := dryAPI(t, aDryRun)
	how := "&meant=on&reason=cleanup&patch=%5B%5D&rate=7&requeue=on&keep_key_order=on&canary=&canary_wait=1s&max_failure=&max_return=0&min_sample=9999"
	body := consoletest.Get(t, consoletest.Site(t, a), "/redrives/new?action=delete&topic=x"+how).Body.String()
	consoletest.MustHave(t, body, `name="meant" value="on">`, `name="reason" maxlength="500" autocomplete="off" value="">`)
	body = consoletest.Get(t, consoletest.Site(t, a), "/redrives/new?topic=x"+how).Body.String()
	consoletest.MustHave(t, body, `name="canary" inputmode="numeric" value="20"`, `name="canary_wait" value="60s"`,
		`name="max_failure" inputmode="decimal" value="10"`,
		`name="max_return" inputmode="decimal" value="10"`, `name="min_sample" inputmode="numeric" value="20"`, `name="rate" inputmode="decimal" value=""`,
		`name="requeue" value="on">`, `name="keep_key_order" value="on">`)
	if got, _ := ordered(t, a); got != `{"action":"retry","dry_run":true,"filter":{"created_before":"2026-02-20T12:00:00.000Z","topic":"x"}}` {
		t.Errorf("got %s looked at, want nothing of how in it", got)
	}
	away := consoletest.NewAPI(t).Says("POST /api/v1/redrives", consoletest.Refuse(http.StatusServiceUnavailable, "X", "later", nil))
	consoletest.MustHave(t, consoletest.Get(t, consoletest.Site(t, away), "/redrives/new?topic=x").Body.String(), `name="canary" inputmode="numeric" value="1"`)
}

// When the preview of a redrive that starts from a facet's value selects another number of messages than the facet
// counted, it shows both numbers.
func TestPreviewIsComparedWithTheFacet(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                           "",
		"&counted=x":                 "",
		"&counted=12431":             "",
		"&counted=12500":             "The facet counted 12,500 messages with this value, in any status. 12,431 of them are selected",
		"&counted=12000":             "The facet counted 12,000 messages with this value. Now 12,431 match.",
		"&counted=7&counted_of=1000": "The facet counted 7 messages with this value, among the newest 1,000 that match. 12,431 of all are selected here.",
	} {
		a := dryAPI(t, aDryRun)
		body := consoletest.Get(t, consoletest.Site(t, a), "/redrives/new?action=retry&topic=orders"+query).Body.String()
		if got := strings.Contains(body, `id="compared"`); got != (want != "") || !strings.Contains(body, want) {
			t.Errorf("%s: the comparison is shown: %t, want %q", query, got, want)
		}
	}
}
