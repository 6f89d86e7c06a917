package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// done holds the sentences shown after a change, by the code in the cookie: text of a request is never shown as ours.
var done = map[string]string{
	"retried":        "The message was sent back. Watch its outcome below.",
	"requeued":       "The message is pending again, with no attempts used.",
	"dead":           "The message was marked dead.",
	"deleted":        "The message was deleted.",
	"origin":         "The original topic was set.",
	"restored":       "The message was restored from the archive and is pending.",
	"noted":          "The group was changed.",
	"redrive":        "Redrive started. It continues when you leave this page.",
	"paused":         "The redrive was paused. Attempts under way are completed.",
	"resumed":        "The redrive was resumed.",
	"cancelled":      "The redrive was cancelled. Messages that it had not taken are unchanged.",
	"mapped":         "The rules were replaced.",
	"edited":         "The edited message was sent. The stored message is unchanged.",
	"trying":         "The record will be tried within seconds. It leaves this list once it is stored.",
	"record-deleted": "The record was deleted.",
	"signed-out":     "You are signed out.",
	"nothing-chosen": "Nothing was selected.",
}

// doneCookie carries the code of the change to the next page. In the address it would show again on each visit.
const (
	doneCookie = "dlq-done"
	doneLife   = time.Minute
)

// seeDone redirects after a change as seeOther does. The next page shows the sentence for what, once.
func seeDone(w http.ResponseWriter, r *http.Request, what, address string) error {
	if u, err := url.Parse(address); err == nil {
		setDone(w, r, what+"."+digest(u.Path), doneLife)
	}
	return seeOther(w, r, address)
}

// takeDone returns the sentence for this page and removes the cookie. Requests of live parts leave it for the page.
func takeDone(w http.ResponseWriter, r *http.Request) string {
	what, where, _ := strings.Cut(cookieOf(r, doneCookie), ".")
	if r.Method != http.MethodGet || !navigates(r) || where != digest(r.URL.Path) {
		return ""
	}
	setDone(w, r, "", -time.Second)
	return done[what]
}

// setDone sets the cookie, without Secure when there is no TLS: the console works without it too.
func setDone(w http.ResponseWriter, r *http.Request, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: doneCookie, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}
