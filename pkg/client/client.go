// Package client is the API for programs in Go. The types and the methods are
// generated from the API's document; the files beside them add what a document
// cannot say. Programs that need answers read use ClientWithResponses, and Export
// for exports.
package client

import (
	"context"
	"net/http"
)

// WithToken sends a bearer token with every request.
func WithToken(token string) ClientOption {
	return WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	})
}
