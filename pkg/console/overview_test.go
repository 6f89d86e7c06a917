package console

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

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

func TestOverview(t *testing.T) {
	t.Parallel()
	away := refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the database cannot be reached", nil}
	nothing := answers{"GET /api/v1/topics": raw(`{"topics": []}`), "GET /api/v1/groups": raw(`{"groups": []}`)}
	little := answers{
		"GET /api/v1/session": withRole("operator", "zzz.*"), "GET /api/v1/topics": raw(`{"topics": []}`),
		"GET /api/v1/groups": raw(`{"groups": []}`),
	}
	shows(t, overviewAPI, map[string]look{
		"TellsWhatFailsSinceWhenAndWhatToDo": {path: "/", lacks: []string{`href="/quarantine"`}, has: []string{
			"12,433", "oldest <time", "3 h ago", `badge bad">kafka`, `badge ok">database`, "13 arrived, 2 of them failed again",
			"2 replays failed again in the last hour: find the cause first", "cannot be sent back: &lt;script",
		}},
		"NamesTheQuarantine": {
			path: "/", says: answers{"GET /api/v1/quarantine": quoted(someQuarantine)},
			has: []string{`href="/quarantine"`},
		},
		"OfNothingSaysHowToGo": {path: "/", says: nothing, has: []string{
			"No message has arrived yet", "kafka-console-producer.sh",
			"orders.dlq.v1",
		}},
		"OfLittleNamesTheGrant": {
			path: "/", says: little, has: []string{"on your topics: <code>zzz.*</code>"},
			lacks: []string{"kafka-console-producer"},
		},
		"IsThereWithoutAPart": {
			path: "/", says: answers{"GET /api/v1/activity": away, "GET /api/v1/topics": away},
			has: []string{"the topics, the arrivals, the last arrivals", "came back</a>"}, lacks: []string{"No message has arrived yet"},
		},
	})
	body := get(t, site(t, overviewAPI(t)), "/").Body.String()
	if strings.Index(body, "came back</a>") > strings.Index(body, "12,000") {
		t.Error("got the largest group first, want the one that came back before it")
	}
}

func TestTopics(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T) *anAPI { t.Helper(); return newAPI(t).says("GET /api/v1/topics", quoted(someTopics)) }
	shows(t, api, map[string]look{
		"TellWhetherReplayIsPossible": {path: "/topics", has: []string{
			"orders.dlq.v1", "billing", "running, lag 0", "unknown origin",
			">possible<", ">refused<",
		}},
		"ThatAreRefusedLeadOn": {
			path: "/topics", says: answers{"GET /api/v1/topics": refusal{http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "not allowed", nil}},
			status: http.StatusForbidden, has: []string{`<nav aria-label="Pages">`, "anonymous"},
		},
	})
	cfg := DefaultConfig()
	cfg.Name = "dead-letters-eu"
	mustHave(t, get(t, siteWith(t, cfg, api(t)), "/topics").Body.String(), "<title>Topics · dead-letters-eu</title>")
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
		"CameBack":      {state(func(*topicState) {}), 1, false, "1 replay failed again"},
		"NobodyReads":   {state(func(s *topicState) { s.Replay = absent }), 0, false, "no consumer"},
		"Refused":       {state(func(s *topicState) { s.Replay = replay{Reason: "it is gone"} }), 0, false, "it is gone"},
		"OnlyDead":      {state(func(s *topicState) { s.Counts = counts{Dead: 1} }), 0, true, "requeue"},
		"BeingRetried":  {state(func(s *topicState) { s.Counts = counts{Retrying: 1} }), 0, true, "under way"},
		"RefusedBefore": {state(func(s *topicState) { s.Replay = replay{Reason: "no"}; s.LastSeen = noon }), 3, false, "cannot be sent back"},
	} {
		if got := c.state.advise(noon, c.returned); got.Good != c.good || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: got %+v, want good %t, %q", name, got, c.good, c.want)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/audit",
		quoted(`{"changes": [{"id": 3, "at": "2026-02-20T10:30:00.000+00:00", "action": "dead", "kind": "message",
		"object_id": "550e8400-e29b-41d4-a716-446655440000", "from": "PENDING", "to": "DEAD", "retry_count": 1, "error_class": "HOSTILE", "error": "HOSTILE",
		"actor": "HOSTILE", "reason": "HOSTILE", "request_id": "req_1", "trace_id": null}], "next_cursor": "abc"}`))
	body := get(t, site(t, a), "/audit?kind=message&action=dead&actor=alice&unknown=1").Body.String()
	mustHave(t, body, "/messages/550e8400-e29b-41d4-a716-446655440000", `badge dead">DEAD`, "cursor=abc", `<option selected>dead`,
		`value="alice"`)
	wantNoMarkup(t, body)
	wantAsked(t, a, "GET /api/v1/audit", "action=dead&actor=alice&kind=message&limit=100")
	a.says("GET /api/v1/audit", refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "after: must be a time", nil})
	wantSays(t, "a wrong time", get(t, site(t, a), "/audit?after=yesterday"), http.StatusBadRequest, "after: must be a time",
		`value="yesterday"`)
}
