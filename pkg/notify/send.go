package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// maxRetryAfter is the longest pause that a receiver may ask for: a longer one counts as this long.
const maxRetryAfter = time.Hour

// sender sends a notification to one receiver. Its errors contain no URL and no secret, and so nothing of the receiver's
// answer, which may repeat them.
type sender interface {
	send(ctx context.Context, n repository.Notification) error
}

const maxAnswer = 4 << 10

// newClient returns a client that follows no redirects.
func newClient(timeout time.Duration) *http.Client {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		DisableKeepAlives:      true, // the library would log what a receiver sends after its answer
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
	length     int64         // bytes of the answer's body, of which at most maxAnswer are read
	retryAfter time.Duration // 0: not given
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the receiver answered %d, with a body of %d bytes or more", e.status, e.length)
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
	length, _ := io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // only the status counts
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return nil
	}
	return &refusedError{status: answer.StatusCode, length: length, retryAfter: retryAfter(answer.Header)}
}

// withoutURL returns the cause of an error of the HTTP client, because the text of the error itself contains the
// receiver's URL, which is a secret. It returns only causes that quote nothing of the receiver's answer.
func withoutURL(err error) error {
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	var network net.Error
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &network) || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return fmt.Errorf("send a notification: %w", err)
	}
	return errors.New("send a notification: the connection ended, or the answer is not valid")
}

// retryAfter parses seconds. It ignores dates, which are rare and depend on equal clocks.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(maxRetryAfter.Seconds()))) * time.Second
}
