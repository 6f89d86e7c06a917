package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// screen is the size of a window, in CSS pixels.
type screen struct {
	name          string
	width, height int
}

var (
	desk = screen{"desk", 1440, 900}
	hand = screen{"hand", 390, 844}
)

// window has the size and the colours that a tab emulates.
type window struct {
	width, height int
	colours       string
}

// show sets the size and colours of the window. It asks pages for reduced motion, so that screenshots are stable.
// Chromium lays the page out again for each command, so show sends none for what the window already has.
func (b *Browser) show(s screen, colours string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if b.window.width != s.width || b.window.height != s.height {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(s.width), int64(s.height))); err != nil {
			b.t.Fatalf("size the window: %v", err)
		}
	}
	if b.window.colours != colours {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: colours},
			{Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		if err != nil {
			b.t.Fatalf("choose %s colours: %v", colours, err)
		}
	}
	*b.window = window{s.width, s.height, colours}
}

// WithoutScripts turns off JavaScript in the tab.
func (b *Browser) WithoutScripts() {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatalf("turn off scripts: %v", err)
	}
}

// Hand makes the window as narrow as a phone; Desk restores it.
func (b *Browser) Hand() { b.t.Helper(); b.show(hand, "light") }

// Desk gives the window its initial width.
func (b *Browser) Desk() { b.t.Helper(); b.show(desk, "light") }

// Screenshot fails the test if the page is wider than the window, at the width of a desktop and at the width of a phone.
// If SCREENSHOTS names a folder, it also saves the page there at both widths, in light and dark colours, as
// NAME-desk-light.png and so on, up to four times the height of the window.
func (b *Browser) Screenshot(name string) {
	b.t.Helper()
	for _, s := range []screen{desk, hand} {
		b.show(s, "dark")
		b.wantNoWider(name, s)
		if screenshots() == "" {
			continue
		}
		for _, colours := range []string{"dark", "light"} {
			b.show(s, colours)
			b.show(screen{s.name, s.width, b.height(s)}, colours)
			b.keep(name + "-" + s.name + "-" + colours + ".png")
		}
	}
	b.Desk()
}

// height returns the window height that shows the whole page, but at least the height of the screen and at most four
// times this height.
func (b *Browser) height(s screen) int {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	height, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollHeight`))
	if err != nil {
		b.t.Fatalf("height of the page: %v", err)
	}
	return min(max(height, s.height), 4*s.height)
}

// keep saves what the window shows, if SCREENSHOTS names a folder.
func (b *Browser) keep(file string) {
	b.t.Helper()
	folder := screenshots()
	if folder == "" {
		return
	}
	ctx, cancel := b.bounded()
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("screenshot %s: %v", file, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatalf("keep screenshots: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, file), png, 0o644); err != nil {
		b.t.Fatalf("keep screenshots: %v", err)
	}
}

// wantNoWider waits until the page is not wider than the window, because a chart adapts to its window a little later.
func (b *Browser) wantNoWider(name string, s screen) {
	b.t.Helper()
	b.step(name+" fits "+s.name, func(ctx context.Context) (string, error) {
		width, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth`))
		if err != nil || width <= s.width {
			return "", err
		}
		return fmt.Sprintf("it is %d pixels wide, want no more than the %d of the window", width, s.width), nil
	})
}

// screenshots returns the folder for screenshots, or "" if none are wanted.
func screenshots() string { return os.Getenv("SCREENSHOTS") }

// repository returns the folder of the Makefile, which contains the test's working folder.
func repository(fatalf func(string, ...any)) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "Makefile")); missing == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	fatalf("the tests do not run inside the repository: %s, %v", dir, err)
	return ""
}
