package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// payloadHere stands in an order for a payload that is JSON. No other text of an order
// can look like it: quotes within texts are escaped.
const payloadHere = "\x00payload"

// sendEdit orders a retry with an edit. A payload that is JSON is put into the order
// as somebody wrote it: an encoder would write it anew, and base64 would leave room for
// a third less of it.
func (c *Console) sendEdit(r *http.Request, path string, order map[string]any, payload string) error {
	raw, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("write an edit: %w", err)
	}
	if payload != "" {
		raw = bytes.Replace(raw, []byte(`"payload":"\u0000payload"`), []byte(`"payload":`+payload), 1)
	}
	req, err := inner(r, http.MethodPost, path, nil)
	if err != nil {
		return err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	req.Header.Set("Content-Type", "application/json")
	a := &answer{header: http.Header{}}
	c.api.api.ServeHTTP(a, req)
	if err := r.Context().Err(); err != nil {
		return err
	}
	if a.status >= http.StatusBadRequest {
		return a.problem()
	}
	return nil
}
