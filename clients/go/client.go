// Package client is the client of dlq-manager's API. Types and methods are generated from the OpenAPI document (`make
// generate`); WithToken, Export and RefusedError are written by hand. ClientWithResponses decodes answers in memory.
// Export writes an export to a stream, because an export may be larger than the memory.
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
