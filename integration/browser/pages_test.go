package browser

import (
	"net/http"
	"strings"
	"testing"
)

// widths are the widths of windows, from small phones to desktops. They include the widths at which the layout changes.
var widths = []int{320, 390, 480, 640, 641, 760, 800, 905, 1024, 1280, 1440}

// maxShift is the largest shift that a page may have: a tenth of the shift that Chromium calls good. A time that
// becomes a second older may widen its column, which shifts a page by about 0.002.
const maxShift = 0.01

// TestEveryPage: no page moves its parts while it loads, scrolls sideways at any width, is heavier than its limit, or
// breaks a rule of accessibility in light or dark colours.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	site := NewSite(t)
	_, dead := site.Topics("a-name_with_underscores.that-is-longer-than-any-name-should-be.and-goes-on-and-on")
	letter := Letter{Key: "long_key_1", Class: "com.acme.LongNamesException", Error: "no such_name in " + dead, Value: `{"order_id": "SHIP-00042"}`, Stack: stack}
	stored := site.Fail("a-name_with_underscores.that-is-longer-than-any-name-should-be.and-goes-on-and-on", letter)
	var order struct {
		ID string `json:"id"`
	}
	site.Call(http.MethodPost, "/api/v1/redrives", map[string]any{"action": "retry", "filter": map[string]any{"topic": dead}, "reason": "a long_reason"}, &order)
	var found struct {
		Groups []struct {
			ID string `json:"id"`
		} `json:"groups"`
	}
	site.Call(http.MethodGet, "/api/v1/groups", nil, &found)

	b := Open(t, site.URL)
	b.Allow("status of 404")
	for name, path := range map[string]string{
		"overview": "/", "messages": "/messages", "messages-found": "/messages?q=SHIP-00042&status=PENDING", "message": "/messages/" + stored[0].ID,
		"edit": "/messages/" + stored[0].ID + "/edit", "groups": "/groups", "group": "/groups/" + found.Groups[0].ID, "redrives": "/redrives",
		"redrive-start": "/redrives/new", "redrive-new": "/redrives/new?topic=" + dead, "redrive": "/redrives/" + order.ID,
		"topics": "/topics", "mapping": "/topics/mapping", "quarantine": "/quarantine", "archive": "/archive", "audit": "/audit",
		"error": "/messages/00000000-0000-7000-8000-000000000000",
	} {
		b.Visit(path)
		t.Logf("first paint of %s: %.0f ms", name, b.FirstPaint())
		if shift, moved := b.Shift(); shift > maxShift {
			t.Errorf("the layout of %s shifts by %g, want %g at most: %s", name, shift, maxShift, strings.Join(moved, "; "))
		}
		b.Look(name)
		for _, width := range widths {
			b.show(screen{"", width, 900}, "light")
			b.wantNoWider(name, screen{"", width, 900})
		}
		b.Desk()
	}
	b.Visit("/docs") // axe would take minutes for all sections; TestNothingHereYet checks one of them
	for _, width := range widths {
		b.show(screen{"", width, 900}, "light")
		b.wantNoWider("docs", screen{"", width, 900})
	}
}
