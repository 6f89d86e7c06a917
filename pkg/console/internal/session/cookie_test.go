package session

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
		if err := Keep(w, long[:n], time.Hour); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		s := Of(kept(t, w))
		if got := s.Token; got != long[:n] || len(s.ID) != 26 {
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
	if err := Keep(w, long+"x", 0); !errors.Is(err, ErrTokenTooLong) || len(w.Result().Cookies()) != 0 {
		t.Errorf("one byte too many: got %v and %v, want it refused and nothing kept", err, w.Result().Cookies())
	}
}

func TestSession_ThatIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"None":         "",
		"PartMissing":  Cookie + "=3:i:a; " + Cookie + "-2=b",
		"Twice":        Cookie + "=1:i:a; " + Cookie + "=1:i:b",
		"NoCount":      Cookie + "=a",
		"NothingElse":  Cookie + "=1:",
		"NoToken":      Cookie + "=1:i:",
		"NoID":         Cookie + "=1:a",
		"EmptyID":      Cookie + "=1::a",
		"CountTooHigh": Cookie + "=99999999999:i:a",
		"CountIsZero":  Cookie + "=0:i:a",
		"OtherName":    "dlq-session=1:i:a",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Cookie", header)
		if got := Authorization(r); got != "" {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
}

func TestAuthorization_OfTheRequestItselfCountsMore(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Cookie", Cookie+"=2:i:a; "+Cookie+"-2=b; "+Cookie+"-3=of-before")
	if got := Authorization(r); got != "Bearer ab" {
		t.Errorf("got %q, want the cookie's two parts", got)
	}
	r.Header.Set("Authorization", "Bearer c")
	if got := Authorization(r); got != "Bearer c" {
		t.Errorf("got %q, want the header's", got)
	}
	r.Header.Add("Authorization", "Bearer d")
	if got := Authorization(r); got != "Bearer c, Bearer d" {
		t.Errorf("got %q, want both, which the API refuses", got)
	}
}
