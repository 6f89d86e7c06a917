package browser

import (
	"fmt"
	"strings"
	"testing"
)

// editing: an operator corrects and sends one message by hand, and corrects other messages by a patch with a preview.
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
	writing(b, first)
	b.Visit("/messages/" + first)
	b.Click("Edit and retry")
	b.WaitPath("/messages/" + first + "/edit")
	b.Fill("Payload", `{"n":0,"currency":"EUR",}`)
	b.Click("Check")
	b.In("#difference").WaitText("Not JSON: line 1, column")
	b.Fill("Payload", `{"n":0,"currency":"EUR","amount":51}`)
	b.Click("Check again")
	b.WaitText("JSON: the payload is valid")
	b.WaitText("Valid JSON.") // the editor has loaded
	checked := b.Path()
	b.Fill("Payload", `{"n":0,"currency":"EUR","amount":52}`) // the new text is typed, but not sent
	for _, again := range []func(){func() { b.Visit("/messages"); b.Back() }, func() { b.Visit(checked) }} {
		again()
		b.WaitText("JSON: the payload is valid")
		b.WaitText("Valid JSON.")
		if typed := b.Value("Payload"); !strings.Contains(typed, `"amount":52`) {
			t.Errorf("after Back or reload the payload is %s, want what was typed", typed)
		}
	}
	b.Fill("Payload", `{"n":0,"currency":"EUR","amount":51}`)
	b.Click("Check again")
	b.Wait("the new draft is shown", fmt.Sprintf("!location.href.endsWith(%q)", checked))
	b.WaitText("JSON: the payload is valid")
	b.Visit("/messages/" + first + "/retry")
	b.WaitPath("/messages/" + first)
	b.Allow("status of 404")
	b.Visit("/nope")
	b.WaitText("There is no page at this address.")
	b.Back()
	b.Back()
	b.WaitText("JSON: the payload is valid")
	b.In("#difference").WaitText(`"currency": "DM"`)
	b.In("#difference").WaitText(`"currency": "EUR"`)
	b.Look("edit")
	b.In("#difference").Fill("Reason", "the mark is gone")
	b.Click("Send it")
	b.WaitText("The edited message was sent")
	b.WaitText("another payload")
	b.WaitText("/currency")
	if left := measure[int](b, `Object.keys(sessionStorage).filter((name) => name.startsWith("dlq-draft ")).length`); left != 0 {
		t.Errorf("the browser keeps %d drafts of what was sent, want none", left)
	}
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
	b.WaitText("can be sent 3")
	b.In(".tries").WaitText(`"currency": "DM"`)
	b.In(".tries").WaitText(`"currency": "EUR"`)
	b.Look("redrive-patch")
	b.Click("Retry 3 messages")
	b.In("#progress").WaitText("finished")
	b.In("#progress").WaitText("skipped 1")
	b.WaitText("the patch does not apply to it")
	for _, value := range site.Sent(original, 4)[1:] {
		if !strings.Contains(value, `"EUR"`) {
			t.Errorf("sent %s, want it patched", value)
		}
	}
}

// writing uses the editor of a message's payload. The editor checks the text while the user types, moves the cursor to
// a syntax error and to the JSON member that an error names, and formats the text without changing any number. Without
// scripts, the form has a plain text field instead of the editor.
func writing(b *Browser, id string) {
	const numbers = `{"n":12345678901234567890,"currency":"DM","rate":1.0,"limit":1e400,"none":[]}`
	b.Visit("/messages/" + id)
	if got := measure[int](b, editorBytes); got != 0 {
		b.t.Errorf("the page of a message loads the editor: %d bytes", got)
	}
	b.Visit("/messages/" + id + "/edit")
	b.WaitText("Valid JSON.")
	if got := measure[int](b, editorBytes); got == 0 || got > MaxEditor {
		b.t.Errorf("the editor has %d bytes, want at most %d", got, MaxEditor)
	}
	b.Click("$.currency")
	b.Wait("the editor shows the member that the error names", `document.querySelector(".editor").shadowRoot.querySelector(".cm-activeLine").textContent.includes("currency")`)

	b.Fill("Payload", strings.Replace(numbers, `:[]`, `:[,]`, 1))
	b.WaitText("Not JSON: line 1, column 76 at $.none[0]: a value is missing.")
	b.Wait("the mark is in the editor", `document.querySelector(".editor").shadowRoot.querySelector(".cm-wrong")`)
	b.Wait("there is nothing to lay out", `document.querySelector("[data-format]").disabled`)
	b.Click("line 1, column 76")
	b.Fill("Payload", numbers)
	b.WaitText("Valid JSON.")
	b.Click("Format")
	field := `document.getElementById("edit-payload").value`
	formatted := "{\n  \"n\": 12345678901234567890,\n  \"currency\": \"DM\",\n  \"rate\": 1.0,\n  \"limit\": 1e400,\n  \"none\": []\n}"
	b.Wait("the form has the formatted text", fmt.Sprintf("%s === %q", field, formatted))
	b.Look("editor")
	b.Click("Minify")
	b.Wait("the form has the text on one line", fmt.Sprintf("%s === %q", field, numbers))
	b.Press("Control+z")
	b.Wait("the last change is undone", fmt.Sprintf("%s === %q", field, formatted))

	b.Scripts(false)
	b.Visit("/messages/" + id + "/edit")
	b.Fill("Payload", `{"n":0}`)
	b.Click("Check")
	b.In("#difference").WaitText("JSON: the payload is valid")
	b.Scripts(true)
}

const editorBytes = `performance.getEntriesByType("resource").filter((e) => e.name.includes("codemirror")).reduce((sum, e) => sum + e.encodedBodySize, 0)`
