package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Exported says what an export came to.
type Exported struct {
	Messages int64
	Complete bool // false: the limit was reached, and more match
}

// Export writes every message that matches to out as it arrives, so that it may
// be larger than memory. An answer that breaks off is an error, and so is one that
// does not say at its end how many messages it had; what was written until then
// stays written. A refusal is a *RefusedError.
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

// RefusedError is an answer that is not the one that was asked for.
type RefusedError struct {
	Status int
	Failed Failed // empty when the answer was not the API's
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, e.Failed.Error.Code, e.Failed.Error.Message)
}

// refused reads an error; bodies of errors are short.
func refused(res *http.Response) *RefusedError {
	e := &RefusedError{Status: res.StatusCode}
	_ = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&e.Failed) // a proxy's answer says nothing in JSON
	return e
}
