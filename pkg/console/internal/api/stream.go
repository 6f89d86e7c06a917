package api

import (
	"net/http"
	"net/url"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// copiedHeaders are the headers of the API's answer to copy; trailing ones follow the body.
var (
	copiedHeaders   = []string{"Content-Type", "Content-Disposition", "X-Export-Searched-Until", "Trailer"}
	trailingHeaders = []string{"X-Export-Messages", "X-Export-Complete"}
)

// Stream copies the API's answer to w as it is produced. When it returns an error of the API, nothing has been
// written. An answer that breaks off also ends the connection.
func (c Client) Stream(w http.ResponseWriter, r *http.Request, path string, query url.Values) error {
	req, err := inner(r, r.Method, link.WithQuery(path, query), nil)
	if err != nil {
		return err
	}
	p := &forwarder{to: w, answer: answer{header: http.Header{}}}
	c.Handler.ServeHTTP(p, req)
	if p.status >= http.StatusBadRequest {
		return p.problem()
	}
	if !p.begun {
		p.WriteHeader(http.StatusOK)
	}
	for _, name := range trailingHeaders {
		if value := p.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	return nil
}

type forwarder struct {
	answer
	to    http.ResponseWriter
	begun bool
}

func (p *forwarder) WriteHeader(status int) {
	if p.answer.WriteHeader(status); p.status == 0 || p.status >= http.StatusBadRequest || p.begun {
		return
	}
	p.begun = true
	for _, name := range copiedHeaders {
		if values := p.header.Values(name); len(values) > 0 {
			p.to.Header()[name] = values
		}
	}
	p.to.WriteHeader(p.status)
}

// Write flushes after each write.
func (p *forwarder) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if !p.begun {
		return p.answer.Write(b)
	}
	n, err := p.to.Write(b)
	if err == nil {
		_ = http.NewResponseController(p.to).Flush() // a writer that cannot flush sends it at the end
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (p *forwarder) Unwrap() http.ResponseWriter { return p.to }
