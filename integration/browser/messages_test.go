package browser

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
)

// messages: an operator filters the list, uses it with the keyboard, pages, saves a view, watches
// new messages arrive, and downloads the list as a file.
func messages(t *testing.T, site *Site) {
	const many = 60
	original, dead := site.Topics("lists")
	letters := make([]Letter, many)
	for i := range letters {
		letters[i] = late(i)
	}
	site.Fail("lists", letters...)

	b := Open(t, site.URL)
	b.Visit("/messages")
	b.WaitText("match")
	b.Look("messages")
	b.Press("/", "l", "a", "t", "e", "Enter")
	b.WaitPath("/messages?q=late")
	b.Visit("/messages")
	b.Click("Filters")
	b.Fill("Topic", dead)
	b.Fill("Error class", "com.acme.Late")
	b.Click("Apply filters")
	b.WaitPath("/messages?")
	b.WaitText("60 match")
	for _, want := range []string{"topic=" + dead, "error_class=com.acme.Late"} {
		if !strings.Contains(b.Path(), want) {
			t.Errorf("the address is %s, want %s in it", b.Path(), want)
		}
	}
	list := b.Path()
	if got := b.Count("[data-row]"); got != 50 {
		t.Errorf("%d rows on the first page, want 50", got)
	}
	byKeys(b)
	copying(b)
	exactTimes(b)
	b.Visit(list)
	b.WaitText("60 match")
	arriving(b, func() { site.Fail("lists", late(many)) })
	all(b)
	paging(b, list)
	selecting(b, list)
	views(b, list)
	export(t, b, list)
	chooseColumns(b)
	_ = original
}

func late(n int) Letter {
	return Letter{
		Key: fmt.Sprintf("late-%d", n), Class: "com.acme.Late", Error: fmt.Sprintf("letter %d came too late", n),
		Value: fmt.Sprintf(`{"n": %d}`, n), Stack: stack,
	}
}

const stack = `com.acme.Late: came too late
	at com.acme.mail.Sorter.sort(Sorter.java:17)
	at com.acme.mail.Listener.onLetter(Listener.java:8)
	at org.springframework.kafka.listener.KafkaMessageListenerContainer.invoke(KafkaMessageListenerContainer.java:2901)
	at java.base/java.lang.Thread.run(Thread.java:1583)
`

// byKeys uses the list with the keyboard alone, and ends on the page of a message.
func byKeys(b *Browser) {
	row := func(n int) string {
		return fmt.Sprintf(`document.querySelectorAll("[data-row]")[%d] === document.activeElement`, n)
	}
	b.Press("j", "j", "j", "k")
	b.Wait("the second row has the focus", row(1))
	b.Press("x")
	b.WaitText("1 of the 50 on this page is selected")
	b.Wait("the second row is selected", `document.querySelectorAll("[data-row] input")[1].checked`)
	b.Press("k")
	b.Wait("the first row has the focus", row(0))
	b.Press("?")
	b.WaitText("next row")
	b.Wait("the help is open", `document.querySelector("dialog[open]")`)
	b.Axe()
	b.Press("Escape")
	b.Wait("the help is closed", `!document.querySelector("dialog[open]")`)
	b.Wait("the first row has the focus again", row(0))
	b.Press("Enter")
	b.WaitPath("/messages/")
	b.WaitText("com.acme.mail.Sorter.sort")
	b.WaitText("2 library frames")
	b.Look("message")
}

// copying checks the buttons that copy the key, the id, the offset and the topic of a message, and the button that
// copies its payload.
func copying(b *Browser) {
	const copied = `navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }`
	measure[bool](b, "Boolean("+copied+")")
	for what, want := range map[string]string{
		"Copy the key": `=== "late-59"`, "Copy the id": `=== location.pathname.split("/").pop()`, "Copy the offset": `=== "59"`,
		"Copy the topic": `.endsWith("lists.events.v1")`,
	} {
		b.Click(what)
		b.Wait(what, "window.copied"+want)
	}
	b.In("#payload").Click("Copy")
	b.Wait("the payload is copied as the producer wrote it", "window.copied === '{\"n\": 59}'")
}

// exactTimes checks that relative times such as "3 h ago" are updated, and that a tap or the keyboard shows the exact
// time, in UTC and in the browser's time zone.
func exactTimes(b *Browser) {
	b.Zone("Asia/Kolkata")
	const one = `document.querySelector("dl.strip time")`
	measure[bool](b, one+`.dateTime = new Date(Date.now() - 3 * 3600e3 - 1000).toISOString(), true`)
	b.Wait("the time ticks", one+`.textContent === "3 h ago"`)
	b.Hand()
	b.Click(".strip time")
	b.WaitText(" UTC")
	b.WaitText("GMT+5:30")
	b.Press("Escape")
	b.WaitGone("GMT+5:30")
	measure[bool](b, one+`.blur(), `+one+`.focus(), true`)
	b.WaitText("GMT+5:30")
	b.Desk()
	b.Scripts(false)
	b.Visit(b.Path())
	b.Wait("the exact time is shown without scripts", `getComputedStyle(`+one+`, "::after").content.includes("UTC")`)
	b.Scripts(true)
}

// arriving checks that the page announces new messages without moving the rows.
func arriving(b *Browser, arrive func()) {
	where := `JSON.stringify([document.querySelector("[data-row] a").href, document.querySelector("[data-row]").getBoundingClientRect().top])`
	b.WaitText("nothing newer")
	before := measure[string](b, where)
	arrive()
	b.WaitText("1 new since you opened this page")
	if after := measure[string](b, where); after != before {
		b.t.Errorf("the first row was %s and is %s, want it where it was", before, after)
	}
	b.Click("show it")
	b.WaitText("61 match")
	b.In("[data-row]").WaitText("letter 60 came too late")
}

// all selects all messages that match the filter, not only those on the page, and checks that the form of a redrive
// counts them all.
func all(b *Browser) {
	b.Click("[data-all]")
	b.Click(`.chosen [value="all"]`)
	b.WaitText("All 61 that match are selected, not only the 50 on this page")
	b.Click("Retry…")
	b.WaitPath("/redrives/new")
	b.WaitText("selected 61")
}

func paging(b *Browser, list string) {
	b.Visit(list)
	b.Click("Next page")
	b.WaitText("letter 0 came too late")
	if got := b.Count("[data-row]"); got != 11 {
		b.t.Errorf("%d rows on the second page, want 11", got)
	}
	b.WaitText("End of the list")
	b.Click("First page")
	b.WaitText("letter 60 came too late")
}

func views(b *Browser, list string) {
	b.Visit(list)
	b.Click("Save as a view")
	b.Fill("Name of the view", "Late ones")
	b.Click("Save view")
	b.WaitText("The view was saved")
	b.Visit("/messages")
	b.Click("Late ones")
	b.WaitText("61 match")
	b.Click("Delete the view Late ones")
	b.WaitGone("Late ones")
}

// export downloads the matching messages as a file, with the cookies of the browser's user.
func export(t *testing.T, b *Browser, list string) {
	t.Helper()
	b.Visit(list)
	b.Click("Export")
	for _, format := range []string{"ndjson", "csv"} {
		got := measure[[]any](b, `(async () => {
			const link = [...document.querySelectorAll("a[download]")].find((a) => a.href.includes("`+format+`"));
			const answer = await fetch(link.href);
			return [answer.status, answer.headers.get("Content-Disposition"), [...(await answer.text()).matchAll(/^(\{"|[0-9a-f]{8}-)/gm)].length];
		})()`)
		if got[0] != float64(200) || got[2] != float64(61) || !strings.HasPrefix(fmt.Sprint(got[1]), "attachment") {
			t.Errorf("export as %s: %v, want 200, an attachment, 61 messages", format, got)
		}
	}
}

func chooseColumns(b *Browser) {
	b.Visit("/messages")
	b.Click("Columns")
	b.In("[action='/messages/columns']").Click("Size")
	b.Click("Apply")
	b.Wait("there is a column of sizes", `document.querySelector("th.c-size")`)
	b.Click("Columns")
	b.Click("Reset to default")
	b.Wait("there is no column of sizes", `!document.querySelector("th.c-size")`)
}

// selecting checks that messages stay selected while the user turns the pages of the list.
func selecting(b *Browser, list string) {
	measure[bool](b, `sessionStorage.clear(), true`) // removes the selection that earlier steps of the test made
	b.Visit(list)
	b.chooseFirst("1 of the 50 on this page is selected")
	b.Click("Next page")
	b.WaitText("1 is selected, 1 of them on other pages")
	b.chooseFirst("2 are selected, 1 of them on other pages")
	b.Screenshot("messages-selected")
	exported := measure[string](b, `(() => {
		const form = document.getElementById("chosen");
		const body = new URLSearchParams(new FormData(form));
		body.set("action", "csv");
		return fetch(form.getAttribute("action"), { method: "POST", body }).then((r) => r.text());
	})()`)
	rows, err := csv.NewReader(strings.NewReader(exported)).ReadAll()
	if err != nil || len(rows) != 3 {
		b.t.Errorf("the export of the selection has %d rows, %v; want the names and two messages: %.300s", len(rows), err, exported)
	}
	b.Click("Retry…")
	b.WaitPath("/redrives/new")
	b.WaitText("selected 2")
	b.Back()
	b.WaitText("2 are selected, 1 of them on other pages")
	b.Click("clear the selection")
	b.WaitGone("on other pages") // the bar of the selection is hidden too
}

// chooseFirst selects the first message of the page and no other one. It tries again until the page shows the text
// said, because a click has no effect before the scripts of the page run.
func (b *Browser) chooseFirst(said string) {
	b.t.Helper()
	b.Wait("the first message to be selected", fmt.Sprintf(`(() => {
		if (document.body.innerText.includes(%q)) return true;
		const [box, ...others] = document.querySelectorAll("tbody input[type=checkbox]");
		for (const other of others) if (other.checked) other.click(); // after a reload, boxes may still be checked
		if (box.checked) box.click(); // so that every try ends with a selected message
		box.click();
		return document.body.innerText.includes(%q);
	})()`, said, said))
}
