package token

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// issuer issues the tokens a, b and so on, which are valid for a minute.
type issuer struct {
	asked  atomic.Int32
	failed atomic.Pointer[error] // error that the issuer returns in place of a token
	takes  time.Duration
}

func (i *issuer) fetch(ctx context.Context) (issued, error) {
	n := i.asked.Add(1)
	select {
	case <-time.After(i.takes):
	case <-ctx.Done():
		return issued{}, ctx.Err()
	}
	if err := i.failed.Load(); err != nil {
		return issued{}, *err
	}
	return issued{value: secret.Text(rune('a' + n - 1)), expires: time.Now().Add(time.Minute)}, nil
}

func (i *issuer) fail(err error) { i.failed.Store(&err) }

func newIssuer(t *testing.T) (*issuer, *Source) {
	t.Helper()
	i := &issuer{takes: time.Second}
	s := newSource("issuer", i.fetch, nil)
	t.Cleanup(s.Close)
	return i, s
}

func want(t *testing.T, s *Source, token string) {
	t.Helper()
	got, err := s.Token(t.Context())
	check.NoError(t, err)
	check.Equal(t, got.Reveal(), token, "token")
}

func TestSource_ConnectionsShareOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { want(t, s, "a") })
		}
		all.Wait()
		check.Equal(t, int(i.asked.Load()), 1, "requests")
	})
}

func TestSource_RenewsTheTokenBeforeItExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t)
		want(t, s, "a")
		<-time.After(35 * time.Second)
		check.Equal(t, int(i.asked.Load()), 1, "requests within 35 s of 60 s")
		<-time.After(9 * time.Second)
		check.Equal(t, int(i.asked.Load()), 2, "requests within 44 s, without a sign-in")
		want(t, s, "b")
	})
}

func TestSource_ProgramsRenewAtDifferentTimes(t *testing.T) {
	t.Parallel()
	waits := map[time.Duration]bool{}
	for range 100 {
		waits[Part(time.Minute, 0.6, 0.7)] = true
	}
	check.True(t, len(waits) > 50, "got %d different waits of 100", len(waits))
}

func TestSource_ValidTokenSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t)
		want(t, s, "a")
		away := errors.New("away")
		i.fail(away)
		<-time.After(58 * time.Second)
		check.True(t, i.asked.Load() >= 3, "got %d requests, want more tries before the token expires", i.asked.Load())
		check.True(t, i.asked.Load() <= 10, "got %d requests, want waits between them", i.asked.Load())
		want(t, s, "a")
		<-time.After(4 * time.Second)
		_, err := s.Token(t.Context())
		check.Is(t, err, away, "token after its end")
		asked := i.asked.Load()
		for range 100 {
			_, err := s.Token(t.Context())
			check.Is(t, err, away, "token while the next request is not due")
		}
		check.Equal(t, i.asked.Load(), asked, "requests for 100 connections")
		i.failed.Store(nil)
		<-time.After(14 * time.Second)
		_, err = s.Token(t.Context())
		check.NoError(t, err)
	})
}

func TestSource_SlowRequestServesTheNextConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t)
		i.takes = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := s.Token(ctx)
		check.Is(t, err, context.DeadlineExceeded, "token within 3 s")
		want(t, s, "a")
		check.Equal(t, int(i.asked.Load()), 1, "requests")
	})
}

func TestSource_RefusedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t)
		want(t, s, "a")
		for range 10 {
			s.Refused("a")
			want(t, s, "a") // the refused token stays: it is so new that a replacement would be refused as well
		}
		check.Equal(t, int(i.asked.Load()), 1, "requests")
		<-time.After(refusedAfter)
		s.Refused("another")
		want(t, s, "a")
		s.Refused("a")
		want(t, s, "b")
	})
}

func TestSource_RejectsWhatIsNoToken(t *testing.T) {
	t.Parallel()
	for _, value := range []secret.Text{"", "two words", "a\x01auth=Bearer b", "a\nb", "ä"} {
		s := newSource("issuer", func(context.Context) (issued, error) {
			return issued{value: value, expires: time.Now().Add(time.Minute)}, nil
		}, nil)
		defer s.Close()
		_, err := s.Token(t.Context())
		check.True(t, err != nil, "token %q = nil, want an error", value.Reveal())
	}
}

func TestSource_ReportsEachResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		results := make(chan error, 100)
		s := newSource("issuer", i.fetch, func(err error) { results <- err })
		want(t, s, "a")
		away := errors.New("away")
		i.fail(away)
		<-time.After(43 * time.Second)
		s.Close()
		before := len(results)
		<-time.After(time.Hour)
		check.Equal(t, len(results), before, "results after Close")
		check.NoError(t, <-results)
		check.Is(t, <-results, away, "the second result")
	})
}
