package rest

import (
	"strings"
	"testing"
)

// net/http answers some malformed requests without calling the server's handler. The API's document names the statuses
// of these answers.
func TestServe_WhatNeverReachesUs(t *testing.T) {
	t.Parallel()
	url, _, _ := newFixture().open().serve(t)
	document := readDocument(t)
	for _, c := range []struct{ request, status string }{
		{"GET /healthz\x01 HTTP/1.1\r\n", "400"},
		{"GET /%zz HTTP/1.1\r\n", "400"},
		{"GET /healthz HTTP/1.1\r\nX Y: z\r\n", "400"},
		{"GET /healthz HTTP/1.1\r\nExpect: wonders\r\n", "417"},
		{"GET /healthz HTTP/1.1\r\nX: " + strings.Repeat("x", 128<<10) + "\r\n", "431"},
		{"POST /healthz HTTP/1.1\r\nTransfer-Encoding: gzip\r\n", "501"},
		{"GET /healthz HTTP/3.0\r\n", "505"},
	} {
		head, body := exchangeRaw(t, strings.TrimPrefix(url, "http://"), c.request)
		if !strings.HasPrefix(head, "HTTP/1.1 "+c.status+" ") || strings.Contains(body, "request_id") {
			t.Errorf("%.60q: answer %.100q with body %.100q, want %s and no envelope", c.request, head, body, c.status)
		}
		if !strings.Contains(document, c.status) {
			t.Errorf("the document does not speak of %s", c.status)
		}
	}
}
