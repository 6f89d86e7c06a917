package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// scripts are texts that an attacker would put into a record to execute code in the console. Most of them set
// window.__xss when they are executed; the function harmless also finds elements that the texts would create.
var scripts = []string{
	`<script>window.__xss=1</script>`,
	`"><img src=x onerror="window.__xss=1">`,
	`'><svg/onload=window.__xss=1>`,
	`</textarea></pre></title></style><script>window.__xss=1</script>`,
	`<iframe srcdoc="<script>parent.__xss=1</script>">`,
	`javascript:window.__xss=1`,
	`{{.}}${window.__xss=1}`,
	`" autofocus onfocus="window.__xss=1" hx-on:load="window.__xss=1" hx-get="/messages" hx-trigger="load" x="`,
	`<a href="javascript:window.__xss=1">click</a><base href="//evil.example/">`,
	"\u202e<b data-evil>\u0000&lt;i&gt;",
}

// hostile: pages show every part of a dead letter as text.
func hostile(t *testing.T, site *Site) {
	original, dead := site.Topics("hostile")
	var letters []Letter
	for _, script := range scripts {
		letters = append(letters, evil(script, ""), evil(script, script))
	}
	stored := site.Fail("hostile", letters...)

	b := Open(t, site.URL)
	every := "status,class,error,topic,key,retries,received,size,group,position,consumer,dialect,outcome"
	paths := []string{
		"/", "/groups?open=false", "/topics", "/topics/mapping", "/redrives/new?action=retry&topic=" + dead,
		"/redrives/new?" + url.Values{"action": {"retry"}, "topic": {dead}, "patch": {`[{"op":"add","path":"/new","value":"` + `<script>window.__xss=1<\/script>` + `"}]`}}.Encode(),
		"/messages?cols=" + every + "&topic=" + dead,
		"/messages?" + url.Values{"topic": {original}, "q": {scripts[0]}}.Encode(),
		"/messages?" + url.Values{"key": {scripts[1]}, "header": {"x=" + scripts[7]}}.Encode(),
		"/messages?" + url.Values{"topic": {scripts[3]}, "status": {scripts[1]}, "done": {scripts[0]}}.Encode(),
		"/audit?" + url.Values{"actor": {scripts[1]}}.Encode(),
	}
	seen := map[string]bool{}
	for _, m := range stored {
		paths = append(paths, "/messages/"+m.ID, "/messages/"+m.ID+"?view=text", "/messages/"+m.ID+"?view=hex", "/messages/"+m.ID+"/edit")
		if !seen[m.GroupID] {
			seen[m.GroupID] = true
			paths = append(paths, "/groups/"+m.GroupID)
		}
	}
	b.Allow("status of 400")
	for _, path := range paths {
		b.Visit(path)
		harmless(b, path)
	}
	b.Visit("/messages/" + stored[len(stored)-1].ID)
	b.WaitText(scripts[0])
	b.Visit("/messages?topic=" + dead)
	b.WaitText(scripts[0])
	b.Screenshot("messages-hostile")

	// What operators type, such as notes and reasons, is as untrusted as data from Kafka.
	said := strings.Join(scripts[:3], " ")
	b.Visit("/groups/" + stored[0].GroupID)
	b.Fill("Note", said)
	b.Click("Save")
	b.WaitText("The group was changed")
	harmless(b, "a group with such a note")
	b.Visit("/redrives/new?action=dead&topic=" + dead)
	b.Click(".go [name=meant]")
	b.In(".go").Fill("Reason", said)
	b.Click("[value=start]")
	b.In("#progress").WaitText("finished")
	harmless(b, "a redrive with such a reason")
	for _, path := range []string{"/redrives", "/audit", "/messages/" + stored[0].ID, "/groups?show=all&topic=" + original} {
		b.Visit(path)
		b.WaitText(scripts[0])
		harmless(b, path)
	}
}

// evil returns a dead letter with the text of a script in every part of it. Its headers name topic as the original
// topic or, if topic is "", the topic in which the record failed.
func evil(script, topic string) Letter {
	payload := fmt.Sprintf(`{%q: %q, "list": [%q, {"deep": %q}]}`, strings.ReplaceAll(script, "\u0000", ""), "x", script, script)
	return Letter{
		Key: script, Class: "com.acme." + script, Error: script, Group: script, Original: topic,
		Stack:   script + "\n\tat " + script + "(Evil.java:1)\nCaused by: " + script + ": " + script,
		Value:   payload + "\n",
		Headers: []kgo.RecordHeader{{Key: script, Value: []byte(script)}, {Key: "version", Value: []byte(script)}, {Key: "traceparent", Value: []byte(script)}},
	}
}

// harmless checks that no script has run, and that the page has no element that the text of a script created.
func harmless(b *Browser, where string) {
	b.t.Helper()
	b.Wait(where+" is loaded", `document.readyState === "complete"`)
	for what, found := range map[string]string{
		"a script ran":          `window.__xss !== undefined`,
		"there are elements":    `document.querySelector("img, iframe, base, [data-evil], [onerror], [onload], [onfocus], script:not([src])") !== null`,
		"there are links":       `[...document.querySelectorAll("a[href], form[action]")].some((e) => /^\s*javascript:/i.test(e.getAttribute("href") ?? e.getAttribute("action")))`,
		"text is turned around": `/[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)`,
		"htmx got instructions": `document.querySelector("[hx-on\\:load]") !== null`,
	} {
		if measure[bool](b, found) {
			b.t.Errorf("%s: %s that came with a dead letter", where, what)
		}
	}
}
