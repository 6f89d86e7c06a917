package opensearch

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/opensearch-project/opensearch-go/v4"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Client keeps documents in OpenSearch. It is safe for concurrent use.
type Client struct {
	http      *opensearch.Client
	prefix    string
	timeout   time.Duration
	maxAnswer int64 // maximum size of an answer in bytes

	mu        sync.Mutex
	templates map[int64]bool // versions whose template was written by this Client
}

// New returns a Client of a valid configuration. It sends no request.
func New(cfg Config) (*Client, error) {
	roots, err := cfg.roots()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	never := false
	client, err := opensearch.NewClient(opensearch.Config{
		Addresses: cfg.URL, Transport: signing{cfg, transport}, MaxRetries: len(cfg.URL), RetryOnStatus: []int{http.StatusBadGateway, http.StatusGatewayTimeout},
		DiscoverNodesOnStart: &never,
	})
	if err != nil {
		return nil, fmt.Errorf("open OpenSearch: %w", err)
	}
	return &Client{http: client, prefix: cfg.IndexPrefix, timeout: cfg.Timeout, maxAnswer: maxAnswer, templates: map[int64]bool{}}, nil
}

// signing adds the present secret to each request.
type signing struct {
	cfg  Config
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := secret.Authorize(r, s.cfg.TokenFile, s.cfg.Username, s.cfg.PasswordFile); err != nil {
		return nil, fmt.Errorf("read the secret of search.opensearch: %w", err)
	}
	return s.next.RoundTrip(r) //nolint:wrapcheck // the error of the wrapped transport
}

// answerError is an answer of OpenSearch that reports a failure.
type answerError struct {
	status int
	kind   string
	reason string
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("status %d", e.status)
	for _, part := range []string{e.kind, e.reason} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

const (
	maxAnswer = 64 << 20
	maxReason = 300
)

// Errors of answers that are larger than Client.maxAnswer, and of those that do not say what became of each write.
var (
	errLargeAnswer = errors.New("the answer is too large")
	errIncomplete  = errors.New("the answer is incomplete")
)

// do sends a request with a JSON body, or a body of type []byte as it is, and decodes the answer into out, which may be
// nil.
func (c *Client) do(ctx context.Context, method, path string, body, out any) error {
	return c.inTime(ctx, func(ctx context.Context) error { return c.send(ctx, method, path, body, out) })
}

// inTime limits the time of the function send, and gives its error a kind.
func (c *Client) inTime(ctx context.Context, send func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := send(bounded)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &repository.EngineLateError{Limit: c.timeout}
	}
	return translate(err)
}

func (c *Client) send(ctx context.Context, method, path string, body, out any) error {
	text, raw := body.([]byte)
	if body != nil && !raw {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Stream(request)
	if answer != nil {
		defer func() { _ = answer.Body.Close() }() // there may be an answer together with an error
	}
	if err != nil {
		return err
	}
	content := &io.LimitedReader{R: answer.Body, N: c.maxAnswer}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return failureOf(answer.StatusCode, content)
	}
	if out == nil {
		_, err = io.Copy(io.Discard, content)
		return err
	}
	err = json.NewDecoder(content).Decode(out)
	if err != nil && content.N <= 0 {
		return errLargeAnswer
	}
	return err
}

type failure struct {
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	Root   []failure `json:"root_cause"`
	Cause  *failure  `json:"caused_by"`
}

// reason returns what OpenSearch says about the failure and its causes.
func (f failure) reason() string {
	text := f.Reason
	for cause := f.Cause; cause != nil && len(text) < maxReason; cause = cause.Cause {
		text += ": " + cause.Reason
	}
	return clip(text)
}

func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

func failureOf(status int, content io.Reader) error {
	var f struct {
		Error json.RawMessage `json:"error"`
	}
	text, _ := io.ReadAll(content) // what was read is shown
	var detail failure
	if json.Unmarshal(text, &f) != nil || json.Unmarshal(f.Error, &detail) != nil {
		return &answerError{status: status, reason: clip(strings.TrimSpace(string(text)))}
	}
	if len(detail.Root) > 0 {
		detail = detail.Root[0]
	}
	return &answerError{status, detail.Type, detail.reason()}
}

const (
	// startTries and startPause are for an index that was just made, which does not answer for some milliseconds.
	startTries = 20
	startPause = 50 * time.Millisecond
)

// search sends a search. A search that would take too much work gets a repository.TooBroadError.
func (c *Client) search(ctx context.Context, path string, body, out any) error {
	err := c.inTime(ctx, func(ctx context.Context) error {
		err := c.send(ctx, http.MethodPost, path, body, out)
		for try := 1; try < startTries && starting(err); try++ {
			wait.Sleep(ctx, startPause)
			err = c.send(ctx, http.MethodPost, path, body, out)
		}
		return err
	})
	if errors.Is(err, entity.ErrInvalid) {
		return fmt.Errorf("%w (%w)", &repository.TooBroadError{}, err)
	}
	return err
}

// starting reports whether the error is that of an index that was just made. OpenSearch returns status 503 also when it
// is overloaded or has no leader.
func starting(err error) bool {
	var answer *answerError
	return errors.As(err, &answer) && answer.status == http.StatusServiceUnavailable &&
		(answer.kind == "no_shard_available_action_exception" || answer.kind == "search_phase_execution_exception")
}

// translate gives errors their kinds. Whatever OpenSearch refuses or fails to answer, the same request may succeed
// later, except a document or a query that it cannot read.
func translate(err error) error {
	var answer *answerError
	switch {
	case !errors.As(err, &answer):
		return &repository.EngineAwayError{Cause: err, Reason: reasonOf(err)}
	case answer.status == http.StatusBadRequest:
		return fmt.Errorf("OpenSearch refuses the request: %w: %w", err, entity.ErrInvalid)
	case answer.kind == "":
		return &repository.EngineAwayError{Cause: err, Reason: fmt.Sprintf("it answers with status %d", answer.status)}
	}
	return &repository.EngineAwayError{Cause: err, Reason: fmt.Sprintf("it answers with status %d: %s", answer.status, answer.kind)}
}

// reasonOf returns the Reason of a request that got no answer, or none that can be read.
func reasonOf(err error) string {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errLargeAnswer):
		return errLargeAnswer.Error()
	case errors.As(err, &syntax) || errors.Is(err, errIncomplete):
		return "its answer cannot be read"
	}
	return "it cannot be reached"
}

// missing reports whether the error is status 404: the index or the alias does not exist.
func missing(err error) bool {
	var answer *answerError
	return errors.As(err, &answer) && answer.status == http.StatusNotFound
}

// Ping returns nil when OpenSearch answers.
func (c *Client) Ping(ctx context.Context) error { return c.do(ctx, http.MethodGet, "/", nil, nil) }
