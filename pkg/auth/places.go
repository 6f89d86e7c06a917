package auth

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// placesPause is how long a failure counts for everybody: those who want to sign in
// while the issuer is away are told so, and do not wait one behind the other.
const placesPause = 5 * time.Second

// places remembers what an issuer says of itself for as long as its keys count
// without a look.
type places struct {
	issuer  string
	client  *http.Client
	timeout time.Duration // of a question
	now     func() time.Time

	mu       sync.Mutex
	found    endpoints
	gotAt    time.Time     // zero for never
	err      error         // of the last question; nil when it was answered
	failedAt time.Time     // when that was
	asking   chan struct{} // closed when the question under way is over; nil when there is none
}

func newPlaces(issuer string, client *http.Client, timeout time.Duration, now func() time.Time) *places {
	return &places{issuer: issuer, client: client, timeout: timeout, now: now}
}

// find asks the issuer when what is known is too old; an answer that nobody can be
// signed in with is an error. Those who come meanwhile share the answer, and wait for
// it no longer than they live.
func (p *places) find(ctx context.Context) (endpoints, error) {
	if asking := p.look(); asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return endpoints{}, fmt.Errorf("wait for issuer %s: %w", p.issuer, ctx.Err())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return endpoints{}, p.err
	}
	return p.found, nil
}

// look returns the question to wait for; nil when there is an answer, or was none a
// moment ago.
func (p *places) look() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	fresh := !p.gotAt.IsZero() && now.Sub(p.gotAt) < keysFresh
	failed := p.err != nil && now.Sub(p.failedAt) < placesPause
	if p.asking == nil && (fresh || failed) {
		return nil
	}
	if p.asking == nil {
		p.asking = make(chan struct{})
		go p.ask(p.asking)
	}
	return p.asking
}

// ask belongs to no request: all that wait share its answer.
func (p *places) ask(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	found, err := discover(ctx, p.client, p.issuer)
	if err == nil && (!believable(found.Authorization) || !believable(found.Token)) {
		err = fmt.Errorf("ask issuer %s: it does not sign in at https URLs", p.issuer)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.found, p.gotAt = found, p.now()
	} else {
		p.failedAt = p.now()
	}
	p.err, p.asking = err, nil
	close(done)
}
