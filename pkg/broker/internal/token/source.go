// Package token gets the tokens with which the programs sign in to Kafka by OAUTHBEARER: from a token endpoint, from a
// file, or signed with the credentials of the platform on AWS. No error contains a token, a secret, an assertion, or an
// answer's body. In reading order:
//
//   - source.go: one token for all connections, renewed before it expires
//   - endpoint.go: tokens of a token endpoint
//   - msk.go: tokens for Amazon MSK
//   - file.go: tokens of a file
//   - config.go: the settings
package token

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// fetchTimeout is the time limit of one request for a token.
	fetchTimeout = 10 * time.Second
	// unknownLifetime is how long a token counts as valid when the token endpoint does not say how long it is valid.
	unknownLifetime = 5 * time.Minute
	// refusedAfter is how old a token must be so that a broker's refusal makes Source replace it. When a newer token is
	// refused, its replacement would probably be refused as well, and each sign-in would request another token.
	refusedAfter = 10 * time.Second
)

// retries computes the pauses after failed requests for a token.
var retries = wait.Backoff{Base: time.Second, Max: 10 * time.Second, Jitter: 0.2}

// issued is a token and the end of its validity.
type issued struct {
	value   secret.Text
	expires time.Time
}

// ErrRefused means that a token endpoint refused the client's credentials.
var ErrRefused = errors.New("client refused")

// Source has one token for all connections. It is safe for concurrent use.
type Source struct {
	fetch  func(context.Context) (issued, error)
	name   string
	report func(error)
	ctx    context.Context
	stop   context.CancelFunc
	flight singleflight.Group

	mu       sync.Mutex
	token    issued
	fetched  time.Time
	renewAt  time.Time
	err      error // error of the last request for a token; nil: the request was successful
	failures int
	timer    *time.Timer
}

// newSource returns a Source that fetches tokens with fetch. Errors contain name as the name of the source. The
// function report gets the result of every request for a token; it may be nil.
func newSource(name string, fetch func(context.Context) (issued, error), report func(error)) *Source {
	ctx, stop := context.WithCancel(context.Background())
	if report == nil {
		report = func(error) {}
	}
	return &Source{fetch: fetch, name: name, report: report, ctx: ctx, stop: stop}
}

// Close stops the renewal.
func (s *Source) Close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Token returns a valid token. When there is no valid token, Token requests one and waits for the answer. After a
// failed request, Token returns the error of that request until the next request is due.
func (s *Source) Token(ctx context.Context) (secret.Text, error) {
	s.mu.Lock()
	token, err, renewAt := s.token, s.err, s.renewAt
	s.mu.Unlock()
	now := time.Now()
	if now.Before(token.expires) {
		return token.value, nil
	}
	if err != nil && now.Before(renewAt) {
		return "", err
	}
	select {
	case res := <-s.flight.DoChan("", s.renew):
		if res.Err != nil {
			return "", res.Err
		}
		return res.Val.(secret.Text), nil
	case <-ctx.Done():
		return "", fmt.Errorf("get token from %s: no answer yet: %w", s.name, ctx.Err())
	}
}

// Refused makes the Source drop a token that a broker did not accept, unless the token is younger than refusedAfter.
func (s *Source) Refused(value secret.Text) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token.value == value && time.Since(s.fetched) >= refusedAfter {
		s.token, s.renewAt = issued{}, time.Time{}
	}
}

// renew requests a token when a request is due. When none is due, it returns the result of the last request. At most
// one call of renew runs at a time.
func (s *Source) renew() (any, error) {
	s.mu.Lock()
	token, err, due := s.token, s.err, !time.Now().Before(s.renewAt)
	s.mu.Unlock()
	if !due && err == nil {
		return token.value, nil
	}
	if !due {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, fetchTimeout)
	defer cancel()
	token, err = s.fetch(ctx)
	if err == nil {
		err = checkForm(token.value)
	}
	if err != nil {
		err = fmt.Errorf("get token from %s: %w", s.name, err)
	}
	s.save(token, err)
	if s.ctx.Err() == nil {
		s.report(err)
	}
	return token.value, err
}

func (s *Source) save(token issued, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.err = err; err != nil {
		s.failures++
		s.schedule(now, retries.After(s.failures, rand.Float64()))
		return
	}
	s.failures, s.token, s.fetched = 0, token, now
	s.schedule(now, Part(token.expires.Sub(now), 0.6, 0.7))
}

// schedule makes the next request due after d. The caller holds the lock.
func (s *Source) schedule(now time.Time, d time.Duration) {
	s.renewAt = now.Add(d)
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.ctx.Err() == nil {
		s.timer = time.AfterFunc(d, func() { _, _, _ = s.flight.Do("", s.renew) })
	}
}

// Part returns a random part of d, between the two factors, so that programs that start at the same time do not renew
// their tokens at the same time.
func Part(d time.Duration, from, to float64) time.Duration {
	return time.Duration(float64(d) * (from + (to-from)*rand.Float64()))
}

// bearer is the form of a token in RFC 6750, section 2.1.
var bearer = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

func checkForm(value secret.Text) error {
	if !bearer.MatchString(value.Reveal()) {
		return errors.New("token is empty or has characters that no token may have (RFC 6750)")
	}
	return nil
}
