package browser

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dlq-manager/dlq-manager/integration/browser/chromium"
)

const (
	startPatience = time.Minute
	maxTests      = 2 // number of tests that may have tabs at the same time; others wait
)

// process is the Chromium of this test process.
type process struct {
	ctx    context.Context
	cancel context.CancelFunc
	free   chan struct{} // holds one element for each further test that may open tabs now

	mu      sync.Mutex
	started map[string]bool // names of the tests that have tabs
}

// shared holds the browser of the test process. It is a package variable, because there is no other place that all
// tests of a process can reach.
var shared struct {
	once    sync.Once
	process *process
	err     error
}

// Closing is for TestMain: it returns a Run that runs m and closes the browser. Without Closing, the browser ends with
// the process, and the browser's folder remains.
func Closing(m interface{ Run() int }) interface{ Run() int } { return closing{m} }

type closing struct{ tests interface{ Run() int } }

func (c closing) Run() int {
	code := c.tests.Run()
	if shared.process != nil {
		shared.process.cancel()
	}
	return code
}

// start returns the browser, starting it for the first caller. Without a browser the test fails; it
// is never skipped.
func start(t testing.TB) *process {
	t.Helper()
	shared.once.Do(func() { shared.process, shared.err = launch() })
	if shared.err != nil {
		t.Fatalf("a test needs a browser: %v", shared.err)
	}
	return shared.process
}

func launch() (*process, error) {
	path, err := chromium.Find()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.WindowSize(desk.width, desk.height),
		chromedp.DisableGPU, // without it Chromium emulates a GPU on the processor
		// The pages are all of one site, and one renderer for a tab is enough: Chromium need not start the next one in advance.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess,RenderDocument"),
		chromedp.Flag("disable-site-isolation-trials", true),
		chromedp.Flag("process-per-site", true),
		chromedp.Flag("renderer-process-limit", "2"),
		// A page lives too briefly for its scripts, and for axe, to regain the time of the optimising compilers.
		chromedp.Flag("js-flags", "--max-old-space-size=256,--no-opt,--no-maglev"),
		chromedp.Flag("lang", "en-US"),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	p := &process{ctx: ctx, cancel: func() { closeBrowser(); end() }, free: make(chan struct{}, maxTests), started: map[string]bool{}}
	for range maxTests {
		p.free <- struct{}{}
	}
	return p, p.awaitStart(path, end)
}

// awaitStart starts the browser. The browser ends when the context that it was started with ends, so that context
// cannot have a deadline. The time limit of the start is a timer instead, which is stopped after the start.
func (p *process) awaitStart(path string, end context.CancelFunc) error {
	clock := time.AfterFunc(startPatience, end)
	defer clock.Stop()
	if err := chromedp.Do(p.ctx); err != nil {
		p.cancel()
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}

// tab returns a context for a new tab without cookies. At most maxTests tests have tabs at the same time. The first tab
// of a test waits until the test may open tabs; the test keeps this permission until it ends. Further tabs of the same
// test do not wait: two tests that each had one tab and waited for a second one would wait for ever. The tab closes
// with the test.
func (p *process) tab(t testing.TB) context.Context {
	t.Helper()
	p.enter(t)
	ctx, closeTab := chromedp.NewContext(p.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	return ctx
}

// enter waits until the test may open tabs. It does not wait if the test already has a tab.
func (p *process) enter(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	again := p.started[t.Name()]
	p.mu.Unlock()
	if again {
		return
	}
	select {
	case <-p.free:
	case <-t.Context().Done():
		t.Fatal("the test ended while it waited for a tab")
	}
	p.note(t.Name(), true)
	t.Cleanup(func() {
		p.note(t.Name(), false)
		p.free <- struct{}{}
	})
}

func (p *process) note(test string, has bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started[test] = has
}
