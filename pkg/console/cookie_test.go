package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// kept returns a request of a browser with the cookies that w set.
func kept(t *testing.T, w *httptest.ResponseRecorder) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for _, cookie := range w.Result().Cookies() {
		if cookie.MaxAge >= 0 {
			r.AddCookie(cookie)
		}
	}
	return r
}

func TestSession_OfEveryLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abcdefghij", maxParts*partSize/10)
	for _, n := range []int{1, 48, partSize - 1, partSize, partSize + 1, 2 * partSize, 3*partSize + 1, maxParts * partSize} {
		w := httptest.NewRecorder()
		if err := keepSession(w, long[:n], time.Hour); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		s := sessionOf(kept(t, w))
		if got := s.token; got != long[:n] || len(s.id) != 26 {
			t.Errorf("%d bytes: got %d bytes back, want the same", n, len(got))
		}
		set := w.Header().Values("Set-Cookie")
		if len(set) != maxParts {
			t.Errorf("%d bytes: %d cookies were set or taken away, want all %d: of a longer session nothing may stay", n, len(set), maxParts)
		}
		for _, line := range set {
			if len(line) > 4096 || !strings.HasPrefix(line, "__Host-") {
				t.Errorf("%d bytes: got a cookie of %d bytes, %.30s, want at most 4096", n, len(line), line)
			}
		}
	}
	w := httptest.NewRecorder()
	if err := keepSession(w, long+"x", 0); !errors.Is(err, errTokenTooLong) || len(w.Result().Cookies()) != 0 {
		t.Errorf("one byte too many: got %v and %v, want it refused and nothing kept", err, w.Result().Cookies())
	}
}

func TestSession_ThatIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"None":         "",
		"PartMissing":  sessionCookie + "=3:i:a; " + sessionCookie + "-2=b",
		"Twice":        sessionCookie + "=1:i:a; " + sessionCookie + "=1:i:b",
		"NoCount":      sessionCookie + "=a",
		"NothingElse":  sessionCookie + "=1:",
		"NoToken":      sessionCookie + "=1:i:",
		"NoID":         sessionCookie + "=1:a",
		"EmptyID":      sessionCookie + "=1::a",
		"CountTooHigh": sessionCookie + "=99999999999:i:a",
		"CountIsZero":  sessionCookie + "=0:i:a",
		"OtherName":    "dlq-session=1:i:a",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Cookie", header)
		if got := authorization(r); got != "" {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
}

func TestAuthorization_OfTheRequestItselfCountsMore(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Cookie", sessionCookie+"=2:i:a; "+sessionCookie+"-2=b; "+sessionCookie+"-3=of-before")
	if got := authorization(r); got != "Bearer ab" {
		t.Errorf("got %q, want the cookie's two parts", got)
	}
	r.Header.Set("Authorization", "Bearer c")
	if got := authorization(r); got != "Bearer c" {
		t.Errorf("got %q, want the header's", got)
	}
	r.Header.Add("Authorization", "Bearer d")
	if got := authorization(r); got != "Bearer c, Bearer d" {
		t.Errorf("got %q, want both, which the API refuses", got)
	}
}
