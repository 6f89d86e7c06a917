package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	client "github.com/dlq-manager/dlq-manager/clients/go"
)

// An export is complete only when the HTTP trailer of the answer says so.
func TestExport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		text   string
		want   client.Exported
		err    error
	}{
		"a whole one": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Export-Messages, X-Export-Complete")
			_, _ = io.WriteString(w, "{}\n{}\n")
			w.Header().Set("X-Export-Messages", "2")
			w.Header().Set("X-Export-Complete", "true")
		}, "{}\n{}\n", client.Exported{Messages: 2, Complete: true}, nil},
		"one that reached its limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Export-Messages, X-Export-Complete")
			_, _ = io.WriteString(w, "{}\n")
			w.Header().Set("X-Export-Messages", "1")
			w.Header().Set("X-Export-Complete", "false")
		}, "{}\n", client.Exported{Messages: 1}, nil},
		"one that ends without a word": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}\n")
		}, "{}\n", client.Exported{}, io.ErrUnexpectedEOF},
		"one that breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "{}\n", client.Exported{}, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			got, err := client.Export(t.Context(), serving(t, c.answer), nil, &out)
			if got != c.want || !errors.Is(err, c.err) || out.String() != c.text {
				t.Errorf("Export = %+v, %v with %q; want %+v, %v with %q", got, err, out.String(), c.want, c.err, c.text)
			}
		})
	}
}

func TestExport_ARefusalSaysWhy(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"error":{"code":"SYS_DLQ_FORBIDDEN","message":"not allowed","request_id":"r","details":[]}}`: "export: 403 SYS_DLQ_FORBIDDEN: not allowed",
		"<html>proxy": "export: 403 : ",
	} {
		_, err := client.Export(t.Context(), serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, answer)
		}), nil, io.Discard)
		var refused *client.RefusedError
		if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || err.Error() != want {
			t.Errorf("Export = %v, want %q", err, want)
		}
	}
}

// TestWithToken: a request of a client with WithToken contains the token.
func TestWithToken(t *testing.T) {
	t.Parallel()
	var got string
	c := serving(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }, client.WithToken("dlqm_x"))
	res, err := c.GetSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got != "Bearer dlqm_x" {
		t.Errorf("Authorization = %q, want the token", got)
	}
}

func serving(t *testing.T, answer http.HandlerFunc, options ...client.ClientOption) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := client.NewClient(server.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
