package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed page.js
var pageScript string

// answer is the result of a function of page.js, which runs in the page of the tab. Problem says why the element cannot
// be used yet.
type answer struct {
	Problem string
	X, Y    float64
	Done    bool
	Text    string
}

// Click clicks the middle of the element of this name with the pointer.
func (b *Browser) Click(what string) {
	b.t.Helper()
	var before answer
	b.step("click "+what, func(ctx context.Context) (problem string, err error) {
		at, err := ask[answer](ctx, "point", b.scope, what)
		if err != nil || at.Problem != "" {
			return at.Problem, err
		}
		if at != before { // the element is still moving, and a click would miss it
			before = at
			return "it moves", nil
		}
		if err := chromedp.Do(ctx, chromedp.MouseClickXY(at.X, at.Y)); err != nil {
			b.t.Fatalf("click %s: %v", what, err) // the click may have happened, so it must not be repeated
		}
		return "", nil
	})
}

// Hold presses the pointer in the middle of the element of this name, calls the function meanwhile, and releases the
// pointer.
func (b *Browser) Hold(what string, meanwhile func()) {
	b.t.Helper()
	var at answer
	b.step("press the pointer on "+what, func(ctx context.Context) (problem string, err error) {
		at, err = ask[answer](ctx, "point", b.scope, what)
		return at.Problem, err
	})
	b.pointer(at, input.DispatchMouseEventTypeMousePressed)
	meanwhile()
	b.pointer(at, input.DispatchMouseEventTypeMouseReleased)
}

func (b *Browser) pointer(at answer, event input.DispatchMouseEventType) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.MouseEvent(event, at.X, at.Y, chromedp.Button("left"), chromedp.ClickCount(1))); err != nil {
		b.t.Fatalf("%s: %v", event, err)
	}
}

// Fill replaces the content of a field by typing text. In a list, Fill chooses the option whose name is the
// parameter text. For a date or time, the parameter text must be in HTML's format.
func (b *Browser) Fill(label, text string) {
	b.t.Helper()
	b.step("fill "+label, func(ctx context.Context) (problem string, err error) {
		in, err := ask[answer](ctx, "enter", b.scope, label, text)
		if err != nil || in.Problem != "" || in.Done {
			return in.Problem, err
		}
		if err := typeText(ctx, text); err != nil {
			return "", err
		}
		now, err := ask[answer](ctx, "value", b.scope, label)
		if err == nil && now.Problem == "" && now.Text != text {
			now.Problem = fmt.Sprintf("it holds %q, want %q", now.Text, text)
		}
		return now.Problem, err
	})
}

// typeText replaces the selection with text.
func typeText(ctx context.Context, text string) error {
	if text == "" {
		return chromedp.Do(ctx, chromedp.KeyEvent(kb.Delete))
	}
	return chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// keys maps a key's name in a call of Press, such as Enter, to the character that chromedp sends for the key.
var keys = map[string]string{
	"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "Space": " ", "Backspace": kb.Backspace, "Delete": kb.Delete,
	"ArrowUp": kb.ArrowUp, "ArrowDown": kb.ArrowDown, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Home": kb.Home, "End": kb.End, "PageUp": kb.PageUp, "PageDown": kb.PageDown,
}

var modifiers = map[string]chromedp.Modifier{
	"Shift": chromedp.ModifierShift, "Control": chromedp.ModifierCtrl, "Alt": chromedp.ModifierAlt, "Meta": chromedp.ModifierMeta,
}

// Press presses keys in order: "j", "?", "Enter", "Shift+Tab".
func (b *Browser) Press(presses ...string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	for _, press := range presses {
		if err := chromedp.Do(ctx, keyEvent(press)); err != nil {
			b.t.Fatalf("press %s: %v", press, err)
		}
	}
}

// keyEvent presses and releases a key. The character is part of the press, so that a page that
// handles the press can prevent the input.
func keyEvent(press string) chromedp.Action[chromedp.Void] {
	parts := strings.Split(press, "+")
	key := parts[len(parts)-1]
	var held chromedp.Modifier
	for _, name := range parts[:len(parts)-1] {
		held |= modifiers[name]
	}
	if named, ok := keys[key]; ok {
		key = named
	}
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, r := range key {
			for _, event := range pressAndRelease(r, held) {
				if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, event); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func pressAndRelease(r rune, held chromedp.Modifier) (events []input.DispatchKeyEventParams) {
	for _, event := range kb.Encode(r) {
		event.Modifiers |= int64(held)
		if event.Type != kb.KeyChar {
			events = append(events, *event)
		} else if held&^chromedp.ModifierShift == 0 {
			events[0].Text, events[0].UnmodifiedText = event.Text, event.UnmodifiedText
		}
	}
	return events
}

// WaitText waits until the page shows text.
func (b *Browser) WaitText(text string) {
	b.t.Helper()
	b.waitShown(text, true)
}

// WaitGone waits until the page no longer shows text.
func (b *Browser) WaitGone(text string) {
	b.t.Helper()
	b.waitShown(text, false)
}

func (b *Browser) waitShown(text string, want bool) {
	b.t.Helper()
	b.step(fmt.Sprintf("wait until %q is shown: %t", text, want), func(ctx context.Context) (string, error) {
		now, err := ask[answer](ctx, "shows", b.scope, text)
		if err != nil || now.Problem != "" || now.Done == want {
			return now.Problem, err
		}
		return fmt.Sprintf("the page says %.1500q", now.Text), nil
	})
}

// WaitPath waits until the tab shows a loaded page whose path begins with prefix.
func (b *Browser) WaitPath(prefix string) {
	b.t.Helper()
	b.Wait("the path begins with "+prefix, fmt.Sprintf(
		`document.readyState === "complete" && location.href.startsWith(%s)`, quote(b.base+prefix)))
}

// Wait waits until a JavaScript condition is true in the page.
func (b *Browser) Wait(what, condition string) {
	b.t.Helper()
	b.step("wait until "+what, func(ctx context.Context) (string, error) {
		return chromedp.Run(ctx, chromedp.Evaluate[string]("("+condition+") ? '' : 'it is not so at ' + location.href"))
	})
}

// Text returns the text of the first visible element that a CSS selector matches, with single
// spaces.
func (b *Browser) Text(selector string) (text string) {
	b.t.Helper()
	b.step("text of "+selector, func(ctx context.Context) (string, error) {
		a, err := ask[answer](ctx, "text", b.scope, selector)
		text = a.Text
		return a.Problem, err
	})
	return text
}

// Value returns the content of the field with that label; "true" or "false" for a checkbox.
func (b *Browser) Value(label string) (text string) {
	b.t.Helper()
	b.step("value of "+label, func(ctx context.Context) (string, error) {
		a, err := ask[answer](ctx, "value", b.scope, label)
		text = a.Text
		return a.Problem, err
	})
	return text
}

// Count returns how many visible elements a CSS selector matches now.
func (b *Browser) Count(selector string) (n int) {
	b.t.Helper()
	b.step("count "+selector, func(ctx context.Context) (_ string, err error) {
		n, err = ask[int](ctx, "count", b.scope, selector)
		return "", err
	})
	return n
}

// The pause between two tries of a step doubles from minPause to maxPause: every try makes Chromium lay the page out, and
// what is not there at once is often the result of a redrive or the next update of the page, seconds later.
const (
	minPause = 25 * time.Millisecond
	maxPause = 200 * time.Millisecond
)

// step calls the function do again and again until do reports no problem and no error. When the tab loads another page
// while do runs, do returns an error, and the next call of do uses the new page.
func (b *Browser) step(what string, do func(ctx context.Context) (problem string, err error)) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	last := "the browser did not answer"
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		problem, err := do(ctx)
		if err == nil && problem == "" {
			return
		}
		switch {
		case err == nil:
			last = problem
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s: in vain for %s: %s", what, Patience, last)
		case <-time.After(pause):
		}
	}
}

// ask calls a function of page.js.
func ask[T any](ctx context.Context, function string, args ...string) (T, error) {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = quote(a)
	}
	script := fmt.Sprintf("(%s).%s(%s)", strings.TrimSpace(pageScript), function, strings.Join(quoted, ", "))
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}

// quote returns text as a JavaScript literal.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot happen: text can always be encoded
	}
	return string(out)
}
