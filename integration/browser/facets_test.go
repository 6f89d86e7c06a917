package browser

import (
	"net/url"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// facets: an operator sees which values the messages of an error group have in common, with and without scripts. The
// operator then retries only the messages whose payload names one build of the sender.
func facets(t *testing.T, site *Site) {
	original, _ := site.Topics("facets")
	var letters []Letter
	for _, value := range []string{
		`{"customer":"c-1","build":"1.14.2","total":12.10}`, `{"customer":"c-2","build":"1.14.2","total":"0.2"}`,
		`{"customer":"c-1","build":"1.14.1","total":30}`, `{"customer":"c-3","total":7.7}`,
	} {
		letters = append(letters, Letter{Key: "k", Class: "com.acme.OutOfStock", Error: "stock service is down", Value: value, Stack: stack})
	}
	stored := site.Fail("facets", letters...)
	group := stored[0].GroupID
	site.await("the facets of four messages", func() bool {
		var answer struct {
			Counted int `json:"counted"`
		}
		query := url.Values{"topic": {original}, "by": {"$.build"}}
		return site.Call("GET", "/api/v1/messages/facets?"+query.Encode(), nil, &answer) == 200 && answer.Counted == 4
	})

	b := Open(t, site.URL)
	b.Scripts(false)
	b.Visit("/groups/" + group)
	b.WaitText("What they have in common")
	b.Fill("Value", "$.build")
	b.Fill("Sum of", "$.total")
	b.Click("Count")
	b.WaitPath("/messages/facets?")
	b.WaitText("4 messages match, sum of $.total: 50")
	b.WaitText("1.14.2 2 50 % 12.3 Retry these…")
	b.WaitText("no value 1")
	b.Scripts(true)
	b.Visit("/messages?topic=" + original)
	b.Click("Facets")
	b.WaitPath("/messages/facets?topic=")
	b.Click("$.customer")
	b.WaitText("3 values")
	b.Click("$.build")
	b.WaitText("2 values")
	b.Look("facets")
	b.In("#facet-1").WaitText("$.build")
	b.Click("1.14.2")
	b.WaitPath("/messages?")
	b.WaitText("2 matches")
	b.Back()

	b.In("section[aria-labelledby=facet-1] tbody tr:first-child").Click("Retry these…")
	b.WaitPath("/redrives/new?action=retry")
	b.WaitText("2 messages")
	check.Equal(t, b.Count("#compared"), 0, "comparisons of equal numbers")
	b.Fill("Canary", "")
	b.Click("Retry 2 messages")
	b.In("#progress").WaitText("finished")
	check.Len(t, site.Sent(original, 2), 2, "records that were sent back")
	b.Back()
	b.Visit("/messages/facets?by=$.build&topic=" + original)
	b.In("tbody tr:first-child").Click("Retry these…")
	b.WaitText("The facet counted 2 messages with this value, in any status. 0 of them are selected")
}
