package browser

import "testing"

// TestNothingHereYet: without messages, the pages say that they have nothing to show yet; the page of an unknown
// message says that it was not found; and the page /docs shows the API's document.
func TestNothingHereYet(t *testing.T) {
	t.Parallel()
	site := NewEmptySite(t)
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		b := Open(t, site.URL)
		b.Visit("/")
		b.WaitText("No message has arrived yet")
		b.Wait("the page has its libraries, which `make assets` fetches", "window.htmx")
		b.Look("overview-empty")
		for path, text := range map[string]string{
			"/messages": "There are no messages yet", "/groups": "No messages are open", "/redrives": "There are no redrives yet",
			"/topics": "No topic has messages", "/archive": "The archive is empty", "/audit": "Audit",
		} {
			b.Visit(path)
			b.WaitText(text)
			b.Axe()
		}
		b.Allow("status of 404")
		b.Visit("/messages/00000000-0000-7000-8000-000000000000")
		b.WaitText("Not found")
		b.Look("error")
	})
	t.Run("docs", func(t *testing.T) {
		t.Parallel()
		b := Open(t, site.URL)
		b.Visit("/docs")
		b.WaitText("openapi.yaml")
		// The page of the API has one section for each operation, and all sections have the same structure, so it is
		// enough to check one of them.
		b.In("main > header").Axe()
		b.In("main > section:first-of-type").Axe()
		b.Screenshot("docs")
	})
}
