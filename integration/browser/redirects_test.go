package browser

import "testing"

// redirecting: from the page of a message whose topic does not exist, an operator redirects the topic, looks at the
// preview, and sends the message.
func redirecting(t *testing.T, site *Site) {
	target, _ := site.Topics("moved")
	missing := site.Prefix + "retired.v1"
	stored := site.Fail("moved", Letter{Value: `{"n":1}`, Original: missing}, Letter{Value: `{"n":2}`, Original: missing})
	page := "/messages/" + stored[0].ID

	b := Open(t, site.URL)
	b.Visit(page)
	b.In("#missing").WaitText("The original topic " + missing + " does not exist.")
	b.In("#impossible").WaitText("retry (topic " + missing + " does not exist")
	b.Look("message-without-topic")
	b.Visit("/redrives/new?action=retry&topic=" + missing)
	b.WaitText("Redirect this topic")
	b.Visit("/groups/" + stored[0].GroupID)
	b.In("#missing").WaitText("Topic " + missing + " does not exist")

	b.Visit(page)
	b.In("#missing").Click("redirect this topic")
	b.WaitPath("/topics/redirects?topic=" + missing)
	b.Fill("Send its messages to", target)
	b.Click("Preview")
	b.In("#preview").WaitText("The topic has 2 pending messages")
	b.In("#preview").WaitText("would send 2 of 2")
	b.Look("redirect-preview")
	b.Fill("Reason", "the topic was renamed")
	b.Click("Redirect the topic")
	b.WaitText("The topic is redirected. Nothing was sent")
	b.In("[aria-labelledby=redirects-list]").WaitText(missing)
	b.Look("redirects")

	b.Visit("/redrives/new?action=retry&topic=" + missing)
	b.WaitText(target + " redirected")
	b.In("#examples").WaitText(target + " redirected")
	b.Look("redrive-redirected")

	b.Visit(page)
	b.WaitText("Waiting to be sent to " + target)
	b.Click("Retry")
	b.WaitText("The message was sent back")
	if got := site.Sent(target, 1); len(got) != 1 {
		t.Errorf("the target has %q, want one record", got)
	}
}
