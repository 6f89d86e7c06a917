package overview_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

const oneTopic = `{"topic": {"topic": "orders/HOSTILE", "dlq_topics": ["orders.dlq.v1"], "counts": {"PENDING": 3, "RETRYING": 0, "RESOLVED": 1, "DEAD": 2}, "total": 6,
	"oldest_pending_at": "2026-02-20T10:30:00.000+00:00", "last_seen_at": "2026-02-20T10:30:00.000+00:00", "ingest_lag": null,
	"replay": {"possible": true, "reason": null, "class": null, "exists": true, "allowed": true, "redirected_to": "orders.new", "consumer_groups": []}},
	"consumer_groups": [{"group": "billing HOSTILE", "state": "unknown", "lag": null, "partitions": [
		{"partition": 0, "committed": 41, "end": 50, "lag": 9}, {"partition": 1, "committed": null, "end": null, "lag": null}]}], "missing": ["ingest_lag"]}`

func TestTopicPage(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T) *consoletest.API {
		t.Helper()
		return consoletest.NewAPI(t).Says("GET /api/v1/topics/a/b", consoletest.Quoted(oneTopic)).
			Says("GET /api/v1/activity", consoletest.Raw(`{"span": "day", "step_seconds": 3600, "points": [], "counted_until": null}`)).
			Says("GET /api/v1/groups", consoletest.Raw(`{"groups": []}`)).
			Says("GET /api/v1/redrives", consoletest.Quoted(`{"redrives": [
				{"id": "0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e", "action": "retry", "state": "running", "actor": "HOSTILE", "selected": 5, "selection": {"filter": {"topic": "a/b"}}},
				{"id": "0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8f", "action": "retry", "state": "running", "actor": "bob", "selection": {"filter": {"topic": "other"}}}]}`)).
			Says("GET /api/v1/mappings", consoletest.Raw(`{"rules": [{"pattern": "x.*", "original": "a/b"}, {"pattern": "y.*", "original": "c"}], "configured": []}`))
	}
	const noAnswer = "not known: no answer in time"
	down := consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "no", nil)
	consoletest.Shows(t, api, map[string]consoletest.Look{
		"IsShown": {Path: "/topics/a%2Fb", Has: []string{
			"billing &lt;script", ">41</td>", ">50</td>", ">9</td>", "not known: Kafka has no offset", "x.* -&gt; a/b", "3b1e5a6c7d8e", "Retry all pending", `href="/topics/orders.new"`,
			"nothing new for 1 h",
		}, Lacks: []string{"y.*", "5a6c7d8f", "no messages"}},
		"WithoutNumbersHasTheReason": {
			Path: "/topics/a%2Fb", Says: consoletest.Answers{"GET /api/v1/topics/a/b": down, "GET /api/v1/groups": down},
			Has: []string{"The numbers of this topic are " + noAnswer, "Error groups are " + noAnswer}, Lacks: []string{`class="value">0`},
		},
		"SaysWhyAutomaticRetryPauses": {
			Path: "/topics/x", Says: consoletest.Answers{"GET /api/v1/topics/x": consoletest.Raw(`{"topic": {"topic": "x", "counts": {}, "total": 1,
				"replay": {"possible": true, "exists": true},
				"automatic_retry_pause": {"until": "2026-02-20T12:34:56.000+00:00", "reason": "18 of 40 messages that it sent failed again, more than 10 %"}}, "consumer_groups": []}`)},
			Has: []string{"Automatic retry pauses until <time", ">12:34 UTC</time>: 18 of 40 messages that it sent failed again, more than 10 %.</p>"},
		},
		"WithoutMessagesSaysSo": {
			Path: "/topics/x", Says: consoletest.Answers{"GET /api/v1/topics/x": consoletest.Raw(`{"topic": {"topic": "x", "counts": {}, "total": 0,
				"replay": {"possible": true, "exists": true}}, "consumer_groups": []}`)},
			Has: []string{"This topic has no messages", "No consumer group is known"},
		},
		"OfAViewerOffersNoRetry": {
			Path: "/topics/a%2Fb", Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly},
			Has: []string{`aria-disabled="true">Retry all pending`, "needs the role operator"},
		},
	})
}

// Text that turns around could make one topic look like another, in the title of the tab and in hints too. A field keeps
// the characters, because its text is sent back.
func TestTextThatTurnsAroundIsEscapedInTitlesAndAttributes(t *testing.T) {
	t.Parallel()
	const turned = "a\u202eb\u2066\u200b\ufeff"
	escaped := format.Visible(turned)
	a := consoletest.NewAPI(t).Says("GET /api/v1/topics/"+turned, consoletest.Raw(strings.ReplaceAll(oneTopic, "HOSTILE", turned))).
		Says("GET /api/v1/activity", consoletest.Raw(`{"points": [], "counted_until": null}`)).Says("GET /api/v1/groups", consoletest.Raw(`{"groups": []}`)).
		Says("GET /api/v1/redrives", consoletest.Raw(`{"redrives": []}`)).Says("GET /api/v1/mappings", consoletest.Raw(`{"rules": [], "configured": []}`)).
		Says("GET /api/v1/messages", consoletest.Raw(`{"messages": [{"id": "`+consoletest.MessageID+`", "original_topic": "`+turned+`", "error_class": "`+turned+`"}]}`))
	for path, want := range map[string]string{
		"/topics/" + url.PathEscape(turned):                    "<title>" + escaped,
		"/messages?error_class=" + url.QueryEscape(turned):     `title="` + escaped,
		"/messages?error_class=x&q=" + url.QueryEscape(turned): `value="` + turned,
	} {
		body := consoletest.Get(t, consoletest.Site(t, a), path).Body.String()
		consoletest.MustHave(t, body, want)
		if rest := strings.ReplaceAll(body, `value="`+turned+`"`, ""); strings.ContainsAny(rest, "\u202e\u2066\u200b\ufeff") {
			i := strings.IndexAny(rest, "\u202e\u2066\u200b\ufeff")
			t.Errorf("%s: %q is raw", path, rest[max(0, i-80):i+20])
		}
	}
}
