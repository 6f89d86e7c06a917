package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// client calls the API in the process, as whoever asked for a page.
type client struct{ api http.Handler }

// apiError is what the API answers when it cannot do what it was asked for.
type apiError struct {
	Status    int
	Code      string           `json:"code"`
	Message   string           `json:"message"`
	RequestID string           `json:"request_id"`
	Details   []map[string]any `json:"details"`
	after     string           // Retry-After
}

// Error returns the API's own words.
func (e *apiError) Error() string { return e.Message }

// get asks for path and reads the answer into into.
func (c client) get(r *http.Request, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.send(r, http.MethodGet, path, nil, into)
}

// send sends body, nil for none, as JSON. The answer is read into into, unless that
// is nil. A form's key makes it happen once, however often the form is sent.
func (c client) send(r *http.Request, method, path string, body, into any) error {
	answer, err := c.call(r, method, path, body, 0)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// probe reads what the program says of itself, also when it is not well.
func (c client) probe(r *http.Request, path string, into any) error {
	req, err := inner(r, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	a := &answer{header: http.Header{}}
	c.api.ServeHTTP(a, req)
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return nil
}

// head returns the first bytes of an answer, at most n, its headers, and whether
// that was all. What is behind them is not loaded.
func (c client) head(r *http.Request, path string, n int) (b []byte, all bool, header http.Header, err error) {
	answer, err := c.call(r, http.MethodGet, path, nil, n)
	if err != nil {
		return nil, false, nil, err
	}
	return answer.body.Bytes(), !answer.cut, answer.header, nil
}

const (
	maxAnswer  = 32 << 20 // bytes of an answer that are read; no page can show more
	maxProblem = 1 << 20  // and of one of an error
)

// call makes one call. An answer of an error is returned as one; most is how much of
// any other is taken, 0 for all: one that is too large for that is an error.
func (c client) call(r *http.Request, method, path string, body any, most int) (*answer, error) {
	req, err := inner(r, method, path, body)
	if err != nil {
		return nil, err
	}
	a := &answer{header: http.Header{}, most: most}
	c.api.ServeHTTP(a, req)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if a.status >= http.StatusBadRequest {
		return nil, a.problem()
	}
	if most == 0 && a.cut {
		return nil, &apiError{Status: http.StatusInternalServerError, Message: fmt.Sprintf("There is more to read than the %s that a page can take: ask for less at once.", byteSize(maxAnswer))}
	}
	return a, nil
}

// inner is a request of the API on behalf of r.
func inner(r *http.Request, method, path string, body any) (*http.Request, error) {
	var reader io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write the body of %s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(r.Context(), method, path, reader)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.RemoteAddr, req.Host = r.RemoteAddr, r.Host
	if hops := r.Header.Values("X-Forwarded-For"); len(hops) > 0 {
		req.Header["X-Forwarded-For"] = hops
	}
	if id := r.Header.Get("X-Request-Id"); id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	if parents := r.Header.Values("Traceparent"); len(parents) == 1 { // of two nobody knows which is right
		req.Header.Set("Traceparent", parents[0])
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if value := authorization(r); value != "" {
		req.Header.Set("Authorization", value)
	}
	if method == http.MethodPost || method == http.MethodPut {
		if key := r.PostFormValue(keyField); key != "" {
			req.Header.Set("Idempotency-Key", "console-"+key)
		}
	}
	return req, nil
}

// answer collects what the API answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	most   int // bytes of a good answer that are wanted; 0: all, but for what no page can show
	cut    bool
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write implements http.ResponseWriter. When there is enough, whoever writes is told
// that nobody reads on.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if left := a.limit() - a.body.Len(); len(b) > left {
		a.cut = true
		a.body.Write(b[:left])
		return left, io.ErrClosedPipe
	}
	return a.body.Write(b)
}

// limit is how many bytes are kept.
func (a *answer) limit() int {
	switch {
	case a.status >= http.StatusBadRequest:
		return maxProblem
	case a.most > 0:
		return a.most
	default:
		return maxAnswer
	}
}

func (a *answer) problem() error {
	var envelope struct {
		Error apiError `json:"error"`
	}
	if err := json.Unmarshal(a.body.Bytes(), &envelope); err != nil || envelope.Error.Message == "" {
		return fmt.Errorf("the API answered %d without an error that can be read", a.status)
	}
	envelope.Error.Status, envelope.Error.after = a.status, a.header.Get("Retry-After")
	return &envelope.Error
}

// endpoint joins segments to a path of the API, whatever is in them.
func endpoint(segments ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
