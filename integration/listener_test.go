package integration_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// event names the kind of an event, and the error group, topic or redrive that the event concerns.
type event struct{ kind, subject string }

// delivery is one request to a listener. answer is 0 until the listener answers.
type delivery struct {
	event
	id, body, text string
	signed         bool
	answer         int
}

// conduct says how a listener answers the requests that it gets.
type conduct int

const (
	takes conduct = iota
	refuses
	holds // does not answer until the client disconnects
)

// listener receives notifications over HTTP.
type listener struct {
	*httptest.Server
	t   *testing.T
	key []byte // key that verifies the signatures; nil for a receiver whose notifications are not signed

	mu     sync.Mutex
	got    []*delivery
	answer conduct
}

func newListener(t *testing.T, key []byte) *listener {
	t.Helper()
	l := &listener{t: t, key: key}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

func (l *listener) does(c conduct) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = c
}

// ServeHTTP implements http.Handler.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected
	}
	var read struct {
		Text    string
		Subject string
		Data    struct{ Kind string }
	}
	if err := json.Unmarshal(body, &read); err != nil {
		l.t.Errorf("got %q, want JSON: %v", body, err)
	}
	d := &delivery{
		event: event{read.Data.Kind, read.Subject}, id: r.Header.Get("Webhook-Id"), body: string(body), text: read.Text, signed: l.signed(r, body),
	}
	l.mu.Lock()
	c := l.answer
	l.got = append(l.got, d)
	l.mu.Unlock()
	status := http.StatusNoContent
	switch c {
	case takes:
	case refuses:
		status = http.StatusInternalServerError
	case holds:
		<-r.Context().Done()
		return
	}
	l.mu.Lock()
	d.answer = status
	l.mu.Unlock()
	w.WriteHeader(status)
}

// signed reports whether the request was signed with the key.
func (l *listener) signed(r *http.Request, body []byte) bool {
	mac := hmac.New(sha256.New, l.key)
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return l.key != nil && hmac.Equal([]byte(r.Header.Get("Webhook-Signature")), []byte(want))
}

// all returns all deliveries in order.
func (l *listener) all() []delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []delivery
	for _, d := range l.got {
		all = append(all, *d)
	}
	return all
}

func (l *listener) waitFor(what string, is func(delivery) bool) {
	l.t.Helper()
	eventually(l.t, what+" comes", func() bool { return slices.ContainsFunc(l.all(), is) })
}
