package browser

import (
	"fmt"
	"testing"
)

// redriving: the preview explains with reasons what would happen, and two operators control the
// same redrive.
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
	one.Allow("status of 400")
	one.Click("Refresh preview")
	one.WaitText("must be a number")
	one.Fill("Rate", "1")
	one.Click("Refresh preview")
	one.WaitText("can be sent 60")
	one.Click("Retry 60 messages")
	one.WaitText("Redrive started")
	one.In("#progress").WaitText("running")

	other.Visit(one.Path())
	other.In("#progress").WaitText("running")
	move(one, "Pause")
	one.WaitText("The redrive was paused")
	one.In("#progress").WaitText("paused")
	other.In("#progress").WaitText("paused")
	one.Look("redrive-paused")
	move(other, "Resume")
	other.WaitText("The redrive was resumed")
	one.In("#progress").WaitText("running")

	move(one, "Cancel")
	one.WaitText("The redrive was cancelled")
	other.In("#progress").WaitText("cancelled")
	other.Allow("status of 409")
	move(other, "Resume") // this page is out of date
	other.WaitText("Not possible now")
	other.WaitText("is cancelled and cannot become")
	other.Look("redrive-refused")
}

// move opens the dialog of a redrive's button and confirms it.
func move(b *Browser, name string) {
	b.t.Helper()
	b.In("#moves").Click(name)
	b.Click(name + " the redrive")
}
