package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// client calls the API in the process, with the credentials of the request for the page.
type client struct{ api http.Handler }

// apiError is the body of an error response of the API.
type apiError struct {
	Status    int
	Code      string           `json:"code"`
	Message   string           `json:"message"`
	RequestID string           `json:"request_id"`
	Details   []map[string]any `json:"details"`
	after     string           // Retry-After
}

func (e *apiError) Error() string { return e.Message }

func (c client) get(r *http.Request, path string, query url.Values, into any) error {
	return c.send(r, http.MethodGet, withQuery(path, query), nil, into)
}

// send sends body as JSON, a []byte unchanged, and no body when it is nil. The idempotency key of the form makes the
// API do the work once, however often the form is sent.
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

// probe reads a health endpoint of the program, also when its status is an error.
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

// head returns the first bytes of an answer, at most n, and whether that was all of it. The rest is not loaded.
func (c client) head(r *http.Request, path string, n int) (b []byte, all bool, err error) {
	answer, err := c.call(r, http.MethodGet, path, nil, n)
	if err != nil {
		return nil, false, err
	}
	return answer.body.Bytes(), !answer.cut, nil
}

const (
	maxAnswer  = 32 << 20 // bytes of an answer that are read; no page shows more
	maxProblem = 1 << 20  // bytes of an error response that are read
)

// call returns the answer of the API, or its error. most limits how many bytes of the body are read; with 0 the whole
// body is read, and a body larger than maxAnswer is an error.
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
		return nil, &apiError{Status: http.StatusInternalServerError, Message: fmt.Sprintf("The answer is larger than the %s that a page can show: narrow the request.", byteSize(maxAnswer))}
	}
	return a, nil
}

func inner(r *http.Request, method, path string, body any) (*http.Request, error) {
	raw, written := body.([]byte)
	if body != nil && !written {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("write the body of %s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(r.Context(), method, path, bytes.NewReader(raw))
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
	if parents := r.Header.Values("Traceparent"); len(parents) == 1 { // with several it is unknown which one is right
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

// listAnswer is a page of any list of the API.
type listAnswer struct {
	Messages []message      `json:"messages"`
	Groups   []groupState   `json:"groups"`
	Redrives []redriveState `json:"redrives"`
	Items    []redriveItem  `json:"items"`
	Topics   []topicState   `json:"topics"`
	Changes  []change       `json:"changes"`
	Next     string         `json:"next_cursor"`
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	most   int // bytes of a successful answer to keep; 0: up to maxAnswer
	cut    bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write accepts no more than the limit and then fails, so that the writer stops.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if left := a.limit() - a.body.Len(); len(b) > left {
		a.cut = true
		a.body.Write(b[:left])
		return left, io.ErrClosedPipe
	}
	return a.body.Write(b)
}

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

func endpoint(segments ...string) string {
	path := "/api/v1"
	for _, s := range segments {
		path += "/" + url.PathEscape(s)
	}
	return path
}
