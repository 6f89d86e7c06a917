package browser

import (
	"testing"

	servers "github.com/dlq-manager/dlq-manager/integration/stack"
)

// topics: an operator sees for each topic whether its messages can be republished, and adds a rule
// for messages whose original topic is unknown.
func topics(t *testing.T, site *Site) {
	original, dead := site.Topics("lost")
	// With these topics, the name of the dead-letter topic fits more than one original topic, so it decides nothing.
	site.createTopics(site.Prefix+"lost.v1", site.Prefix+"lost")
	site.Fail("lost", Letter{Value: `{"n":1}`, Original: "-"}, Letter{Value: `{"n":2}`, Original: "-"})

	b := Open(t, site.URL)
	b.Visit("/")
	b.In("nav[aria-label=Pages]").Click("Topics") // the overview may have other links with the text "Topics"
	b.WaitPath("/topics")
	b.WaitText("cannot be sent back until a rule or an operator sets their topic")
	b.WaitText("possible")
	b.Look("topics")
	b.Click("Topic mapping")
	b.WaitPath("/topics/mapping")
	b.In("[aria-labelledby=unmapped]").WaitText(dead)
	b.Allow("status of 400")
	b.Fill("Rules", "nonsense")
	b.Click("Preview")
	b.WaitText("Invalid request")
	if got := b.Value("Rules"); got != "nonsense" {
		t.Errorf("the rules that were typed are %q now, want them kept", got)
	}
	b.Fill("Rules", dead+" -> "+original)
	if got := b.Value("also set the topic of stored messages"); got != "true" {
		t.Errorf("setting the topic of stored messages is %s, want it proposed", got)
	}
	b.Fill("Reason", "as the team said")
	b.Click("Preview")
	b.In("#preview").WaitText("2 get this original topic")
	b.Look("mapping-preview")
	b.Click("Replace the rules")
	b.WaitText("The rules were replaced")
	b.In("#started").WaitText("redrive")
	b.Look("mapping")
	site.AwaitMessages("the lost messages belong somewhere", original, func(all []Stored) bool { return len(all) == 2 })
	b.Visit("/topics")
	b.Click(original)
	b.WaitPath("/topics/" + original)
	b.In(".figures").WaitText("Pending 2")
	b.In("[aria-labelledby=origin]").WaitText(dead)
	b.In(".actions").Click("Messages")
	b.WaitPath("/messages?")
	b.WaitText("2 match")
	b.Visit("/topics/" + site.Prefix + "nothing")
	b.WaitText("This topic has no messages")
	b.WaitText("It does not exist in Kafka")
}

// silence: while Kafka does not answer, the page of a topic shows a dash and the reason in place of each value that it
// reads from Kafka. The numbers from the database are still shown.
func silence(t *testing.T, site *Site) {
	original, _ := site.Topics("silent")
	site.Fail("silent", Letter{Value: `{"n":1}`, Group: "silent-readers"})
	b := Open(t, site.URL)
	b.Visit("/topics/" + original)
	b.In("[aria-labelledby=consumers]").WaitText("silent-readers absent")

	own, err := servers.Start(t.Context(), servers.Options{Kafka: true, Own: true, Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Stop() })
	address := site.Another("DLQ_KAFKA_BROKERS=" + own.Brokers()[0])
	if err := own.PauseKafka(); err != nil {
		t.Fatal(err)
	}
	b = Open(t, address)
	b.Visit("/topics/" + original)
	b.In(".figures").WaitText("Pending 1")
	b.In("[aria-labelledby=consumers]").WaitText("silent-readers –")
	b.Wait("the dash has its reason", `[...document.querySelectorAll("[aria-labelledby=consumers] .none")].every((e) => e.title.includes("not known"))`)
	b.Look("topic-without-kafka")
}
