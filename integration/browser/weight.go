package browser

import (
	"strings"

	"github.com/chromedp/chromedp"
)

// MaxWeight is the maximum transfer size, in bytes, of a page's stylesheet, scripts, libraries and icon together. Look
// fails the test of a page that exceeds it.
const MaxWeight = 100_000

// MaxEditor is the maximum transfer size, in bytes, of the editor, which only the page of an edit loads.
const MaxEditor = 200_000

// libraries are parts of the file names of third-party libraries.
var libraries = []string{"htmx"}

// Look checks what the console promises for every page: accessibility, a small transfer size, and a layout that fits a
// phone. It saves screenshots under the given name, if SCREENSHOTS names a folder.
func (b *Browser) Look(name string) {
	b.t.Helper()
	b.Axe()
	own, others := b.weight()
	if own+others > MaxWeight {
		b.t.Errorf("%s fetches %d bytes of our own and %d of libraries, want %d together at most", name, own, others, MaxWeight)
	}
	b.Screenshot(name)
}

// resource is a file that a page has fetched.
type resource struct {
	Name string
	Size int
}

// weight returns the transfer size of the page's stylesheet, scripts and icon: own is the size of this project's files,
// others is the size of the files of libraries. Both include files that the browser had in its cache. The editor is
// left out.
func (b *Browser) weight() (own, others int) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	files, err := chromedp.Run(ctx, chromedp.Evaluate[[]resource](
		`performance.getEntriesByType("resource").filter((e) => e.name.includes("/static/")).map((e) => ({name: e.name, size: e.encodedBodySize}))`))
	if err != nil {
		b.t.Fatalf("weigh the page: %v", err)
	}
	for _, file := range files {
		if strings.Contains(file.Name, "codemirror") {
			continue // MaxEditor limits the editor's files
		}
		size := &own
		for _, library := range libraries {
			if strings.Contains(file.Name, library) {
				size = &others
			}
		}
		*size += file.Size
	}
	return own, others
}

// Document returns the size of the page's HTML before compression.
func (b *Browser) Document() (size int) {
	b.t.Helper()
	return measure[int](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`)
}

// FirstPaint returns the time from the request of the page to the first visible content, in
// milliseconds.
func (b *Browser) FirstPaint() float64 {
	b.t.Helper()
	const entry = `performance.getEntriesByName("first-contentful-paint")[0]`
	b.Wait("something is painted", entry)
	return measure[float64](b, entry+".startTime")
}

// Shift returns the sum of the layout shifts since the page was requested, in the unit of Chromium: 0 is a page
// whose parts have not moved, except after a key or a click. It also returns the parts that moved.
func (b *Browser) Shift() (sum float64, moved []string) {
	b.t.Helper()
	shift := measure[struct {
		Sum   float64  `json:"sum"`
		Moved []string `json:"moved"`
	}](b, `new Promise((resolve) => {
		const box = (r) => [r.x, r.y, r.width, r.height].map(Math.round).join(" ");
		const part = ({node, previousRect, currentRect}) => (node?.outerHTML ?? node?.textContent ?? "").slice(0, 120) + " from " + box(previousRect) + " to " + box(currentRect);
		new PerformanceObserver((list) => {
			const shifts = list.getEntries().filter((e) => !e.hadRecentInput);
			resolve({sum: shifts.reduce((sum, e) => sum + (e.value || 0), 0), moved: shifts.flatMap((e) => e.sources.map(part))});
		}).observe({type: "layout-shift", buffered: true});
		requestAnimationFrame(() => setTimeout(() => resolve({sum: 0, moved: []}), 100)); // without shifts the observer is never called
	})`)
	return shift.Sum, shift.Moved
}

// measure returns the value of a JavaScript expression in the page.
func measure[T any](b *Browser, expression string) T {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}
