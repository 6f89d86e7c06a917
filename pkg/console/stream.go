package console

import (
	"net/http"
	"net/url"
)

// passed are headers of an answer that is passed on as it is; trailing stand behind
// it.
var (
	passed   = []string{"Content-Type", "Content-Disposition", "X-Export-Searched-Until", "Trailer"}
	trailing = []string{"X-Export-Messages", "X-Export-Complete"}
)

// stream passes the answer of the API on while it is made: none of it is kept. An
// error that the API answers with is returned, and nothing has been sent. An answer
// that breaks off ends the connection, as the API's own does.
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

// passage passes a good answer on and keeps a bad one.
type passage struct {
	answer
	to    http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
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

// Write implements http.ResponseWriter. What was written is on its way when it
// returns.
func (p *passage) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if !p.begun {
		return p.answer.Write(b)
	}
	n, err := p.to.Write(b)
	if err == nil {
		_ = http.NewResponseController(p.to).Flush() // writers that cannot, keep it until the end
	}
	return n, err
}

// Unwrap lets deadlines reach the connection.
func (p *passage) Unwrap() http.ResponseWriter { return p.to }
