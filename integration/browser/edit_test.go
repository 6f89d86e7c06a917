package browser

import (
	"fmt"
	"strings"
	"testing"
)

// editing: an operator corrects and sends one message by hand, and others by a patch with a
// preview.
func editing(t *testing.T, site *Site) {
	original, dead := site.Topics("edits")
	var letters []Letter
	for i := range 4 {
		letters = append(letters, Letter{
			Key: fmt.Sprint("e-", i), Class: "com.acme.BadCurrency", Error: "no such currency",
			Value: fmt.Sprintf(`{"n":%d,"currency":"DM","amount":%d}`, i, 100+i),
		})
	}
	letters = append(letters, Letter{Key: "e-x", Class: "com.acme.BadCurrency", Error: "no such currency", Value: "no json"})
	stored := site.Fail("edits", letters...)
	first := stored[len(stored)-1].ID

	b := Open(t, site.URL)
	b.Visit("/messages/" + first)
	b.Click("Edit and retry")
	b.WaitPath("/messages/" + first + "/edit")
	b.Fill("Payload", `{"n":0,"currency":"EUR",}`)
	b.Click("Check")
	b.WaitText("Not JSON: line 1, column")
	b.Fill("Payload", `{"n":0,"currency":"EUR","amount":51}`)
	b.Click("Check again")
	b.WaitText("JSON: the payload is valid")
	b.In("#difference").WaitText(`"currency": "DM"`)
	b.In("#difference").WaitText(`"currency": "EUR"`)
	b.Look("edit")
	b.In("#difference").Fill("Reason", "the mark is gone")
	b.Click("Send it")
	b.WaitText("The edited message was sent")
	b.WaitText("another payload")
	b.WaitText("/currency")
	if got, want := site.Sent(original, 1)[0], `{"n":0,"currency":"EUR","amount":51}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}

	b.Visit("/redrives/new?action=retry&topic=" + dead)
	b.WaitText("can be sent 4")
	b.Click("Change every payload before sending")
	b.Fill("JSON Patch", `[{"op": "replace", "path": "/currency", "value": "EUR"}]`)
	b.Fill("Canary", "")
	b.Fill("Wait", "")
	b.Click("Preview the patch")
	b.WaitText("The patch applied to a sample")
	b.WaitText("it does not apply to 1 of them")
	b.In(".tries").WaitText(`"currency": "DM"`)
	b.In(".tries").WaitText(`"currency": "EUR"`)
	b.Look("redrive-patch")
	b.Click("Retry 4 messages")
	b.In("#progress").WaitText("finished")
	b.In("#progress").WaitText("skipped 1")
	b.WaitText("the patch does not apply to it")
	for _, value := range site.Sent(original, 4)[1:] {
		if !strings.Contains(value, `"EUR"`) {
			t.Errorf("sent %s, want it patched", value)
		}
	}
}
