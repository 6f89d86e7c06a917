package api

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const (
	// readAfter is the header of the API with the mark of a change: a read with the mark shows this change, although a
	// replica of the database may answer it.
	readAfter = "DLQ-Read-After"

	// readAfterCookie has no prefix __Host-, because browsers accept a cookie with that prefix only with TLS. A mark is
	// no secret. A forged mark only makes the database answer in place of its replica.
	readAfterCookie = "dlq-read-after"
	// readAfterLife is how long the browser keeps the mark of a change. A replica of the database that is in use is
	// never so far behind.
	readAfterLife = time.Hour
)

// aMark is the form of a mark. A cookie with any other value is ignored, because the API refuses every request that
// carries such a value.
var aMark = regexp.MustCompile(`^(0|[1-9A-F][0-9A-F]{0,7})/(0|[1-9A-F][0-9A-F]{0,7})$`)

// marks holds the mark of the last change that a page has made, and the page's answer, whose cookie stores the mark.
type marks struct {
	to   http.ResponseWriter
	last string
}

type marksKey struct{}

// WithMarks returns the request of a page whose answer goes to w. When the page changes something, a cookie makes the
// browser's next pages show the change.
func WithMarks(w http.ResponseWriter, r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), marksKey{}, &marks{to: w}))
}

// keepMark stores the mark in an answer of the API, for the later requests of this page and, in a cookie, for the
// browser's next pages.
func keepMark(r *http.Request, answer http.Header) {
	mark := answer.Get(readAfter)
	if m, _ := r.Context().Value(marksKey{}).(*marks); m != nil && mark != "" {
		m.last = mark
		session.RememberFor(m.to, r, readAfterCookie, mark, readAfterLife)
	}
}

// markOf returns the mark of the last change that this request has made, else the mark in the browser's cookie; "" for
// none.
func markOf(r *http.Request) string {
	if m, _ := r.Context().Value(marksKey{}).(*marks); m != nil && m.last != "" {
		return m.last
	}
	if mark := session.CookieValue(r, readAfterCookie); aMark.MatchString(mark) {
		return mark
	}
	return ""
}
