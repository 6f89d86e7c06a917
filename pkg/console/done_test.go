package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

func TestDone(t *testing.T) {
	t.Parallel()
	const page, sentence = "/redrives/" + consoletest.RedriveID, "The redrive was paused."
	v := newVisitor(t, consoletest.Site(t, consoletest.RedriveAPI(t).Says("POST /api/v1/redrives/"+consoletest.RedriveID+"/pause", consoletest.Raw(`{}`))))
	says := func(path string) bool {
		t.Helper()
		return strings.Contains(v.get(path).Body.String(), sentence)
	}
	cookie := v.send(http.MethodPost, page+"/pause", url.Values{}).Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.MaxAge != 60 || cookie.Path != "/" {
		t.Errorf("got %s, want one for a minute, that scripts and other sites do not have, and that is kept without TLS", cookie)
	}
	if says("/redrives") {
		t.Error("got it shown on another page")
	}
	if v.header["Hx-Request"] = "true"; says(page) {
		t.Error("got it shown in a live part")
	}
	if delete(v.header, "Hx-Request"); !says(page + "?result=skipped") {
		t.Error("got it missing on its own page, or removed by another page or a part")
	}
	if v.cookies() != "" || says(page) {
		t.Errorf("got it shown again (%q), want once", v.cookies())
	}
	// A page shows only the console's own sentences about changes, never text from the cookie or the address.
	for _, value := range []string{consoletest.Hostile, "paused", "paused.x", consoletest.Hostile + "." + format.Digest(page), "nonsense." + format.Digest(page)} {
		v.jar[view.DoneCookie] = &http.Cookie{Name: view.DoneCookie, Value: url.QueryEscape(value)}
		body := v.get(page + "?done=paused").Body.String()
		consoletest.MustNotHave(t, body, `class="notice good"`)
		consoletest.WantNoMarkup(t, body)
	}
}
