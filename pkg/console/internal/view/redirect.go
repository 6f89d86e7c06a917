package view

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

// Done holds the sentences that a page shows after a change, by the code that DoneCookie carries. Pages show only these
// sentences and no text of a request, because another site may have caused the request.
var Done = map[string]string{
	"retried":        "The message was sent back. Watch its outcome below.",
	"requeued":       "The message is pending again, with no attempts used.",
	"dead":           "The message was marked dead.",
	"deleted":        "The message was deleted.",
	"origin":         "The original topic was set.",
	"restored":       "The message was restored from the archive and is pending.",
	"noted":          "The group was changed.",
	"redrive":        "Redrive started. It continues when you leave this page.",
	"undone":         "The messages that were marked dead are being requeued.",
	"paused":         "The redrive was paused. Attempts under way are completed.",
	"resumed":        "The redrive was resumed.",
	"continued":      "The redrive no longer waits for outcomes.",
	"cancelled":      "The redrive was cancelled. Messages that it had not taken are unchanged.",
	"redirected":     "The topic is redirected. Nothing was sent: retry its messages now.",
	"redirect-gone":  "The redirect was removed.",
	"mapped":         "The rules were replaced.",
	"edited":         "The edited message was sent. The stored message is unchanged.",
	"trying":         "The record will be tried within seconds. It leaves this list once it is stored.",
	"record-deleted": "The record was deleted.",
	"signed-out":     "You are signed out.",
	"nothing-chosen": "Nothing was selected.",
	"view-saved":     "The view was saved.",
	"view-deleted":   "The view was deleted.",
}

// DoneCookie carries the code of the change to the next page. If the address carried the code, the page would show the
// sentence again after each reload.
const (
	DoneCookie   = "dlq-done"
	doneLifetime = time.Minute
)

// Redirect answers a change with a redirect, so that a reload of the page does not repeat the change. pairs are names
// and values of the path's query.
func Redirect(w http.ResponseWriter, r *http.Request, path string, pairs ...string) error {
	http.Redirect(w, r, link.To(path, pairs...), http.StatusSeeOther)
	return nil
}

// RedirectDone redirects after a change as Redirect does. The page at the address shows, once, the sentence of Done
// whose code is in the parameter what.
func RedirectDone(w http.ResponseWriter, r *http.Request, what, address string) error {
	if u, err := url.Parse(address); err == nil {
		setDone(w, r, what+"."+format.Digest(u.Path), doneLifetime)
	}
	return Redirect(w, r, address)
}

// undone maps the code of a change to the name of the form, on the same page, that reverts the change.
var undone = map[string]string{"dead": "requeue"}

// takeDone returns the sentence for this page and the address of the form that reverts the change, and removes the
// cookie. Requests of scripts for a part of a page do not remove the cookie, so that the page itself gets the sentence.
func takeDone(w http.ResponseWriter, r *http.Request) (sentence, undo string) {
	what, where, _ := strings.Cut(session.CookieValue(r, DoneCookie), ".")
	if r.Method != http.MethodGet || !request.Navigates(r) || where != format.Digest(r.URL.Path) {
		return "", ""
	}
	setDone(w, r, "", -time.Second)
	if form := undone[what]; form != "" {
		undo = r.URL.EscapedPath() + "/" + form
	}
	return Done[what], undo
}

// setDone sets the cookie, without the attribute Secure when there is no TLS, because the console also works without
// TLS.
func setDone(w http.ResponseWriter, r *http.Request, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: DoneCookie, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}
