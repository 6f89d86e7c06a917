package rest

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/address"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// apiPrefix is the prefix of paths that need authentication, even if a path has no route.
const apiPrefix = "/api/"

// authentication finds the principal of a request, and refuses requests that a browser sends for another site.
type authentication struct {
	reporter
	authenticator auth.Authenticator
	mode          string
	timeout       time.Duration
	hosts         address.Hosts
	crossSite     *http.CrossOriginProtection
	attempts      *attempts
}

// authenticated returns the request with its principal. It counts refused credentials, and limits them per network.
func (a *authentication) authenticated(r *http.Request) (*http.Request, error) {
	ctx := r.Context()
	if _, nobody := a.authenticator.(auth.Nobody); !nobody {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	p, err := a.authenticator.Authenticate(ctx, r)
	if errors.Is(err, auth.ErrUnauthenticated) {
		a.logger.Info("request was not authenticated",
			exchangeOf(r).ids(zap.Stringer("client", exchangeOf(r).address), zap.Error(err))...)
		if len(r.Header.Values("Authorization")) > 0 && !a.attempts.failed(clientNetwork(r)) {
			err = a.tooManyAttempts(r)
		}
	}
	if err != nil {
		return r, err
	}
	return r.WithContext(access.WithPrincipal(r.Context(), p)), nil
}

// known authenticates a request below apiPrefix that matches no route, before it calls next. So the answer to a client
// without credentials does not reveal which routes exist.
func (a *authentication) known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, apiPrefix) {
			if _, err := a.authenticated(r); err != nil {
				a.fail(w, r, err)
				return
			}
		}
		next(w, r)
	}
}

// sameSite refuses changes that a page of another site sends through a user's browser. Requests that no browser sends
// are accepted.
func (a *authentication) sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.crossSite.Check(r); err != nil {
			a.fail(w, r, respond.Refused(respond.ErrForbidden, "not allowed: the request comes from a page of another site",
				respond.Detail{Field: "Origin", Reason: "is another site"}))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tooManyAttempts returns the answer for an address that has sent too many invalid tokens. Its text is the same for
// every token.
func (a *authentication) tooManyAttempts(r *http.Request) error {
	err := respond.Refused(respond.ErrRateLimited, "too many invalid tokens came from this address",
		respond.Detail{Field: "Authorization", Reason: "is not valid; this address has sent too many invalid tokens"})
	err.After = max(time.Second, a.attempts.wait(clientNetwork(r)))
	return err
}

// expectedHost refuses requests for host names that server.hosts does not list, while auth.mode is none. It always
// accepts probes, requests for metrics, IP addresses and localhost.
func (a *authentication) expectedHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.mode == auth.ModeNone && !isProbe(r.URL.Path) && !a.hosts.Answer(r.Host) {
			a.fail(w, r, respond.Refused(respond.ErrMisdirected, fmt.Sprintf("this program does not answer for the host %q: "+
				"server.hosts does not list it", respond.Clip(r.Host)), respond.Detail{Field: "Host", Reason: "is not in server.hosts"}))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isProbe(path string) bool { return path == "/healthz" || path == "/readyz" || path == metricsPath }

// clientOf returns the name under which a request's use of the limits is counted: its principal or, without
// authentication, the client's address.
func (a *authentication) clientOf(r *http.Request) string {
	if _, nobody := a.authenticator.(auth.Nobody); !nobody {
		return "principal " + access.Principal(r).Name
	}
	return "address " + exchangeOf(r).address.String()
}

const (
	// An address may fail to sign in maxAttempts times. After that it may fail once in every attemptPause.
	maxAttempts  = 10
	attemptPause = 6 * time.Second

	// maxAddresses bounds the number of addresses whose failures are remembered; the address whose last counted failure
	// is the oldest is forgotten first.
	maxAddresses = 10_000
)

// attempts counts the failures to sign in of each address. It is safe for concurrent use.
type attempts struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[netip.Prefix]*list.Element
	order   *list.List // elements are *failures, the latest first
}

// failures counts the failed sign-ins of one address. The level rises by one with each failure, and falls by one in
// each attemptPause.
type failures struct {
	client netip.Prefix
	level  float64
	at     time.Time // time at which the level had this value
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
	*place.Value.(*failures) = failures{client, level, now} //nolint:forcetypeassert // the list has only *failures
	a.order.MoveToFront(place)
	if a.order.Len() > maxAddresses {
		last := a.order.Remove(a.order.Back()).(*failures) //nolint:forcetypeassert // the list has only *failures
		delete(a.clients, last.client)
	}
	return true
}

// wait returns how long the address must wait until one more failure is allowed; 0 when it need not wait.
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
	f := place.Value.(*failures) //nolint:forcetypeassert // the list has only *failures
	return max(0, f.level-float64(now.Sub(f.at))/float64(attemptPause))
}

// SignIns limits the failed sign-ins that each address sends to mounted pages, such as the console. These failures are
// counted together with the address's API requests with invalid tokens. Its methods accept only requests that the
// server has passed to a mounted page.
type SignIns struct{ attempts *attempts }

// Wait returns how long the sender of the request must wait before the next sign-in; 0 when it need not wait.
func (l SignIns) Wait(r *http.Request) time.Duration { return l.attempts.wait(clientNetwork(r)) }

// Failed counts a sign-in that failed.
func (l SignIns) Failed(r *http.Request) { l.attempts.failed(clientNetwork(r)) }

// clientNetwork returns the network for which failed sign-ins are counted: the client's address or, for IPv6, its
// /64, which usually belongs to one customer.
func clientNetwork(r *http.Request) netip.Prefix {
	from := exchangeOf(r).address
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	network, err := from.Prefix(bits)
	if err != nil { // the client has no address, such as over a Unix socket
		return netip.Prefix{}
	}
	return network
}
