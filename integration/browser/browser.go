// Package browser lets tests use the console as a person does: in a real
// Chromium, against the real programs on a real Kafka and PostgreSQL, with the
// dead letters of a sample shop.
//
// A flow is a test of this folder. It starts what it needs, says what a person
// does, and waits for what the person would look for:
//
//	site := browser.NewSite(t)          // API, ingester and shop, all letters taken in
//	b := browser.Open(t, site.URL)      // a tab with cookies of its own
//	b.Visit("/messages")
//	b.Fill("Topic", "orders.dlq.v1")
//	b.Click("Search")
//	b.WaitText("catalogue does not know")
//	b.Look("messages")                  // nothing keeps people out, little to fetch, screenshots
//
// Flows that need letters of their own make topics (Site.Topics) and dead-letter what
// they like (Site.Fail); most of them share the site of TestFlows.
//
// Things are named as they are shown: Click("Retry") is the link, button, tab or
// label of that name, Fill("Reason", ...) the field with that label; case and
// spaces do not count. What begins with #, . or [ is a CSS selector instead.
// In("#group") looks only inside of one element. Every step waits until it can
// be done, for Patience at most, and fails the test with what is there instead,
// so a flow needs no waiting of its own. After a click that leads to another page
// wait for something that only that page has (WaitPath, WaitText) before asking
// for more.
//
// At the end a test fails when a page wrote an error to the console, threw, or
// broke its Content-Security-Policy. What a test provokes on purpose, such as the
// answer 422, it names before: b.Allow("status of 422").
//
// One Chromium serves the whole test process, and at most two tabs are open at a
// time: further tests wait for one. Screenshots are kept in bin/screenshots, or
// where SCREENSHOTS says.
package browser

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Patience is how long a step waits for what it needs, on a machine that does
// much else meanwhile.
const Patience = 45 * time.Second

// Browser is one tab, for one test. Its methods end the test when they cannot do
// what they say, so they are called from the test's goroutine, one at a time.
type Browser struct {
	t      testing.TB
	base   string
	scope  string // CSS selector, or "" for the whole page
	ctx    context.Context
	faults *faults
}

// Open opens a tab without any cookies, 1280 by 800, in light colours. base is
// what paths are relative to, without a slash at the end. The tab closes with the
// test, which then fails when one of its pages did something wrong.
func Open(t testing.TB, base string) *Browser {
	t.Helper()
	chromium := start(t)
	b := &Browser{t: t, base: base, faults: &faults{}, ctx: chromium.tab(t)}
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	if err := chromedp.Listen(b.ctx, b.faults.note); err != nil {
		t.Fatalf("listen to the tab: %v", err)
	}
	b.show(desk, "light")
	t.Cleanup(func() {
		for _, fault := range b.faults.left() {
			t.Errorf("a page did something wrong: %s", fault)
		}
	})
	return b
}

// In is the same tab, looking only inside the first element that a CSS selector
// matches.
func (b *Browser) In(selector string) *Browser {
	inner := *b
	inner.scope = selector
	return &inner
}

// Allow lets pages complain with a message that contains text.
func (b *Browser) Allow(text string) { b.faults.allow(text) }

// Visit goes to a path of the site and waits until its page is loaded.
func (b *Browser) Visit(path string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(b.base+path)); err != nil {
		b.t.Fatalf("visit %s: %v", path, err)
	}
}

// Path is where the tab is now: path, query and fragment.
func (b *Browser) Path() string {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	at, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href`))
	if err != nil {
		b.t.Fatalf("where the tab is: %v", err)
	}
	return strings.TrimPrefix(at, b.base)
}

// bounded is for one command to the browser.
func (b *Browser) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, Patience)
}
