package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// done are the sentences after a change by their code in the cookie: no text of a request is ever shown as ours.
var done = map[string]string{
	"retried":        "The message was sent back. Watch its outcome below.",
	"requeued":       "The message is pending again, with no attempts used.",
	"dead":           "The message was given up.",
	"deleted":        "The message was deleted.",
	"origin":         "The original topic was set.",
	"restored":       "The message is among the live ones again, as pending.",
	"noted":          "The group was changed.",
	"redrive":        "The redrive was made. It goes on by itself, also when you leave.",
	"paused":         "The redrive was paused. What was under way ends.",
	"resumed":        "The redrive goes on.",
	"cancelled":      "The redrive was cancelled. What it had not taken stays as it is.",
	"mapped":         "The rules were replaced.",
	"edited":         "The edited message was sent. The stored one is as it was.",
	"trying":         "The record is tried within seconds. It leaves this list when it is stored.",
	"record-deleted": "The record was deleted.",
	"signed-out":     "You are signed out.",
	"nothing-chosen": "Nothing was selected.",
}

// doneCookie carries what was done to the next page. An address would say it again each time it is opened.
const (
	doneCookie = "dlq-done"
	doneLife   = time.Minute
)

// seeDone ends a change as seeOther does. The page begins with what was done, once.
func seeDone(w http.ResponseWriter, r *http.Request, what, address string) error {
	if u, err := url.Parse(address); err == nil {
		setDone(w, r, what+"."+digest(u.Path), doneLife)
	}
	return seeOther(w, r, address)
}

// takeDone returns the sentence for this page and takes it away. Parts that fetch themselves leave it to the page.
func takeDone(w http.ResponseWriter, r *http.Request) string {
	what, where, _ := strings.Cut(cookieOf(r, doneCookie), ".")
	if r.Method != http.MethodGet || !navigates(r) || where != digest(r.URL.Path) {
		return ""
	}
	setDone(w, r, "", -time.Second)
	return done[what]
}

// setDone sets the cookie; it has to work without TLS, where the change worked too.
func setDone(w http.ResponseWriter, r *http.Request, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: doneCookie, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}
