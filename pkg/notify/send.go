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

// sender sends a notice to one receiver. Its errors hold no URL and no secret.
type sender interface {
	send(ctx context.Context, n repository.Notice) error
}

const (
	maxAnswer   = 4 << 10
	shownAnswer = 200
)

// newClient returns a client that follows no redirect.
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
	retryAfter time.Duration // 0: the receiver did not say
}

func (e *refusedError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("the receiver answered %d", e.status)
	}
	return fmt.Sprintf("the receiver answered %d: %q", e.status, e.text)
}

// busy reports whether the receiver would refuse anything now.
func (e *refusedError) busy() bool {
	return e.status >= 500 || e.status == http.StatusTooManyRequests || e.status == http.StatusRequestTimeout
}

type target struct {
	client  *http.Client
	url     string
	urlFile string
}

// address reads the file every time: what is in it may have been replaced.
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
		return errors.New("the sink's URL is of no use")
	}
	request.Header = header
	request.Header.Set("User-Agent", "dlq-manager")
	answer, err := t.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // the status is the answer
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return nil
	}
	return &refusedError{
		status: answer.StatusCode, text: plain(string(text[:min(len(text), shownAnswer)])), retryAfter: retryAfter(answer.Header),
	}
}

// withoutURL is the cause of a client's error, which names the URL.
func withoutURL(err error) error {
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Errorf("send a notification: %w", err)
}

// retryAfter reads seconds; dates are as rare as clocks that agree.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(maxRetryAfter.Seconds()))) * time.Second
}
