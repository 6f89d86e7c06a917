package console

import (
	"net/http"
	"net/url"
)

// passed are the headers of the API's answer to copy; trailing ones follow the body.
var (
	passed   = []string{"Content-Type", "Content-Disposition", "X-Export-Searched-Until", "Trailer"}
	trailing = []string{"X-Export-Messages", "X-Export-Complete"}
)

// stream copies the API's answer to w as it is produced. When it returns an error of the API, nothing has been
// written. An answer that breaks off also ends the connection.
func (c client) stream(w http.ResponseWriter, r *http.Request, path string, query url.Values) error {
	req, err := inner(r, r.Method, withQuery(path, query), nil)
	if err != nil {
		return err
	}
	p := &passage{to: w, answer: answer{header: http.Header{}}}
	c.api.ServeHTTP(p, req)
	if p.status >= http.StatusBadRequest {
		return p.problem()
	}
	if !p.begun {
		p.WriteHeader(http.StatusOK)
	}
	for _, name := range trailing {
		if value := p.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	return nil
}

type passage struct {
	answer
	to    http.ResponseWriter
	begun bool
}

func (p *passage) WriteHeader(status int) {
	if p.answer.WriteHeader(status); p.status == 0 || p.status >= http.StatusBadRequest || p.begun {
		return
	}
	p.begun = true
	for _, name := range passed {
		if values := p.header.Values(name); len(values) > 0 {
			p.to.Header()[name] = values
		}
	}
	p.to.WriteHeader(p.status)
}

// Write flushes after each write.
func (p *passage) Write(b []byte) (int, error) {
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
func (p *passage) Unwrap() http.ResponseWriter { return p.to }
