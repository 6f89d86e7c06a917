// Package openapitest checks requests and answers against the API's document, for tests of servers and clients. It
// sends nothing itself.
package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Exchange is a request and its answer.
type Exchange struct {
	Method, Path string // the path includes the query, as sent
	Header       http.Header
	Body         []byte
	Status       int
	AnswerHeader http.Header
	Answer       []byte
}

// takenUp reports whether the server executed the request, or found a conflict (409) after it had accepted the
// request's values. With an Idempotency-Key, a 409 may mean that another request used the key; it then says nothing
// about the values.
func (e Exchange) takenUp() bool {
	return e.Status < 400 || e.Status == http.StatusConflict && e.Header.Get("Idempotency-Key") == ""
}

// Check returns an error for an answer that the document does not describe, for an answer of a route that is not in the
// document, and for a request that was executed although the document forbids it.
func Check(e Exchange) error {
	d, err := load()
	if err != nil {
		return err
	}
	path, _, _ := strings.Cut(e.Path, "?")
	e.Body = bytes.TrimSpace(e.Body)                                       // a body of white space counts as no body
	req, err := http.NewRequest(e.Method, e.Path, bytes.NewReader(e.Body)) //nolint:noctx // the request is never sent
	if err != nil {
		return nil //nolint:nilerr // no client could send this request
	}
	req.Header = e.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if len(e.Body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	head := e.Method == http.MethodHead
	if head {
		req.Method = http.MethodGet
	}
	route, params := d.find(req)
	if route == nil {
		switch e.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
			return nil
		}
		return fmt.Errorf("%s %s is not in the document and was answered with %d", e.Method, path, e.Status)
	}
	forgive(req, route)
	input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options()}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil && e.takenUp() {
		return fmt.Errorf("%s %s: the document forbids it and it was answered with %d: %w", e.Method, e.Path, e.Status, err)
	}
	if head || e.Status == statusClientGone {
		return nil
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: e.Status, Header: e.AnswerHeader,
		Body: io.NopCloser(bytes.NewReader(e.Answer)), Options: options(),
	})
	if err != nil {
		return fmt.Errorf("%s %s: %d: the answer is not the document's: %w", e.Method, e.Path, e.Status, err)
	}
	return d.checkLines(e)
}

// forgive rewrites a query to the form that the document describes, where the program accepts further forms. It splits
// lists of words at commas into repeated parameters, and restores the plus sign of a time, which arrives as a space
// when it is not escaped.
func forgive(req *http.Request, route *routers.Route) {
	query := req.URL.Query()
	for _, p := range route.Operation.Parameters {
		name, schema := p.Value.Name, p.Value.Schema.Value
		switch {
		case p.Value.In != openapi3.ParameterInQuery || !query.Has(name):
		case schema.Items != nil && len(schema.Items.Value.Enum) > 0:
			query[name] = strings.Split(strings.Join(query[name], ","), ",")
		case schema.Format == "date-time":
			query.Set(name, strings.ReplaceAll(query.Get(name), " ", "+"))
		}
	}
	req.URL.RawQuery = query.Encode()
}

// statusClientGone is the status of requests whose client has left. It is used in logs only, because no client gets it.
const statusClientGone = 499

// options make the library compare everything, and report each difference in one line.
func options() *openapi3filter.Options {
	o := &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true, IncludeResponseStatus: true,
	}
	o.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string {
		return fmt.Sprintf("/%s: %s", strings.Join(err.JSONPointer(), "/"), err.Reason)
	})
	return o
}

func decodeJSON(text []byte) (value any, err error) {
	err = json.Unmarshal(text, &value)
	return value, err
}

// Transport is an http.RoundTripper that checks each request and its answer against the document. It passes differences
// to Complain, and returns the answer unchanged.
type Transport struct {
	Base     http.RoundTripper
	Complain func(error)
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	e := Exchange{Method: req.Method, Path: req.URL.RequestURI(), Header: req.Header}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		e.Body, req.Body = body, io.NopCloser(bytes.NewReader(body))
	}
	res, err := t.Base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	e.Status, e.AnswerHeader, e.Answer = res.StatusCode, res.Header, answer
	if err := Check(e); err != nil {
		t.Complain(err)
	}
	return res, nil
}
