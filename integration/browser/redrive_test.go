package browser

import (
	"fmt"
	"strings"
	"testing"
)

// redriving: the preview of a redrive shows what would happen to each message, and why. Then two operators control the
// same redrive in two tabs.
func redriving(t *testing.T, site *Site) {
	_, dead := site.Topics("brake")
	var letters []Letter
	for i := range 60 {
		letters = append(letters, Letter{Key: fmt.Sprint("b-", i), Class: "com.acme.Slow", Error: "too slow", Value: `{}`})
	}
	letters = append(letters, Letter{
		Key: "nowhere", Class: "com.acme.Slow", Error: "too slow", Value: `{}`, Original: site.Prefix + "nowhere.events.v1",
	})
	site.Fail("brake", letters...)

	one, other := Open(t, site.URL), Open(t, site.URL)
	one.Visit("/redrives/new")
	one.Fill("Original or dead-letter topic", dead)
	one.Click("Preview")
	one.WaitText("selected 61")
	one.WaitText("can be sent 60")
	one.WaitText("the original topic is not known or does not exist")
	one.Look("redrive-new-reasons")
	one.Fill("Canary", "")
	one.Fill("Wait", "")
	one.Fill("Rate", "fast")
	one.Click("Refresh preview")
	one.WaitText("must be a number")
	one.Visit("/messages")
	one.Back()
	one.WaitText("must be a number")
	if rate := one.Value("Rate"); rate != "fast" {
		t.Errorf("after Back the rate is %q, want what was typed", rate)
	}
	one.Fill("Rate", "1")
	one.Click("Refresh preview")
	one.WaitText("can be sent 60")
	other.Visit(one.Path())
	other.WaitText("can be sent 60")
	one.Click("Retry 60 messages")
	one.WaitText("Redrive started")
	one.In("#progress").WaitText("running")
	one.In("#items").WaitText("b-1")
	one.In("#items").WaitText("too slow")
	one.In("#items").WaitText("published") // the table updates itself

	other.Click("Retry 60 messages") // the tab still shows the preview from before the redrive began, with its button
	other.WaitText("Another redrive has some of these")
	other.WaitText("started a redrive over")
	other.Look("redrive-overlap")

	other.Visit(one.Path())
	other.In("#progress").WaitText("running")
	one.In("#moves").Click("Pause") // Pause needs no confirmation
	one.WaitText("The redrive was paused")
	one.In("#progress").WaitText("paused")
	other.In("#progress").WaitText("paused")
	one.Look("redrive-paused")
	if offered := one.Text("#moves"); strings.Contains(offered, "Pause") {
		t.Errorf("a paused redrive offers %q, want no Pause", offered)
	}
	other.In("#moves").Click("Resume")
	other.WaitText("The redrive was resumed")
	one.In("#progress").WaitText("running")

	// Cancel opens a form, also when the page updates itself during the click. The form stays open when the page updates
	// itself later.
	other.In("#moves").Hold("Cancel", func() {
		answers := `performance.getEntriesByType("resource").length`
		// When the second answer is there, the page has used the first one.
		other.Wait("the page updates itself", fmt.Sprintf("(window.answersBefore ??= %s) < %[1]s - 1", answers))
	})
	move(one, "Cancel")
	one.WaitText("The redrive was cancelled")
	other.In("#progress").WaitText("cancelled")
	// This page does not show yet that the other operator has cancelled the redrive. The request to cancel it succeeds
	// all the same, because the redrive already has the requested state.
	other.Click("Cancel the redrive")
	other.WaitText("The redrive was cancelled")
	other.Look("redrive-cancelled")
}

// move clicks a button of a redrive, such as Cancel, and confirms the dialog that opens.
func move(b *Browser, name string) {
	b.t.Helper()
	b.In("#moves").Click(name)
	b.Click(name + " the redrive")
}
