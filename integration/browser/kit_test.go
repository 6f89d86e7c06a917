package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// faulty lists the HTML of pages by path. Each page has an error that the methods of Browser must report, except the
// page /form.
var faulty = map[string]string{
	"/inline":  `<script>document.title = "run"</script>`,
	"/style":   `<p style="color: red">red</p>`,
	"/throws":  `<script src="/throws.js"></script>`,
	"/console": `<script src="/console.js"></script>`,
	"/missing": `<script src="/nowhere.js"></script>`,
	"/barrier": `<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><button></button>`,
	"/form": `<main><h1>Form</h1>
		<form action="/said"><label for="r">Reason</label> <input id="r" name="reason" value="old">
		<label>Kind <select name="kind"><option value="a">All</option><option value="n">None</option></select></label>
		<label><input type="checkbox" name="sure"> I am sure</label>
		<details><summary>More</summary><label>Day <input type="date" name="day"></label></details>
		<p><button>Send it</button></p><button type="button" disabled>Send it later</button></form></main>`,
}

// pages serves the pages of faulty with a Content-Security-Policy as strict as the console's.
func pages(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:")
		switch r.URL.Path {
		case "/throws.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `nothing.here()`)
		case "/console.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `console.error("it went", {wrong: 1})`)
		case "/said":
			fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Said</title><link rel="icon" href="data:,"><p>%s</p>`, r.URL.Query().Encode())
		default:
			body, there := faulty[r.URL.Path]
			if !there {
				w.Header().Set("Content-Type", "text/javascript")
				w.WriteHeader(http.StatusNotFound)
				return
			}
			fmt.Fprint(w, `<!doctype html><html lang="en"><title>Page</title><link rel="icon" href="data:,">`+body)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestFaultsOfAPageAreSeen(t *testing.T) {
	t.Parallel()
	base := pages(t)
	for path, want := range map[string]string{
		"/inline":  "Content Security Policy",
		"/style":   "Content Security Policy",
		"/throws":  "nothing is not defined",
		"/console": "it went",
		"/missing": "404",
	} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			b := Open(t, base)
			b.Visit(path)
			b.Wait("it is noted", "true") // the browser answers after it has reported all earlier errors
			if got := b.faults.left(); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("faults %q, want one with %q", got, want)
			}
			b.Allow(want)
		})
	}
}

func TestBarriersAreSeen(t *testing.T) {
	t.Parallel()
	b := Open(t, pages(t))
	b.Visit("/barrier")
	got := map[string]bool{}
	for _, v := range b.violations(`["wcag2a"]`) {
		got[v.ID] = true
	}
	if !got["button-name"] || !got["image-alt"] {
		t.Errorf("violations %v, want button-name and image-alt among them", got)
	}
	b.Visit("/form")
	b.Axe()
}

func TestAPersonsSteps(t *testing.T) {
	t.Parallel()
	b := Open(t, pages(t))
	b.Visit("/form")
	b.Fill("reason", `grüße & "more"`)
	b.Fill("Kind", "None")
	b.Click("I am sure")
	b.Click("More")
	b.Fill("Day", "2024-02-29")
	if got, want := b.Value("I am sure"), "true"; got != want {
		t.Errorf("ticked %s, want %s", got, want)
	}
	b.In("form").Click("Send it")
	b.WaitPath("/said")
	for _, want := range []string{"day=2024-02-29", "kind=n", "reason=gr%C3%BC%C3%9Fe+%26+%22more%22", "sure=on"} {
		b.WaitText(want)
	}
	b.WaitGone("Send it")

	b.Visit("/form")
	b.Fill("Reason", "by keys")
	b.Press("End", "!", "Shift+Tab", "Tab", "Enter")
	b.WaitPath("/said?reason=by+keys%21")
}

// As many tests run as may have tabs at the same time, and each of them opens a second tab. None of these tests waits
// for ever.
func TestSecondTabsDoNotWait(t *testing.T) {
	t.Parallel()
	base := pages(t)
	var first sync.WaitGroup
	first.Add(maxTests)
	for i := range maxTests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			Open(t, base).Visit("/form")
			first.Done()
			first.Wait()
			Open(t, base).Visit("/form")
		})
	}
}
