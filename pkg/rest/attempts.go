package rest

import (
	"container/list"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// An address may fail to sign in maxAttempts times, and then once every attemptPause.
	maxAttempts  = 10
	attemptPause = 6 * time.Second

	// maxAddresses bounds the number of addresses that are kept; the one with the oldest failure is dropped first.
	maxAddresses = 10_000
)

// attempts counts the failures to sign in of each address. It is safe for concurrent use.
type attempts struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[netip.Prefix]*list.Element
	order   *list.List // of *failures, the latest first
}

// failures of one address. The level falls by one every attemptPause.
type failures struct {
	client netip.Prefix
	level  float64
	at     time.Time // when the level had this value
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, clients: map[netip.Prefix]*list.Element{}, order: list.New()}
}

// failed counts a failure and returns true; when there were too many already, it returns false and does not count.
func (a *attempts) failed(client netip.Prefix) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	level := a.level(client, now) + 1
	if level > maxAttempts {
		return false
	}
	place, known := a.clients[client]
	if !known {
		place = a.order.PushFront(&failures{client: client})
		a.clients[client] = place
	}
	*place.Value.(*failures) = failures{client, level, now} //nolint:forcetypeassert // the list has no others
	a.order.MoveToFront(place)
	if a.order.Len() > maxAddresses {
		last := a.order.Remove(a.order.Back()).(*failures) //nolint:forcetypeassert // as above
		delete(a.clients, last.client)
	}
	return true
}

// wait returns how long the address has to wait before a failure is counted again; 0 for no wait.
func (a *attempts) wait(client netip.Prefix) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	excess := a.level(client, a.now()) + 1 - maxAttempts
	return max(0, time.Duration(excess*float64(attemptPause)))
}

func (a *attempts) level(client netip.Prefix, now time.Time) float64 {
	place, known := a.clients[client]
	if !known {
		return 0
	}
	f := place.Value.(*failures) //nolint:forcetypeassert // as above
	return max(0, f.level-float64(now.Sub(f.at))/float64(attemptPause))
}

// SignIns limits the failed sign-ins of each address on mounted pages, together with invalid tokens. The
// request must come from the server.
type SignIns struct{ attempts *attempts }

// Wait returns how long the sender of the request has to wait; 0 for no wait.
func (l SignIns) Wait(r *http.Request) time.Duration { return l.attempts.wait(clientNetwork(r)) }

// Failed counts a sign-in that failed.
func (l SignIns) Failed(r *http.Request) { l.attempts.failed(clientNetwork(r)) }
