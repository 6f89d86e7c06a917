package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// keyboard: the keyboard alone is enough to use the lists of messages, groups and topics. The key of an action opens a
// confirmation, so one key alone never changes a message. While the user types in a field, these keys do nothing else.
func keyboard(t *testing.T, site *Site) {
	b := Open(t, site.URL)
	for _, list := range []string{"/", "/messages", "/groups", "/topics"} {
		b.Visit(list)
		b.Press("j", "j", "k")
		b.Wait("the first row of "+list+" has the focus", `[...document.querySelectorAll("main tbody tr")].filter((r) => !r.closest("figure") && r.querySelector("a"))[0] === document.activeElement`)
		want := measure[string](b, `document.activeElement.querySelector("th[scope=row] a").href`)
		b.Press("Enter")
		b.WaitPath(strings.TrimPrefix(want, site.URL))
	}

	b.Visit("/messages?topic=" + site.Prefix + shop.OrdersTopic + "&status=PENDING")
	b.Press("j", "r")
	b.WaitPath("/redrives/new?action=retry")
	b.WaitText("selected 1")
	b.Visit("/messages?topic=" + site.Prefix + shop.OrdersTopic + "&status=PENDING")
	b.Press("j", "x", "j", "x", "d")
	b.WaitPath("/redrives/new?action=dead")
	b.WaitText("selected 2")

	b.Visit("/messages?topic=" + site.Prefix + shop.OrdersTopic + "&status=PENDING")
	b.Press("j", "Enter")
	b.WaitPath("/messages/0")
	message := b.Path()
	b.Press("d")
	b.Wait("the reason of marking it dead has the focus", `document.activeElement.name === "reason" && document.activeElement.form.action.endsWith("/dead")`)
	b.Press("r", "e", ".", "?")
	b.Wait("keys are text in a field", `document.activeElement.value === "re.?"`)
	b.Visit(message)
	b.Press("r")
	b.Wait("the retry waits for a confirmation", `document.activeElement.innerText === "Retry" && location.pathname === "`+message+`"`)
	b.Press("e")
	b.WaitPath(message + "/edit")
}

// palette: in the command palette, a few letters find pages, topics and actions.
func palette(t *testing.T, site *Site) {
	b := Open(t, site.URL)
	b.Visit("/")
	b.Press("Control+k")
	b.Wait("the palette is open", `document.querySelector("dialog.palette[open]")`)
	b.In("dialog.palette").Axe()
	b.Fill("Page, view, topic, action or words to find", "audi")
	b.Wait("the page is the first choice", `document.querySelector(".palette [aria-selected=true]")?.innerText.startsWith("Audit")`)
	b.keep("palette-desk-light.png")
	b.Press("Enter")
	b.WaitPath("/audit")
	b.Press("Control+k")
	b.Fill("Page, view, topic, action or words to find", shop.OrdersTopic)
	b.Wait("the topic is a choice", `[...document.querySelectorAll(".palette [role=option]")].some((o) => o.innerText.includes("`+site.Prefix+shop.OrdersTopic+`"))`)
	b.Press("Enter")
	b.WaitPath("/messages?topic=" + site.Prefix + shop.OrdersTopic)
	b.Press("Control+k")
	b.Wait("the palette is open", `document.querySelector("dialog.palette[open]")`)
	b.Press("Escape")
	b.Wait("the palette is closed", `!document.querySelector("dialog")`)
	b.Press("j", "Control+k")
	b.Fill("Page, view, topic, action or words to find", "retry the")
	b.Press("Enter")
	b.WaitPath("/redrives/new?action=retry")
}

// searching: a text copied from a log finds its message, the search field suggests completions while the user types,
// and matches are highlighted.
func searching(t *testing.T, site *Site) {
	_, dead := site.Topics("searched")
	letters := []Letter{
		{Key: "k1", Class: "com.acme.Refused", Error: "refused", Value: `{"order": {"order_id":"SHIP-00042", "注文番号": "注文"}, "paid": true}`, Stack: stack},
		{Key: "k2", Class: "com.acme.Refused", Error: "refused order_id=SHIP-00099 <b>", Value: `{"a": 1}`, Stack: stack},
	}
	site.Fail("searched", letters...)
	site.await("the words are indexed", func() bool {
		var found struct{ Messages []Stored }
		site.Call(http.MethodGet, "/api/v1/messages?q=refused&topic="+dead, nil, &found)
		return len(found.Messages) == len(letters)
	})
	b := Open(t, site.URL)
	for typed, shown := range map[string]string{
		`"order_id":"SHIP-00042"`: "SHIP-00042", "order_id: SHIP-00042": "SHIP-00042", "order_id=ship-00042": "SHIP-00042",
		"order_id=SHIP-00099": "SHIP-00099", "注文": "注文", `payload.order.order_id:SHIP-00042`: "SHIP-00042",
	} {
		b.Visit("/messages")
		b.Fill("Find messages", typed+" topic:"+dead)
		b.Press("Enter")
		b.WaitPath("/messages?")
		if got := b.Text(".how-many"); !strings.HasPrefix(got, "1 match") {
			t.Errorf("%s: %s at %s, want 1 match", typed, got, b.Path())
			continue
		}
		b.Wait(shown+" is highlighted", `[...document.querySelectorAll("mark")].some((m) => m.innerText.includes("`+shown+`"))`)
	}
	if got := b.Value("Words or field:value"); strings.Contains(got, "topic") {
		t.Errorf("the input holds %q, want the topic as a condition beside it", got)
	}
	b.Visit("/messages?topic=" + dead)
	b.Press("/", "s", "t", "a", "t")
	b.Wait("the field is suggested", `document.querySelector("#suggestions [role=option]")?.innerText.startsWith("status:")`)
	b.Press("ArrowDown", "Enter", "d")
	b.Press("ArrowDown", "Enter", "Enter")
	b.WaitPath("/messages?status=DEAD&topic=")
	b.WaitText("No message matches")
	b.Visit("/messages")
	b.Click("Columns")
	b.Click("Export")
	b.Wait("one menu is open at a time", `document.querySelectorAll("details.drop[open]").length === 1`)
	b.Press("Escape")
	b.Wait("Escape closes it", `!document.querySelector("details.drop[open]")`)
	b.Click("Filters")
	b.Click(".how-many")
	b.Wait("a click elsewhere closes it", `!document.querySelector("details.drop[open]")`)
	b.Look("messages-found")
}

// plainPages: without scripts, the search field accepts conditions such as status:pending, the actions appear when a
// message is selected, and the user can choose the colours.
func plainPages(t *testing.T, site *Site) {
	b := Open(t, site.URL)
	b.WithoutScripts()
	b.Visit("/messages")
	b.Fill("Words or field:value", "status:pending topic:"+site.Prefix+shop.OrdersTopic)
	b.Click("Search")
	b.WaitPath("/messages?status=PENDING&topic=" + site.Prefix + shop.OrdersTopic)
	if b.Count(".chosen") != 0 {
		t.Error("the actions are shown before anything is selected")
	}
	b.Click(`[name="ids"]`)
	b.Click("Retry…")
	b.WaitPath("/redrives/new?action=retry")
	b.WaitText("selected 1")
	for _, colours := range []string{"Dark", "Light", "System"} {
		b.Click(".menu summary")
		b.Click(colours)
		want := map[string]string{"Dark": "dark", "Light": "light", "System": ""}[colours]
		b.Wait("the colours are "+colours, `(document.documentElement.dataset.theme ?? "") === "`+want+`"`)
	}
}
