package auth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// keysFresh is how long keys count without a look at the issuer, keysStale how
	// long they count while the issuer does not answer.
	keysFresh = 15 * time.Minute
	keysStale = 24 * time.Hour

	// keysPause lies between two questions to the issuer: tokens with keys that
	// nobody has must not make us ask without end.
	keysPause = 10 * time.Second
)

// keySet holds an issuer's keys. It asks when the first token comes, when one comes
// that was signed with an unknown key, and when what it has is no longer fresh.
type keySet struct {
	fetch   func(context.Context) ([]jose.JSONWebKey, error)
	timeout time.Duration
	log     *zap.Logger
	now     func() time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	gotAt   time.Time     // when the keys were fetched; zero for never
	triedAt time.Time     // when the last question began
	err     error         // of the last question
	asking  chan struct{} // closed when the question under way is over; nil when there is none
}

func newKeySet(fetch func(context.Context) ([]jose.JSONWebKey, error), timeout time.Duration, log *zap.Logger, now func() time.Time) *keySet {
	return &keySet{fetch: fetch, timeout: timeout, log: log, now: now}
}

// find returns the keys when id is among them, or is none, or is not an id of the
// issuer's. The error is entity.ErrUnavailable: what the issuer would say is not
// known.
func (k *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	keys, asking := k.look(id)
	if keys != nil {
		return keys, nil
	}
	if asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the issuer's keys: %w: %w", ctx.Err(), entity.ErrUnavailable)
		}
	}
	return k.settled(id)
}

// look returns the keys when they answer the question already. Else, and when they
// are no longer fresh, it asks the issuer, unless that is too soon.
func (k *keySet) look(id string) ([]jose.JSONWebKey, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	age := now.Sub(k.gotAt)
	has := k.has(id) && age < keysStale
	if has && age < keysFresh {
		return k.keys, nil
	}
	if k.asking == nil && (k.triedAt.IsZero() || now.Sub(k.triedAt) >= keysPause) {
		k.triedAt, k.asking = now, make(chan struct{})
		go k.ask(k.asking)
	}
	if has {
		return k.keys, nil
	}
	return nil, k.asking
}

// settled answers after the last question.
func (k *keySet) settled(id string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.has(id) && k.now().Sub(k.gotAt) < keysStale:
		return k.keys, nil
	case k.err != nil:
		return nil, fmt.Errorf("get the issuer's keys: %w: %w", k.err, entity.ErrUnavailable)
	default:
		return k.keys, nil // the issuer has said that it has no such key
	}
}

// has reports whether a token that names the key, or none, can be checked.
func (k *keySet) has(id string) bool {
	return !k.gotAt.IsZero() && (id == "" || slices.ContainsFunc(k.keys, func(key jose.JSONWebKey) bool { return key.KeyID == id }))
}

// ask belongs to no request: all that wait share its answer.
func (k *keySet) ask(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), k.timeout)
	defer cancel()
	keys, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.keys, k.gotAt = keys, k.now()
	} else {
		k.log.Warn("the issuer's keys cannot be had", zap.Error(err))
	}
	k.err, k.asking = err, nil
	close(done)
}
