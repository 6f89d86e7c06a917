// Package browser lets tests use the console as a person does: in a real Chromium, with the real
// programs on a real Kafka and PostgreSQL, and with the dead letters of a sample shop.
//
// A flow is a test of this folder. It starts the site that it needs, performs a person's steps, and
// waits for the results that the person expects:
//
//	site := browser.NewSite(t)          // API, ingester and shop, with all dead letters stored
//	b := browser.Open(t, site.URL)      // a tab without cookies
//	b.Visit("/messages")
//	b.Fill("Topic", "orders.dlq.v1")
//	b.Click("Search")
//	b.WaitText("catalogue does not know")
//	b.Look("messages")                  // accessibility, size, width, screenshots
//
// Flows that need their own dead letters create topics (Site.Topics) and fail records in them
// (Site.Fail); most flows share the site of TestFlows.
//
// Elements are named by their visible text: Click("Retry") is the link, button, tab or label of that name,
// Fill("Reason", ...) the field with that label; case and spaces are ignored. A name that begins with #, . or [ is a
// CSS selector instead. In("#group") searches only inside one element. Every step waits until it is possible, for at
// most Patience, and otherwise fails the test with an error that shows the page's content, so a flow needs no waits of
// its own. After a click that leads to another page, first wait for something that only the new page has (WaitPath,
// WaitText).
//
// A test fails at its end if a page wrote an error to the console, threw an exception, opened a dialog, or broke its
// Content-Security-Policy. A test that causes an error on purpose, such as the answer 422, allows it before:
// b.Allow("status of 422").
//
// One Chromium serves the whole test process. At most two tests have tabs at the same time; further tests wait.
// Screenshots are saved in the folder SCREENSHOTS, and without it not taken. `make test-browser` sets it to bin/screenshots.
package browser

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Patience is how long a step may wait before it fails the test. It is long because other tests may keep the machine
// busy.
const Patience = 2 * time.Minute

// Browser is a tab that belongs to one test. Its methods end the test when they fail, so call them
// from the test's goroutine, one at a time.
type Browser struct {
	t      testing.TB
	base   string
	scope  string // CSS selector, or "" for the whole page
	ctx    context.Context
	faults *faults
	window *window
}

// Open opens a tab without cookies, 1440 by 900, in light colours. base is the URL to which paths are relative, without
// a slash at the end. The tab closes at the end of the test, which fails then if one of the tab's pages had an error
// that Allow has not accepted.
func Open(t testing.TB, base string) *Browser {
	t.Helper()
	chromium := start(t)
	b := &Browser{t: t, base: base, faults: &faults{}, window: &window{}, ctx: chromium.tab(t)}
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

// In returns the same tab, limited to the first element that a CSS selector matches.
func (b *Browser) In(selector string) *Browser {
	inner := *b
	inner.scope = selector
	return &inner
}

// Allow accepts errors of pages whose message contains text.
func (b *Browser) Allow(text string) { b.faults.allow(text) }

// Visit opens a path of the site and waits until the page has loaded.
func (b *Browser) Visit(path string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(b.base+path)); err != nil {
		b.t.Fatalf("visit %s: %v", path, err)
	}
}

// Scripts allows or forbids JavaScript in the pages that the tab opens from now on.
func (b *Browser) Scripts(on bool) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
		b.t.Fatalf("allow scripts: %t: %v", on, err)
	}
}

// Zone sets the time zone of the pages, such as Asia/Kolkata.
func (b *Browser) Zone(name string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if _, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name}); err != nil {
		b.t.Fatalf("set the time zone %s: %v", name, err)
	}
}

// Back goes back in the tab's history, and waits until the page has loaded.
func (b *Browser) Back() {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.NavigateBack()); err != nil {
		b.t.Fatalf("back: %v", err)
	}
}

// Path returns the tab's current path, query and fragment.
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

// bounded limits the time of one command to the browser.
func (b *Browser) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, Patience)
}
