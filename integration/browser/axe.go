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

// axeFile is where `make assets` puts it. It is a tool of the tests, no part of
// the program.
const axeFile = "pkg/console/web/node_modules/axe-core/axe.min.js"

// violation is one rule that the page breaks.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		Target  []any // selectors; lists of them reach into frames
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

// runAxe leaves the page's stylesheets alone, which the page's policy would keep
// it from fetching anyway.
const runAxe = `axe.run(%s, {
	resultTypes: ["violations"], preload: false, runOnly: %s,
}).then((r) => r.violations.map((v) => ({
	id: v.id, impact: v.impact, help: v.help,
	nodes: v.nodes.map((n) => ({ target: n.target, summary: n.failureSummary })),
})))`

// axePatience is longer than that of a step: a page of thousands of elements
// takes axe many seconds.
const axePatience = 2 * time.Minute

// Axe looks for what keeps people out of the page: WCAG 2.2 AA and what is good
// practice, in light colours, and whether dark ones have contrast enough. The
// test goes on, failed when there is something. The page must stand still
// meanwhile. Inside of In only that is looked at. Rules in except are known to
// be broken there.
func (b *Browser) Axe(except ...string) {
	b.t.Helper()
	everything := `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	for colours, rules := range map[string]string{"light": everything, "dark": `{type: "rule", values: ["color-contrast"]}`} {
		b.show(desk, colours)
		for _, v := range b.violations(rules) {
			if slices.Contains(except, v.ID) {
				continue
			}
			b.t.Errorf("%s in %s colours: %s", b.Path(), colours, v)
		}
	}
	b.Desk()
}

// violations hands axe to the page by way of the debugger, which no policy of
// the page binds.
func (b *Browser) violations(rules string) []violation {
	b.t.Helper()
	script, err := os.ReadFile(filepath.Join(repository(b.t.Fatalf), axeFile))
	if err != nil {
		b.t.Fatalf("axe-core is missing, run `make -B assets`: %v", err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, axePatience)
	defer cancel()
	where := "document"
	if b.scope != "" {
		where = quote(b.scope)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](string(script)+"\n;undefined")); err != nil {
		b.t.Fatalf("hand axe to the page: %v", err)
	}
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]violation](fmt.Sprintf(runAxe, where, rules), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe: %v", err)
	}
	return found
}
