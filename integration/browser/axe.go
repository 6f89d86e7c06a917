package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// axeFile is installed by `make assets`. Only the tests use axe.
const axeFile = "pkg/console/web/node_modules/axe-core/axe.min.js"

// violation is a rule that the page breaks.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		Target  []any // CSS selectors of an element; in a frame, a list of selectors leads through the frames
		Summary string
	}
}

func (v violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%s): %s, %d times", v.ID, v.Impact, v.Help, len(v.Nodes))
	for i, n := range v.Nodes {
		if i == 5 {
			text.WriteString("\n\t...")
			break
		}
		fmt.Fprintf(&text, "\n\t%v: %s", n.Target, strings.ReplaceAll(n.Summary, "\n", " "))
	}
	return text.String()
}

// runAxe is the script that runs axe. It does not load the page's stylesheets a second time, because the page's policy
// would forbid that.
const runAxe = `axe.run(%s, {
	resultTypes: ["violations"], preload: false, runOnly: %s,
}).then((r) => r.violations.map((v) => ({
	id: v.id, impact: v.impact, help: v.help,
	nodes: v.nodes.map((n) => ({ target: n.target, summary: n.failureSummary })),
})))`

// axePatience is longer than the time limit of a step: axe takes many seconds for a page of
// thousands of elements.
const axePatience = 2 * time.Minute

// Axe checks the page for accessibility: WCAG 2.2 AA and best practices in light colours, and contrast in dark colours.
// A problem fails the test but does not end it. The page must not change during the check. In limits the check to an
// element. The check ignores the rules in except, which the page is known to break.
func (b *Browser) Axe(except ...string) {
	b.t.Helper()
	everything := `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	for _, run := range []struct{ colours, rules string }{{"light", everything}, {"dark", `{type: "rule", values: ["color-contrast"]}`}} {
		b.show(desk, run.colours)
		for _, v := range b.violations(run.rules) {
			if slices.Contains(except, v.ID) {
				continue
			}
			b.t.Errorf("%s in %s colours: %s", b.Path(), run.colours, v)
		}
	}
	b.Desk()
}

// violations runs axe in the page and returns the violations.
func (b *Browser) violations(rules string) []violation {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, axePatience)
	defer cancel()
	b.injectAxe(ctx)
	where := "document"
	if b.scope != "" {
		where = quote(b.scope)
	}
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]violation](fmt.Sprintf(runAxe, where, rules), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe: %v", err)
	}
	return found
}

// injectAxe hands axe to the page, unless the page has it from an earlier check. It does so through the debugger, because
// the page's Content-Security-Policy does not apply there.
func (b *Browser) injectAxe(ctx context.Context) {
	b.t.Helper()
	if there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`"axe" in window`)); err == nil && there {
		return
	}
	script, err := os.ReadFile(filepath.Join(repository(b.t.Fatalf), axeFile))
	if err != nil {
		b.t.Fatalf("axe-core is missing, run `make -B assets`: %v", err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](string(script)+"\n;undefined")); err != nil {
		b.t.Fatalf("hand axe to the page: %v", err)
	}
}
