package browser

import (
	"strings"

	"github.com/chromedp/chromedp"
)

// MaxWeight is how many bytes everything that a page fetches for itself may have
// together on the wire: stylesheet, scripts, libraries and icon.
const MaxWeight = 100_000

// libraries are parts of the names of what is not ours.
var libraries = []string{"htmx", "uPlot"}

// Look holds a page to what every page promises: nothing that keeps people out, no
// more bytes than a slow line takes, room enough in a hand. It keeps its screenshots.
func (b *Browser) Look(name string) {
	b.t.Helper()
	b.Axe()
	own, others := b.weight()
	if own+others > MaxWeight {
		b.t.Errorf("%s fetches %d bytes of our own and %d of libraries, want %d together at most", name, own, others, MaxWeight)
	}
	b.Screenshot(name)
}

// resource is one file that a page has fetched.
type resource struct {
	Name string
	Size int
}

// weight is how large the files of the page are as they were sent, those of ours and
// those of libraries. What the browser had kept from another page counts as well.
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

// Document is how many bytes the page's HTML has, before it is packed.
func (b *Browser) Document() (size int) {
	b.t.Helper()
	return measure[int](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`)
}

// FirstPaint is when something was first to be seen, in milliseconds since the page
// was asked for.
func (b *Browser) FirstPaint() float64 {
	b.t.Helper()
	const entry = `performance.getEntriesByName("first-contentful-paint")[0]`
	b.Wait("something is painted", entry)
	return measure[float64](b, entry+".startTime")
}

// measure is the value of an expression in the page.
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
