package console

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

const (
	attemptCookie = "__Host-dlq-signin" // holds a sign-in that was begun at the issuer and has not ended
	// holds the time of the last sign-in at the issuer, which decides whether the console may redirect there again.
	issuerCookie = "__Host-dlq-issuer"

	attemptLifetime = 10 * time.Minute
	issuerLifetime  = 30 * 24 * time.Hour
)

// endSession removes all that the browser keeps of its session.
func endSession(w http.ResponseWriter, r *http.Request) {
	session.Drop(w)
	view.ForgetDrafts(w, r)
	session.RemoveCookie(w, attemptCookie)
	session.RemoveCookie(w, issuerCookie)
}

// signInAttempt is a sign-in that has begun and not ended. The console compares the issuer's answer with it. It is
// stored in the browser only, in a cookie.
type signInAttempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Return   string `json:"r"` // page to go to after the sign-in
	Began    int64  `json:"t"` // seconds since 1970
}

func (a signInAttempt) keep(w http.ResponseWriter) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write the cookie of a sign-in: %w", err)
	}
	session.SetCookie(w, attemptCookie, base64.RawURLEncoding.EncodeToString(raw), attemptLifetime)
	return nil
}

var errNoAttempt = errors.New("the browser has no sign-in under way")

// attemptOf reads the sign-in attempt from its cookie. The return path is checked again, because the user may have
// written the cookie.
func attemptOf(r *http.Request, now time.Time) (signInAttempt, error) {
	var a signInAttempt
	raw, err := base64.RawURLEncoding.DecodeString(session.CookieValue(r, attemptCookie))
	if err != nil || json.Unmarshal(raw, &a) != nil || a.State == "" || a.Nonce == "" || a.Verifier == "" {
		return signInAttempt{}, errNoAttempt
	}
	if age := now.Sub(time.Unix(a.Began, 0)); age > attemptLifetime || age < -attemptLifetime {
		return signInAttempt{}, errNoAttempt
	}
	a.Return = link.Return(a.Return)
	return a, nil
}

func (a signInAttempt) answeredBy(state string) bool {
	return subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}
