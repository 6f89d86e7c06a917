package auth

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// places remembers what an issuer says of itself for as long as its keys count
// without a look.
type places struct {
	issuer string
	client *http.Client
	now    func() time.Time

	turn  chan struct{} // holds one value while nobody looks
	found endpoints
	gotAt time.Time // zero for never
}

func newPlaces(issuer string, client *http.Client, now func() time.Time) *places {
	p := &places{issuer: issuer, client: client, now: now, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// find asks the issuer when what is known is too old; an answer that nobody can be
// signed in with is an error, and not remembered. Those who come meanwhile wait
// for the answer no longer than they live.
func (p *places) find(ctx context.Context) (endpoints, error) {
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return endpoints{}, fmt.Errorf("wait for issuer %s: %w", p.issuer, ctx.Err())
	}
	if !p.gotAt.IsZero() && p.now().Sub(p.gotAt) < keysFresh {
		return p.found, nil
	}
	found, err := discover(ctx, p.client, p.issuer)
	if err != nil {
		return endpoints{}, err
	}
	if !believable(found.Authorization) || !believable(found.Token) {
		return endpoints{}, fmt.Errorf("ask issuer %s: it does not sign in at https URLs", p.issuer)
	}
	p.found, p.gotAt = found, p.now()
	return found, nil
}
