// Package api calls the public API in the process, and defines the types of its answers that several pages read.
package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

// Client calls the API with the credentials, the request id and the idempotency key of the request for the page.
// Errors of the API are of type *Error.
type Client struct{ Handler http.Handler }

// keyField is the hidden form field with the idempotency key: sending the form twice does the work once.
const keyField = "key"

// Error is the body of an error response of the API.
type Error struct {
	Status     int
	Code       string           `json:"code"`
	Message    string           `json:"message"`
	RequestID  string           `json:"request_id"`
	Details    []map[string]any `json:"details"`
	RetryAfter string           // value of the header Retry-After; "" when the answer has none
}

func (e *Error) Error() string { return e.Message }

// Get decodes the JSON of an answer into the value that into points to. If into is nil, it only checks that the answer
// is not an error.
func (c Client) Get(r *http.Request, path string, query url.Values, into any) error {
	return c.Send(r, http.MethodGet, link.WithQuery(path, query), nil, into)
}

// Send sends body as JSON, a []byte unchanged, and no body when body is nil. The idempotency key of the form makes the
// API do the work once, however often the form is sent.
func (c Client) Send(r *http.Request, method, path string, body, into any) error {
	answer, err := c.call(r, method, path, body, 0)
	if err != nil || into == nil || answer.status == http.StatusNoContent {
		return err
	}
	if err := json.Unmarshal(answer.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// If returns a client that sends the version in the header If-Match: the API refuses a change unless the changed object
// has this version. With version 0, the API refuses the change if the object exists.
func (c Client) If(version int64) Client {
	return Client{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
		c.Handler.ServeHTTP(w, r)
	})}
}

// Health reads a health endpoint of the program, also when its status is an error.
func (c Client) Health(r *http.Request, path string, into any) error {
	req, err := inner(r, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	a := &answer{header: http.Header{}}
	c.Handler.ServeHTTP(a, req)
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return nil
}

// Head returns the first bytes of an answer, at most n, and whether they are the whole answer. Further bytes are not
// loaded.
func (c Client) Head(r *http.Request, path string, n int) (b []byte, all bool, err error) {
	answer, err := c.call(r, http.MethodGet, path, nil, n)
	if err != nil {
		return nil, false, err
	}
	return answer.body.Bytes(), !answer.cut, nil
}

// How many bytes of an answer are read.
const (
	MaxAnswer  = 32 << 20 // maximum size in bytes of a successful answer; a larger one is an error
	MaxProblem = 1 << 20  // maximum size in bytes of an error response; a larger one cannot be read
)

// call returns the answer of the API, or its error. The parameter most limits how many bytes of the body are read; with
// 0 the whole body is read, and a body larger than MaxAnswer is an error.
func (c Client) call(r *http.Request, method, path string, body any, most int) (*answer, error) {
	req, err := inner(r, method, path, body)
	if err != nil {
		return nil, err
	}
	a := &answer{header: http.Header{}, most: most}
	c.Handler.ServeHTTP(a, req)
	keepMark(r, a.header)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if a.status >= http.StatusBadRequest {
		return nil, a.problem()
	}
	if most == 0 && a.cut {
		return nil, &Error{Status: http.StatusInternalServerError, Message: fmt.Sprintf("The answer is larger than the %s that a page can show: narrow the request.", format.Bytes(MaxAnswer))}
	}
	return a, nil
}

// WithoutKey returns the request without its form. A call of the API with the returned request has no idempotency key
// and is always executed.
func WithoutKey(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.PostForm = url.Values{}
	return r
}

// inner returns the request to the API for a page's request.
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
	// If the request has several Traceparent headers, none is passed on, because it is unknown which one is right.
	if parents := r.Header.Values("Traceparent"); len(parents) == 1 {
		req.Header.Set("Traceparent", parents[0])
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if value := session.Authorization(r); value != "" {
		req.Header.Set("Authorization", value)
	}
	if mark := markOf(r); mark != "" {
		req.Header.Set(readAfter, mark)
	}
	if method == http.MethodPost || method == http.MethodPut {
		if key := r.PostFormValue(keyField); key != "" {
			req.Header.Set("Idempotency-Key", "console-"+key)
		}
	}
	return req, nil
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	most   int // bytes of a successful answer to keep; 0: up to MaxAnswer
	cut    bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write fails when the answer exceeds the limit, so that the API's handler stops writing.
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
		return MaxProblem
	case a.most > 0:
		return a.most
	default:
		return MaxAnswer
	}
}

func (a *answer) problem() error {
	var envelope struct {
		Error Error `json:"error"`
	}
	if err := json.Unmarshal(a.body.Bytes(), &envelope); err != nil || envelope.Error.Message == "" {
		return fmt.Errorf("the API answered %d without an error that can be read", a.status)
	}
	envelope.Error.Status, envelope.Error.RetryAfter = a.status, a.header.Get("Retry-After")
	return &envelope.Error
}

// Endpoint returns the path of a resource of the API, with its segments escaped.
func Endpoint(segments ...string) string {
	path := "/api/v1"
	for _, s := range segments {
		path += "/" + url.PathEscape(s)
	}
	return path
}

// copiedHeaders are the headers of the API's answer that Stream copies; trailingHeaders follow the body.
var (
	copiedHeaders   = []string{"Content-Type", "Content-Disposition", "X-Export-Searched-Until", "Trailer"}
	trailingHeaders = []string{"X-Export-Messages", "X-Export-Complete"}
)

// Stream copies each part of the API's answer to w as soon as the part arrives. When it returns an error of the API, it
// has written nothing. If the answer breaks off, Stream also breaks the connection to the browser.
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

// Write writes and then flushes, so that the browser gets each part of the answer at once.
func (p *forwarder) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if !p.begun {
		return p.answer.Write(b)
	}
	n, err := p.to.Write(b)
	if err == nil {
		_ = http.NewResponseController(p.to).Flush() // a writer that cannot flush sends everything at the end
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (p *forwarder) Unwrap() http.ResponseWriter { return p.to }
