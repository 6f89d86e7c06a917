package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Exported is the result of an export.
type Exported struct {
	Messages int64
	Complete bool // whether these are all messages that match; also false if the search index was not up to date
}

// Export writes the matching messages to out as they arrive, up to the limit in params or, without one, up to the API's
// default. An answer that ends early, or without the number of its messages, is an error; the part before it is written
// to out nevertheless. For a refusal, the error wraps a *RefusedError.
func Export(ctx context.Context, c ClientInterface, params *ExportMessagesParams, out io.Writer) (Exported, error) {
	res, err := c.ExportMessages(ctx, params)
	if err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return Exported{}, fmt.Errorf("export: %w", refused(res))
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	n, err := strconv.ParseInt(res.Trailer.Get("X-Export-Messages"), 10, 64)
	if err != nil {
		return Exported{}, fmt.Errorf("export: the answer broke off: %w", io.ErrUnexpectedEOF)
	}
	return Exported{n, res.Trailer.Get("X-Export-Complete") == "true"}, nil
}

// RefusedError is an answer with another status than 200.
type RefusedError struct {
	Status int
	Failed Failed // the error in the API's answer; empty when a proxy answered in place of the API
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, e.Failed.Error.Code, e.Failed.Error.Message)
}

// refused returns a RefusedError with the status and the error of an answer. It reads the body into memory, because
// bodies of errors are short.
func refused(res *http.Response) *RefusedError {
	e := &RefusedError{Status: res.StatusCode}
	// the answer can come from a proxy and need not be JSON: then Failed stays empty
	_ = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&e.Failed)
	return e
}
