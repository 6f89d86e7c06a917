package schema

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// lookupError is the result of a question without a usable answer.
type lookupError struct {
	kind   kind
	reason string        // does not contain the text of an answer, which may contain anything
	wait   time.Duration // of a 429: the time in the header Retry-After; 0 without it
}

// Error returns the reason.
func (e *lookupError) Error() string { return e.reason }

// kind is what the result of a question says about the schema or subject, and about the registry. The names are values
// of the metric dlq_schema_lookups_total.
type kind string

const (
	kindFound   kind = "found"
	kindUnknown kind = "unknown" // the registry works, and does not have it
	kindRefused kind = "refused" // the registry works, and has no usable answer to this question: another 4xx, or too much
	kindBusy    kind = "busy"    // the question may be asked again later: 408, 429
	kindFailed  kind = "failed"  // no valid answer, 5xx, or credentials that are not accepted: perhaps the registry is down
	kindNone    kind = ""        // no question was asked
)

const maxID = math.MaxInt32

var (
	errUnknown    = &lookupError{kind: kindUnknown, reason: "the registry does not have it"}
	errRange      = &lookupError{kind: kindRefused, reason: fmt.Sprintf("ids of schemas are at most %d", maxID)}
	errAnswerSize = &lookupError{kind: kindRefused, reason: "the answer of the registry is too large for schemas.max_bytes"}
)

func kindOf(err error) kind {
	var answer *lookupError
	switch {
	case err == nil:
		return kindFound
	case errors.As(err, &answer):
		return answer.kind
	}
	return kindNone
}

// missing reports whether an error means that the registry works, but has no usable schema or subject. After such an
// error the registry is asked again after unknownAge.
func missing(err error) bool { return kindOf(err) == kindUnknown || kindOf(err) == kindRefused }

// answerError returns the error for an answer that is not 2xx.
func answerError(status int, h http.Header) error {
	e := &lookupError{kind: kindFailed, reason: fmt.Sprintf("the registry answers with status %d", status)}
	switch {
	case status == http.StatusNotFound:
		return errUnknown
	case status == http.StatusTooManyRequests:
		e.kind, e.wait = kindBusy, retryAfter(h)
	case status == http.StatusRequestTimeout:
		e.kind = kindBusy
	case status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusProxyAuthRequired:
		e.kind = kindRefused
	}
	return e
}

// errNoSchema means that an answer has the right form but contains no schema. A proxy may give such an answer.
var errNoSchema = errors.New("the answer has no schema")

// orNoSchema returns the error of a request, or errNoSchema when the request succeeded but its answer contains no
// schema.
func orNoSchema(found sr.Schema, err error) error {
	if err == nil && found.Schema == "" {
		return errNoSchema
	}
	return err
}

// newClient returns a client for one registry. A request fails when its answer is a redirect or has more than maxAnswer
// bytes. It has no time limit of its own.
func newClient(cfg RegistryConfig, maxAnswer int) (*sr.Client, error) {
	roots, err := cfg.roots()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
	client := &http.Client{Transport: limitedTransport{transport, maxAnswer}}
	sign := func(r *http.Request) error { return cfg.sign(r) }
	made, err := sr.NewClient(sr.URLs(cfg.URL), sr.HTTPClient(client), sr.UserAgent("dlq-manager"), sr.PreReq(sign), sr.LogLevel(sr.LogLevelNone))
	if err != nil {
		return nil, fmt.Errorf("open schema registry %s: %w", cfg.Name, err)
	}
	return made, nil
}

func (c RegistryConfig) sign(r *http.Request) error {
	if err := secret.Authorize(r, c.TokenFile, c.Username, c.PasswordFile); err != nil {
		return fmt.Errorf("read the secret: %w", err)
	}
	return nil
}

// limitedTransport lets a request fail with a lookupError when its answer is not 2xx, and while its answer is read, as
// soon as the answer has more than max bytes.
type limitedTransport struct {
	next http.RoundTripper
	max  int
}

// RoundTrip implements http.RoundTripper.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error of the transport below
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		_, _ = io.CopyN(io.Discard, answer.Body, 4<<10) // so that the connection can be used again
		return nil, answerError(answer.StatusCode, answer.Header)
	}
	answer.Body = &limitedBody{answer.Body, int64(t.max)}
	return answer, nil
}

// retryAfter returns the time in the header Retry-After, at most longestPause; 0 when there is none.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	at, err := http.ParseTime(text)
	wait := time.Until(at)
	if seconds, notNumber := strconv.Atoi(text); notNumber == nil {
		wait, err = time.Duration(min(seconds, int(longestPause.Seconds())))*time.Second, nil
	}
	if err != nil {
		return 0
	}
	return max(0, min(wait, longestPause))
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errAnswerSize
	}
	return n, err //nolint:wrapcheck // the error of the reader below
}

// translate returns a lookupError for any error of a question, without the texts of servers.
func translate(err error) error {
	var answer *lookupError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		return answer
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return &lookupError{kind: kindFailed, reason: "the registry does not answer in time"}
	}
	return &lookupError{kind: kindFailed, reason: "the registry cannot be reached, or its answer is not valid"}
}

func isTimeout(err error) bool {
	var slow interface{ Timeout() bool }
	return errors.As(err, &slow) && slow.Timeout()
}

// formatOf returns the entity.Format for a type of schema in a registry.
func formatOf(t sr.SchemaType) entity.Format {
	switch t {
	case sr.TypeAvro:
		return entity.Avro
	case sr.TypeProtobuf:
		return entity.Protobuf
	case sr.TypeJSON:
		return entity.JSONSchema
	}
	return entity.UnknownFormat
}

const maxReferences = 200

var (
	errSchemaSize = errors.New("the schema and all that it imports are larger than schemas.max_bytes")
	errReferences = fmt.Errorf("the schema has more than %d references, or they are nested too deeply", maxReferences)
)

// references reads the schemas to which the schema s refers, directly or through other schemas. In the result, each
// schema comes after the schemas to which it refers. The error is errSchemaSize if they are too large together with s.
func (a asker) references(ctx context.Context, s sr.Schema) ([]reference, error) {
	g := gatherer{asker: a, seen: map[string]bool{}}
	if err := g.add(s); err != nil {
		return nil, err
	}
	if err := g.gather(ctx, s, 0); err != nil {
		return nil, err
	}
	return g.found, nil
}

type gatherer struct {
	asker asker
	seen  map[string]bool
	found []reference
	size  int
}

func (g *gatherer) add(s sr.Schema) error {
	if g.size += len(s.Schema); g.size > g.asker.maxBytes {
		return fmt.Errorf("%w: %d bytes", errSchemaSize, g.asker.maxBytes)
	}
	return nil
}

func (g *gatherer) gather(ctx context.Context, s sr.Schema, depth int) error {
	for _, ref := range s.References {
		key := fmt.Sprintf("%s\n%d\n%s", ref.Subject, ref.Version, ref.Name)
		if g.seen[key] {
			continue
		}
		g.seen[key] = true
		if len(g.seen) > maxReferences || depth > maxReferences/4 {
			return errReferences
		}
		found, err := g.asker.version(ctx, ref.Subject, ref.Version)
		if err != nil {
			return err
		}
		if err := g.add(found.Schema); err != nil {
			return err
		}
		if err := g.gather(ctx, found.Schema, depth+1); err != nil {
			return err
		}
		g.found = append(g.found, reference{ref.Name, found.Schema.Schema})
	}
	return nil
}
