package console

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// hostile is a text that wants to be markup.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

const someTopics = `{"topics": [
	{"topic": "orders.events.v1", "dlq_topics": ["orders.dlq.v1"], "counts": {"PENDING": 12431, "RETRYING": 1, "RESOLVED": 5, "DEAD": 7}, "total": 12444,
	 "oldest_pending_at": "2026-02-20T10:00:00.000+00:00", "last_seen_at": "2026-02-20T11:30:00.000+00:00", "ingest_lag": 3,
	 "replay": {"possible": true, "reason": null, "class": null, "exists": true, "allowed": true, "consumer_groups": [{"group": "billing", "state": "running", "lag": 0}]}},
	{"topic": "", "dlq_topics": ["HOSTILE"], "counts": {"PENDING": 2, "RETRYING": 0, "RESOLVED": 0, "DEAD": 0}, "total": 2,
	 "oldest_pending_at": "2026-02-20T09:00:00.000+00:00", "last_seen_at": "2026-02-20T09:30:00.000+00:00", "ingest_lag": null,
	 "replay": {"possible": false, "reason": "HOSTILE", "class": "UNKNOWN_TOPIC", "exists": null, "allowed": false, "consumer_groups": []}}
], "next_cursor": null}`

const someActivity = `{"span": "day", "step_seconds": 3600, "points": [
	{"at": "2026-02-20T11:00:00.000+00:00", "arrived": 4, "returned": 0}, {"at": "2026-02-20T12:00:00.000+00:00", "arrived": 9, "returned": 2}],
	"counted_until": "2026-02-20T11:59:59.000+00:00"}`

const someGroups = `{"groups": [
	{"id": "650ee99a-d1c9-8faa-8ea2-3653afc6425f", "class": "HOSTILE", "title": "HOSTILE", "first_seen_at": "2026-02-19T10:00:00.000+00:00",
	 "last_seen_at": "2026-02-20T11:30:00.000+00:00", "new": false, "regressed": false, "open": 12000, "muted": false, "topics": [{"topic": "HOSTILE", "messages": 12000}]},
	{"id": "650ee99a-d1c9-8faa-8ea2-3653afc64260", "class": null, "title": "came back", "first_seen_at": "2026-02-10T10:00:00.000+00:00",
	 "last_seen_at": "2026-02-20T11:30:00.000+00:00", "new": false, "regressed": true, "open": 3, "muted": false, "topics": []}
], "next_cursor": null}`

// quoted puts the hostile text where JSON says so.
func quoted(json string) raw {
	return raw(strings.ReplaceAll(json, "HOSTILE", strings.ReplaceAll(hostile, `"`, `\"`)))
}

// wantNoMarkup wants nothing that came from data to be more than text.
func wantNoMarkup(t *testing.T, body string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", `"'>`, `href="javascript:`} {
		if at := strings.Index(body, bad); at >= 0 {
			t.Errorf("got data as markup: …%s…", body[max(0, at-80):min(len(body), at+80)])
		}
	}
}

func overviewAPI(t *testing.T) *anAPI {
	t.Helper()
	return newAPI(t).
		says("GET /readyz", raw(`{"status": "ready", "checks": {"database": "ok", "kafka": "failed"}}`)).
		says("GET /api/v1/topics", quoted(someTopics)).
		says("GET /api/v1/activity", raw(someActivity)).
		says("GET /api/v1/groups", quoted(someGroups)).
		says("GET /api/v1/quarantine", raw(`{"records": [], "next_cursor": null}`)).
		says("GET /api/v1/redrives", raw(`{"redrives": [], "next_cursor": null}`))
}

func TestOverviewTellsWhatFailsSinceWhenAndWhatToDo(t *testing.T) {
	t.Parallel()
	w := get(t, site(t, overviewAPI(t)), "/")
	body := w.Body.String()
	if w.Code != http.StatusOK {
		t.Fatalf("got %d: %s", w.Code, body)
	}
	for _, want := range []string{
		"12,433", "oldest <time", "3 h ago", `badge bad">kafka`, `badge ok">database`, "13 arrived, 2 of them returned",
		"2 replays came back in the last hour: find the cause first", "cannot be sent back: &lt;script",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("want %q in the page", want)
		}
	}
	if strings.Index(body, "came back</a>") > strings.Index(body, "12,000") {
		t.Error("got the largest group first, want the one that came back before it")
	}
	wantNoMarkup(t, body)
}

func TestAdvice(t *testing.T) {
	t.Parallel()
	state := func(change func(*topicState)) topicState {
		s := topicState{Topic: "orders", Counts: counts{Pending: 3}, LastSeen: noon.Add(-time.Hour), Replay: replay{Possible: true}}
		change(&s)
		return s
	}
	absent := replay{Possible: true, Groups: []consumerGroup{{Group: "billing", State: "absent"}}}
	for name, c := range map[string]struct {
		state    topicState
		returned int64
		good     bool
		want     string
	}{
		"Quiet":         {state(func(*topicState) {}), 0, true, "nothing new for 1 h: try one"},
		"StillFailing":  {state(func(s *topicState) { s.LastSeen = noon.Add(-time.Second) }), 0, false, "still failing"},
		"CameBack":      {state(func(*topicState) {}), 1, false, "1 replay came back"},
		"NobodyReads":   {state(func(s *topicState) { s.Replay = absent }), 0, false, "no consumer"},
		"Refused":       {state(func(s *topicState) { s.Replay = replay{Reason: "it is gone"} }), 0, false, "it is gone"},
		"OnlyDead":      {state(func(s *topicState) { s.Counts = counts{Dead: 1} }), 0, true, "requeue"},
		"BeingRetried":  {state(func(s *topicState) { s.Counts = counts{Retrying: 1} }), 0, true, "under way"},
		"RefusedBefore": {state(func(s *topicState) { s.Replay = replay{Reason: "no"}; s.LastSeen = noon }), 3, false, "cannot be sent back"},
	} {
		got := c.state.advise(noon, c.returned)
		if got.Good != c.good || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: got %+v, want good %t, %q", name, got, c.good, c.want)
		}
	}
}

func TestAnEmptySystemSaysHowToBegin(t *testing.T) {
	t.Parallel()
	a := overviewAPI(t).says("GET /api/v1/topics", raw(`{"topics": [], "next_cursor": null}`)).
		says("GET /api/v1/groups", raw(`{"groups": [], "next_cursor": null}`))
	body := get(t, site(t, a), "/").Body.String()
	for _, want := range []string{"Nothing was taken in yet", "kafka-console-producer.sh", "orders.dlq.v1"} {
		if !strings.Contains(body, want) {
			t.Errorf("want %q in the page", want)
		}
	}
}

func TestTopicsTellWhetherReplayIsPossible(t *testing.T) {
	t.Parallel()
	body := get(t, site(t, newAPI(t).says("GET /api/v1/topics", quoted(someTopics))), "/topics").Body.String()
	for _, want := range []string{"orders.dlq.v1", "billing", "running, 0 behind", "unknown origin", ">possible<", ">refused<"} {
		if !strings.Contains(body, want) {
			t.Errorf("want %q in the page", want)
		}
	}
	wantNoMarkup(t, body)
}

func TestOverviewStandsWithoutAPart(t *testing.T) {
	t.Parallel()
	a := overviewAPI(t).says("GET /api/v1/activity", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the database cannot be reached", nil}).
		says("GET /api/v1/topics", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the database cannot be reached", nil})
	w := get(t, site(t, a), "/")
	body := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(body, "the topics, the arrivals, the last arrivals") || !strings.Contains(body, "came back</a>") {
		t.Errorf("got %d %s, want what could be read, and what is missing", w.Code, body)
	}
	if strings.Contains(body, "Nothing was taken in yet") {
		t.Error("got told that nothing was taken in, want that nobody knows")
	}
}

func TestWhoSeesLittleIsToldSo(t *testing.T) {
	t.Parallel()
	a := overviewAPI(t).says("GET /api/v1/topics", raw(`{"topics": [], "next_cursor": null}`)).
		says("GET /api/v1/groups", raw(`{"groups": [], "next_cursor": null}`)).
		says("GET /api/v1/session", viewer{Name: "v", Mode: "token", Grants: []grant{{"operator", []string{"zzz.*"}}}})
	body := get(t, site(t, a), "/").Body.String()
	if !strings.Contains(body, "on your topics: <code>zzz.*</code>") || strings.Contains(body, "kafka-console-producer") {
		t.Errorf("got %s, want the viewer's topics named, and nobody taught to send letters", body)
	}
}

func TestErrorPagesLeadOn(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/topics", refusal{http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "not allowed", nil})
	body := get(t, site(t, a), "/topics").Body.String()
	if !strings.Contains(body, `<nav aria-label="Pages">`) || !strings.Contains(body, "anonymous") {
		t.Errorf("got %s, want the way to the other pages", body)
	}
}
