package schema

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// errUnknown means that the registry has answered a look-up, and has no such schema or subject.
var errUnknown = errors.New("the registry does not have it")

// errAnswerSize means that the answer of the registry has more than maxAnswer bytes. Either the schema is that large,
// or the answer is wrong.
var errAnswerSize = fmt.Errorf("the answer of the registry is larger than %d bytes", maxAnswer)

// missing reports whether an error means that the registry works, but has no usable schema or subject. After such an
// error the registry is asked again after unknownAge.
func missing(err error) bool { return errors.Is(err, errUnknown) || errors.Is(err, errAnswerSize) }

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

// newClient returns a client for one registry. The client follows no redirects. A request fails when its answer has
// more than maxAnswer bytes.
func newClient(cfg RegistryConfig, timeout time.Duration) (*sr.Client, error) {
	roots, err := cfg.roots()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
	client := &http.Client{
		Transport: limitedTransport{transport}, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
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

// maxAnswer is the maximum number of bytes of an answer that are read. It is larger than maxSchema, because the answer
// contains the schema with escapes.
const maxAnswer = 2 * maxSchema

// limitedTransport lets a request fail while its answer is read, as soon as the answer has more than maxAnswer bytes.
type limitedTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err == nil {
		answer.Body = &limitedBody{answer.Body, maxAnswer}
	}
	return answer, err
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

// translate returns errUnknown if the registry answered that it does not have the schema or subject, and errAnswerSize
// if the answer was too large. It removes the text of the answer from all other errors, because that text may contain
// anything.
func translate(err error) error {
	var answer *sr.ResponseError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errAnswerSize):
		return errAnswerSize
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return errUnknown
	case errors.As(err, &answer):
		return fmt.Errorf("the registry answers with status %d", answer.StatusCode)
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return errors.New("the registry does not answer in time")
	}
	return errors.New("the registry cannot be reached, or its answer is not valid")
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

// references reads the schemas to which the schema s refers, directly or through other schemas. In the result, each
// schema comes after the schemas to which it refers.
func (r *registry) references(ctx context.Context, s sr.Schema) ([]reference, error) {
	g := gatherer{registry: r, seen: map[string]bool{}}
	if err := g.gather(ctx, s, 0); err != nil {
		return nil, err
	}
	return g.found, nil
}

type gatherer struct {
	registry *registry
	seen     map[string]bool
	found    []reference
	size     int
}

var errReferences = fmt.Errorf("the schema has more than %d references, or they are nested too deeply", maxReferences)

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
		found, err := g.registry.version(ctx, ref.Subject, ref.Version)
		if err != nil {
			return err
		}
		if g.size += len(found.Schema.Schema); g.size > maxSchema {
			return errSchemaSize
		}
		if err := g.gather(ctx, found.Schema, depth+1); err != nil {
			return err
		}
		g.found = append(g.found, reference{ref.Name, found.Schema.Schema})
	}
	return nil
}
