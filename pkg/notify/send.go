package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// maxRetryAfter is the longest pause that a receiver may ask for: a longer one counts as this long.
const maxRetryAfter = time.Hour

// sender sends a notification to one receiver. Its errors contain no URL and no secret.
type sender interface {
	send(ctx context.Context, n repository.Notification) error
}

const (
	maxAnswer   = 4 << 10
	shownAnswer = 200
)

// newClient returns a client that follows no redirects.
func newClient(timeout time.Duration) *http.Client {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		IdleConnTimeout:        time.Minute,
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type refusedError struct {
	status     int
	text       string
	retryAfter time.Duration // 0: not given
}

func (e *refusedError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("the receiver answered %d", e.status)
	}
	return fmt.Sprintf("the receiver answered %d: %q", e.status, e.text)
}

// busy reports whether the receiver would refuse any notification now.
func (e *refusedError) busy() bool {
	return e.status >= 500 || e.status == http.StatusTooManyRequests || e.status == http.StatusRequestTimeout
}

type target struct {
	client  *http.Client
	url     string
	urlFile string
}

// address returns the receiver's URL. If the URL is in a file, address reads the file in each call, because its content
// may have changed.
func (t target) address() (*url.URL, error) {
	text := t.url
	if t.urlFile != "" {
		read, err := secret.FromFile(t.urlFile)
		if err != nil {
			return nil, err
		}
		text = read.Reveal()
	}
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("the sink's URL %w", err)
	}
	return u, nil
}

func (t target) post(ctx context.Context, body []byte, header http.Header) error {
	address, err := t.address()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("the sink's URL is invalid")
	}
	request.Header = header
	request.Header.Set("User-Agent", "dlq-manager")
	answer, err := t.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // only the status counts
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return nil
	}
	return &refusedError{
		status: answer.StatusCode, text: plain(string(text[:min(len(text), shownAnswer)])), retryAfter: retryAfter(answer.Header),
	}
}

// withoutURL returns the cause of an error of the HTTP client, because the text of the error itself contains the
// receiver's URL, which is a secret.
func withoutURL(err error) error {
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Errorf("send a notification: %w", err)
}

// retryAfter parses seconds. It ignores dates, which are rare and depend on equal clocks.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(maxRetryAfter.Seconds()))) * time.Second
}
