package overview_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

const someTopics = `{"topics": [
	{"topic": "orders.events.v1", "dlq_topics": ["orders.dlq.v1"], "counts": {"PENDING": 12431, "RETRYING": 1, "RESOLVED": 5, "DEAD": 7}, "total": 12444,
	 "oldest_pending_at": "2026-02-20T10:00:00.000+00:00", "last_seen_at": "2026-02-20T11:30:00.000+00:00", "ingest_lag": 3,
	 "replay": {"possible": true, "reason": null, "class": null, "exists": true, "allowed": true, "consumer_groups": [{"group": "billing", "state": "running", "lag": 0}]}},
	{"topic": "", "dlq_topics": ["HOSTILE"], "counts": {"PENDING": 2, "RETRYING": 0, "RESOLVED": 0, "DEAD": 0}, "total": 2,
	 "oldest_pending_at": "2026-02-20T09:00:00.000+00:00", "last_seen_at": "2026-02-20T09:30:00.000+00:00", "ingest_lag": null,
	 "replay": {"possible": false, "reason": "HOSTILE", "class": "UNKNOWN_TOPIC", "exists": null, "allowed": false, "consumer_groups": []}}
], "next_cursor": null}`

const someShareGroups = `{"share_groups": [
	{"group": "billing", "dlq_topic": "dlq.billing", "copies_records": false, "topics": ["orders.events.v1"], "messages_waiting": 1234, "messages_refused": 2,
	 "problems": [{"code": "wrong_prefix", "text": "HOSTILE", "command": "kafka-configs.sh --alter 'billing' HOSTILE"}, {"code": "own_topic", "text": "a loop", "command": null},
	  {"code": "not_enabled", "text": null, "command": null}]},
	{"group": "HOSTILE", "dlq_topic": "HOSTILE", "copies_records": true, "topics": null, "messages_waiting": 0, "messages_refused": 0, "problems": []}
], "total": 3}`

// withoutKafka changes the answer someTopics to the answer that the API gives when Kafka does not answer.
var withoutKafka = strings.NewReplacer(`"next_cursor": null`, `"next_cursor": null, "missing": ["replay", "ingest_lag"]`, `"class": null`, `"class": "BROKER_UNAVAILABLE"`,
	`"possible": true`, `"possible": false`, "UNKNOWN_TOPIC", "BROKER_UNAVAILABLE", `"ingest_lag": 3`, `"ingest_lag": null`).Replace(someTopics)

const someActivity = `{"span": "hour", "step_seconds": 60, "points": [
	{"at": "2026-02-20T11:40:00.000+00:00", "arrived": 3, "returned": 0}, {"at": "2026-02-20T11:44:00.000+00:00", "arrived": 1, "returned": 0},
	{"at": "2026-02-20T11:45:00.000+00:00", "arrived": 9, "returned": 2}, {"at": "2026-02-20T11:59:00.000+00:00", "arrived": 20, "returned": 0}],
	"counted_until": "2026-02-20T11:59:59.000+00:00"}`

const someGroups = `{"groups": [
	{"id": "650ee99a-d1c9-8faa-8ea2-3653afc6425f", "class": "HOSTILE", "title": "HOSTILE", "first_seen_at": "2026-02-19T10:00:00.000+00:00",
	 "last_seen_at": "2026-02-20T11:30:00.000+00:00", "new": false, "regressed": false, "open": 12001, "counts": {"PENDING": 12000, "RETRYING": 0, "RESOLVED": 0, "DEAD": 1}, "muted": true,
	 "recent": {"since": "2026-02-20T11:45:00.000+00:00", "arrived": 4200, "counted_until": "2026-02-20T11:59:58.000+00:00", "minutes": [{"minute": "2026-02-20T11:59:00.000+00:00", "messages": 4200}]}, "topics": [{"topic": "HOSTILE", "messages": 12000}]},
	{"id": "650ee99a-d1c9-8faa-8ea2-3653afc64260", "class": null, "title": "came back", "first_seen_at": "2026-02-10T10:00:00.000+00:00",
	 "last_seen_at": "2026-02-20T11:30:00.000+00:00", "new": false, "regressed": true, "open": 3, "counts": {"PENDING": 3, "RETRYING": 0, "RESOLVED": 0, "DEAD": 0},
	 "recent": {"since": "2026-02-20T11:45:00.000+00:00", "arrived": 42, "counted_until": "2026-02-20T11:59:58.000+00:00", "minutes": [{"minute": "2026-02-20T11:50:00.000+00:00", "messages": 42}]}, "muted": false, "topics": []}
], "next_cursor": null}`

func overviewAPI(t *testing.T) *consoletest.API {
	t.Helper()
	return consoletest.NewAPI(t).
		Says("GET /readyz", consoletest.Raw(`{"status": "ready", "checks": {"database": "ok", "kafka": "failed"}}`)).
		Says("GET /api/v1/topics", consoletest.Quoted(someTopics)).
		Says("GET /api/v1/activity", consoletest.Raw(someActivity)).
		Says("GET /api/v1/groups", consoletest.Quoted(someGroups)).
		Says("GET /api/v1/quarantine", consoletest.Raw(`{"records": [], "next_cursor": null}`)).
		Says("GET /api/v1/redrives", consoletest.Raw(`{"redrives": [], "next_cursor": null}`))
}

func TestOverview(t *testing.T) {
	t.Parallel()
	away := consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the database cannot be reached", nil)
	nothing := consoletest.Answers{"GET /api/v1/topics": consoletest.Raw(`{"topics": []}`), "GET /api/v1/groups": consoletest.Raw(`{"groups": []}`)}
	little := consoletest.Answers{
		"GET /api/v1/session": consoletest.WithRole("operator", "zzz.*"), "GET /api/v1/topics": consoletest.Raw(`{"topics": []}`),
		"GET /api/v1/groups": consoletest.Raw(`{"groups": []}`),
	}
	consoletest.Shows(t, overviewAPI, map[string]consoletest.Look{
		"TellsWhatFailsSinceWhenAndWhatToDo": {Path: "/", Lacks: []string{`href="/quarantine"`}, Has: []string{
			"12,433", "oldest <time", "3 h ago", `badge bad">kafka`, `badge ok">database`, "33 arrived", "2 of them failed again", `Arrived since 11:45 UTC</span><span class="value">29</span>`, "4 in the 15 min before", "+42</strong>", "42 arrivals in 60 minutes, at most 42 in 1 min",
			"/messages?created_after=2026-02-20T11%3A59%3A00.000Z&amp;created_before=2026-02-20T12%3A00%3A00.000Z",
			"2 replays failed again in the last hour: find the cause first", "cannot be sent back: &lt;script",
			"<title>(12,433) Overview", "Kafka does not answer.",
		}},
		"NamesTheQuarantine": {
			Path: "/", Says: consoletest.Answers{"GET /api/v1/quarantine": consoletest.Quoted(consoletest.SomeQuarantine)},
			Has: []string{`href="/quarantine"`},
		},
		"OfNothingSaysHowToGo": {Path: "/", Says: nothing, Has: []string{
			"No message has arrived yet", "kafka-console-producer.sh",
			"orders.dlq.v1",
		}},
		"OfLittleNamesTheGrant": {
			Path: "/", Says: little, Has: []string{"on your topics: <code>zzz.*</code>"},
			Lacks: []string{"kafka-console-producer"},
		},
		"IsThereWithoutAPart": {
			Path: "/", Says: consoletest.Answers{"GET /api/v1/activity": away, "GET /api/v1/topics": away},
			Has: []string{
				`<span class="of">Pending</span><span class="value">–</span><span class="small aside">not known: no answer in time`, "Topics are not known", "Arrivals are not known", "came back</span></a>",
				"<title>Overview",
			},
			Lacks: []string{"No message has arrived yet", "No topic has open messages", "none waiting", `<span class="value">0</span>`, "in the 15 min before"},
		},
		"NamesTheDependencyThatFails": {
			Path: "/", Says: consoletest.Answers{
				"GET /readyz":          consoletest.Raw(`{"status": "not_ready", "checks": {"database": "failed", "schema": "failed", "kafka": "ok", "ingester": "not running"}}`),
				"GET /api/v1/activity": away, "GET /api/v1/topics": away, "GET /api/v1/groups": away, "GET /api/v1/redrives": away,
				"GET /api/v1/quarantine": away,
			},
			Has:   []string{"The database does not answer.", "No ingester is running.", "Error groups are not known", "Redrives that have not ended are not known"},
			Lacks: []string{"No error group has open messages"},
		},
		"SaysWhatKafkaDidNotAnswer": {
			Path: "/", Says: consoletest.Answers{"GET /api/v1/topics": consoletest.Raw(withoutKafka)},
			Has: []string{"12,431", "not known: Kafka does not answer"}, Lacks: []string{"cannot be sent back"},
		},
	})
	a := overviewAPI(t)
	body := consoletest.Get(t, consoletest.Site(t, a), "/?causes=regressed&span=week").Body.String()
	if strings.Index(body, "came back</span></a>") > strings.Index(body, "12,000") {
		t.Error("got the muted group first, want it last")
	}
	consoletest.WantAsked(t, a, "GET /api/v1/groups", "limit=20&minutes=true&regressed=true&sort=recent&status=PENDING%2CRETRYING&trend=none")
}

func TestTopics(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T) *consoletest.API {
		t.Helper()
		return consoletest.NewAPI(t).Says("GET /api/v1/topics", consoletest.Quoted(someTopics)).
			Says("GET /api/v1/share-groups", consoletest.Quoted(someShareGroups))
	}
	unavailable := func(reason string) consoletest.Answers {
		return consoletest.Answers{"GET /api/v1/share-groups": consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE",
			"not available", []map[string]any{{"field": "kafka", "reason": reason}})}
	}
	consoletest.Shows(t, api, map[string]consoletest.Look{
		"TellWhetherReplayIsPossible": {Path: "/topics", Has: []string{
			"orders.dlq.v1", "billing", "running, lag 0", "unknown origin",
			">possible<", ">refused<", "as of <time",
		}},
		"SayWhatKafkaDidNotAnswer": {
			Path: "/topics", Says: consoletest.Answers{"GET /api/v1/topics": consoletest.Raw(withoutKafka)},
			Has: []string{"12,431", "Kafka does not answer.", "– not known: Kafka does not answer"}, Lacks: []string{">refused<"},
		},
		"ListShareGroupsWithWhatMendsThem": {Path: "/topics", Has: []string{
			"dlq.billing", "pointers to the records", ">3 problems<", `data-copy="mend-0-0"`,
			`<pre id="mend-0-0" class="command">kafka-configs.sh --alter &#39;billing&#39; &lt;script`, "a loop", "<code>not_enabled</code>",
			"– not known: its state cannot be read", "copies of the records", ">no problem known<", `data-label="waiting">1,234</td>`, "1 more share group is not shown",
		}, Lacks: []string{"mend-0-1"}},
		"WithoutMessagesListShareGroups": {
			Path: "/topics", Says: consoletest.Answers{"GET /api/v1/topics": consoletest.Raw(`{"topics": []}`)},
			Has: []string{"dlq.billing", "No topic has messages"},
		},
		"SayThatShareGroupsAreNotKnown": {
			Path: "/topics", Says: unavailable("has not answered yet which share groups there are"),
			Has: []string{"Share groups are not known: Kafka has not answered yet which share groups there are.", "12,431"}, Lacks: []string{"share-groups-title"},
		},
		"WithoutKafkaHaveNoShareGroups": {
			Path: "/topics", Says: unavailable("is not configured"), Has: []string{"12,431"}, Lacks: []string{"hare group"},
		},
		"ThatAreRefusedLeadOn": {
			Path: "/topics", Says: consoletest.Answers{"GET /api/v1/topics": consoletest.Refuse(http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "not allowed", nil)},
			Status: http.StatusForbidden, Has: []string{`<nav aria-label="Pages">`, "anonymous"},
		},
	})
	cfg := console.DefaultConfig()
	cfg.Name = "dead-letters-eu"
	consoletest.MustHave(t, consoletest.Get(t, consoletest.SiteWith(t, cfg, api(t)), "/topics").Body.String(), "<title>Topics · dead-letters-eu</title>")
}
