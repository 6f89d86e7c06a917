package browser

import "testing"

// groups: an operator documents an error group, and sees the effect of an action on all of its
// messages before it happens.
func groups(t *testing.T, site *Site) {
	original, _ := site.Topics("notes")
	for i := range 3 {
		site.Fail("notes", Letter{Key: string(rune('a' + i)), Class: "com.acme.Unheard", Error: "no listener", Value: `{}`, Stack: stack})
	}
	b := Open(t, site.URL)
	b.Visit("/")
	b.Click("Groups")
	b.WaitPath("/groups")
	b.Fill("Original topic", original)
	b.Click("Show")
	b.WaitPath("/groups?")
	b.WaitText("no listener")
	b.Look("groups")
	b.Click("no listener")
	b.WaitPath("/groups/")
	here := b.Path()
	b.Fill("Note", "known since the move; ask the mail team")
	b.Fill("Link to a ticket", "https://tickets.example/DEV-1")
	b.Click("Save")
	b.WaitText("The group was changed")
	b.Wait("the ticket is a link", `document.querySelector('a[href="https://tickets.example/DEV-1"][rel~="noopener"]')`)
	if got, want := b.Value("Note"), "known since the move; ask the mail team"; got != want {
		t.Errorf("the note is %q, want %q", got, want)
	}

	b.Click("Compare the two")
	b.WaitPath(here + "/compare?a=")
	b.WaitText("The payloads are equal")
	b.WaitText("kafka_dlt-original-offset")
	b.Look("compare")
	b.Visit(here)

	b.In(".deeds").Click("Delete …")
	b.WaitPath("/redrives/new?action=delete")
	b.WaitText("Each message is removed permanently")
	b.WaitText("can be processed 3")
	b.Allow("status of 400")
	b.Click("Delete 3 messages permanently")
	b.WaitText("Tick the box to confirm")
	b.Look("redrive-new-delete")
	b.Visit(here)
	b.In(".deeds").Click("Mark dead …")
	b.WaitText("Each message is marked dead")
	b.Click("Confirm these 3 messages")
	b.Click("Mark 3 messages dead")
	b.In("#progress").WaitText("finished")
	b.Visit(here)
	b.WaitText("Dead 3")
}
