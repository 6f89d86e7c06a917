package registry

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// faults describes in which ways a registry fails at the moment, as set by the methods below. The zero value means no
// failure.
type faults struct {
	down     bool
	delay    time.Duration
	status   int
	content  string
	huge     int
	redirect string
}

// Down makes the registry close each connection without an answer. False ends this failure.
func (r *Registry) Down(on bool) { r.fail(func(f *faults) { f.down = on }) }

// Delay makes the registry wait before each answer. Zero ends this failure.
func (r *Registry) Delay(d time.Duration) { r.fail(func(f *faults) { f.delay = d }) }

// Status makes the registry answer every request with an HTTP status. Zero ends this failure.
func (r *Registry) Status(code int) { r.fail(func(f *faults) { f.status = code }) }

// Content makes the registry answer 200 with a text. An empty text ends this failure.
func (r *Registry) Content(text string) { r.fail(func(f *faults) { f.content = text }) }

// Huge makes the registry answer 200 with a body of n bytes; from 13 bytes on, it is valid JSON. The answer has no
// header Content-Length. Zero ends this failure.
func (r *Registry) Huge(n int) { r.fail(func(f *faults) { f.huge = n }) }

// RedirectTo makes the registry redirect every request to another server: to the same path below url. An empty url ends
// this failure.
func (r *Registry) RedirectTo(url string) { r.fail(func(f *faults) { f.redirect = url }) }

// Heal ends all failures.
func (r *Registry) Heal() { r.fail(func(f *faults) { *f = faults{} }) }

func (r *Registry) fail(change func(*faults)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.faults)
}

// answer fails the request in the way that is set, after the delay that is set. It returns false, without an answer, if
// only a delay or nothing is set.
func (f faults) answer(w http.ResponseWriter, req *http.Request) bool {
	f.wait(req)
	switch {
	case f.down:
		panic(http.ErrAbortHandler) // net/http closes the connection
	case f.status != 0:
		writeError(w, failure(f.status, f.status, "HTTP %d %s", f.status, http.StatusText(f.status)))
	case f.redirect != "":
		http.Redirect(w, req, strings.TrimRight(f.redirect, "/")+req.URL.RequestURI(), http.StatusTemporaryRedirect)
	case f.huge > 0:
		writeHuge(w, f.huge)
	case f.content != "":
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, f.content)
	default:
		return false
	}
	return true
}

// wait returns after the delay, or when the client is gone.
func (f faults) wait(req *http.Request) {
	if f.delay <= 0 {
		return
	}
	timer := time.NewTimer(f.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
	}
}

const (
	hugeStart = `{"schema":"`
	hugeEnd   = `"}`
)

// writeHuge writes n bytes in pieces, as long as the client reads.
func writeHuge(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush() // so that the answer has no Content-Length
	}
	filler := max(0, n-len(hugeStart)-len(hugeEnd))
	body := io.MultiReader(
		strings.NewReader(hugeStart),
		io.LimitReader(letters{}, int64(filler)),
		strings.NewReader(hugeEnd),
	)
	_, _ = io.CopyN(w, body, int64(n))
}

// letters is a reader of endless text.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
