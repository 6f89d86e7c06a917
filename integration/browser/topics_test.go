package browser

import "testing"

// topics: an operator sees for each topic whether its messages can be republished, and adds a rule
// for messages whose original topic is unknown.
func topics(t *testing.T, site *Site) {
	original, dead := site.Topics("lost")
	site.createTopics(site.Prefix+"lost.v1", site.Prefix+"lost") // the name has several candidates
	site.Fail("lost", Letter{Value: `{"n":1}`, Original: "-"}, Letter{Value: `{"n":2}`, Original: "-"})

	b := Open(t, site.URL)
	b.Visit("/")
	b.In("nav[aria-label=Pages]").Click("Topics") // the overview may have other links of that name
	b.WaitPath("/topics")
	b.WaitText("cannot be sent back until a rule or an operator sets their topic")
	b.WaitText("possible")
	b.Look("topics")
	b.Click("Topic mapping")
	b.WaitPath("/topics/mapping")
	b.In("[aria-labelledby=unmapped]").WaitText(dead)
	b.Allow("status of 400")
	b.Fill("Rules", "nonsense")
	b.Click("Replace the rules")
	b.WaitText("Invalid request")
	if got := b.Value("Rules"); got != "nonsense" {
		t.Errorf("the rules that were typed are %q now, want them kept", got)
	}
	b.Fill("Rules", dead+" -> "+original)
	if got := b.Value("also set the topic of stored messages"); got != "true" {
		t.Errorf("setting the topic of stored messages is %s, want it proposed", got)
	}
	b.Fill("Reason", "as the team said")
	b.Click("Replace the rules")
	b.WaitText("The rules were replaced")
	b.Look("mapping")
	site.AwaitMessages("the lost messages belong somewhere", original, func(all []Stored) bool { return len(all) == 2 })
	b.Visit("/messages?topic=" + original)
	b.WaitText("2 match")
}
