package rest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// Mount adds h at a path, whose variable segments are in braces; h reads them by http.Request.PathValue. Its requests
// are counted, logged and checked for their site of origin like those of the API; h itself authorizes them. Calls of
// the API that h makes with a request's context count as one answer until h returns. It must not be called once the
// server serves.
func (s *Server) Mount(method, path string, h http.Handler) {
	s.router.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r).route = path
		if !strings.HasPrefix(path, staticPath) {
			r = s.tracer.traced(r)
		}
		setPathValues(r)
		if r.Body != nil && r.Body != http.NoBody {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) // fails in tests, which have no connection
			body := &promptBody{r.Body, control}
			defer body.arrived()
			r.Body = body
		}
		answer := &account{limits: s.limits}
		defer answer.close()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, answer)))
	})).Methods(methods(method)...)
}

// promptBody is a body with a deadline. The deadline is cleared at the end of the body; else it would end the
// detection of a client that disconnects.
type promptBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *promptBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil {
		b.arrived()
	}
	return n, err
}

func (b *promptBody) arrived() { _ = b.control.SetReadDeadline(time.Time{}) }
