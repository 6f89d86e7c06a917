package browser

import "testing"

// TestPagesThatAnybodySees holds pages to what every page promises: no fault in
// the console, nothing that keeps people out, room enough in a hand.
func TestPagesThatAnybodySees(t *testing.T) {
	t.Parallel()
	site := NewSite(t)
	for _, page := range []struct{ name, path, text string }{
		{"overview", "/", "Overview"},
	} {
		t.Run(page.name, func(t *testing.T) {
			t.Parallel()
			b := Open(t, site.URL)
			b.Visit(page.path)
			b.WaitText(page.text)
			b.Wait("the page has its libraries, which `make assets` fetches", "window.htmx")
			b.Axe()
			b.Screenshot(page.name)
		})
	}
	t.Run("docs", func(t *testing.T) {
		t.Parallel()
		b := Open(t, site.URL)
		b.Visit("/docs")
		b.WaitText("openapi.yaml")
		// The page says the same of each operation: one section of them is enough.
		b.In("main > header").Axe()
		b.In("main > section:first-of-type").Axe()
		b.Screenshot("docs")
	})
}
