package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotent-Replay"
	maxKey       = 255

	// keyLease is how long an Idempotency-Key belongs to the request that works on it. While that request works, it
	// prolongs the lease every keyHold.
	keyLease = 30 * time.Second
	keyHold  = 10 * time.Second

	// While an Idempotency-Key belongs to another request, a request reads the key's state again and again. The first
	// pause is keyPause; pauses grow to keyPauseMax.
	keyPause    = 20 * time.Millisecond
	keyPauseMax = 500 * time.Millisecond

	// keyTimeout limits each statement that prolongs the lease of an Idempotency-Key or ends the work on it.
	keyTimeout = 5 * time.Second
)

// idempotency does the work of all equal requests of a principal with the same Idempotency-Key only once.
type idempotency struct {
	keys    repository.Keys
	bodies  request.Bodies
	timeout time.Duration
	logger  *zap.Logger
}

// keyed adds Idempotency-Keys to a handler: of all equal requests with a key, one does the work, and the others get its
// answer. A different request with the key is refused. After an error, see endKey.
func (i idempotency) keyed(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, given, err := idempotencyKey(r.Header)
		if err != nil {
			return err
		}
		// The body is read before the handler reads the message or redrive. Otherwise that object could change while a
		// slow client sends its body.
		body, err := i.bodies.Bytes(w, r)
		if err != nil {
			return err
		}
		r = r.WithContext(r.Context()) // copies the request, because its body is replaced
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !given {
			return next(w, r)
		}
		key := repository.Key{
			Principal: access.Principal(r).Name, Key: name, Request: digest(r, body), Operation: entity.NewID(), Owner: entity.NewID(),
		}
		state, err := i.openKey(r, key)
		switch {
		case err != nil:
			return err
		case state.Phase == repository.KeyOther:
			const reason = "was used with another request"
			return respond.Refused(entity.ErrConflict, keyHeader+": "+reason, respond.Detail{Field: keyHeader, Reason: reason})
		case state.Phase == repository.KeyDone:
			replay(w, state.Answer)
			return nil
		}
		t := request.Task{Operation: state.Operation, Resumed: state.Phase == repository.KeyAbandoned}
		return i.workOn(key, next, w, r.WithContext(request.WithTask(r.Context(), t)))
	}
}

// idempotencyKey reads a request's key: 1 to 255 visible ASCII characters.
func idempotencyKey(header http.Header) (key string, given bool, err error) {
	values := header.Values(keyHeader)
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", true, &entity.FieldError{Field: keyHeader, Reason: "given more than once"}
	}
	key = values[0]
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		reason := fmt.Sprintf("must be 1 to %d visible ASCII characters, without spaces", maxKey)
		return "", true, &entity.FieldError{Field: keyHeader, Reason: reason}
	}
	return key, true, nil
}

// digest hashes the method, path and body of a request, because different requests must not share an Idempotency-Key.
func digest(r *http.Request, body []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(r.Method+" "+r.URL.EscapedPath()+"\n"), body...))
}

func replay(w http.ResponseWriter, answer repository.Answer) {
	if answer.Location != "" {
		w.Header().Set("Location", answer.Location)
	}
	w.Header().Set(replayHeader, "true")
	respond.Body(w, answer.Status, "application/json", answer.Body)
}

// openKey opens the key. While another request works on the key, openKey waits, at most until the client disconnects or
// the time of the request is over.
func (i idempotency) openKey(r *http.Request, key repository.Key) (repository.KeyState, error) {
	for pause := keyPause; ; pause = min(2*pause, keyPauseMax) {
		state, err := i.tryKey(r.Context(), key)
		if err != nil || state.Phase != repository.KeyAtWork {
			return state, err
		}
		select {
		case <-time.After(pause):
		case <-exchangeOf(r).client.Done():
			return state, respond.ErrClientGone
		case <-r.Context().Done():
			return state, fmt.Errorf("wait for the request with the same key: %w", r.Context().Err())
		}
	}
}

func (i idempotency) tryKey(ctx context.Context, key repository.Key) (repository.KeyState, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	return i.keys.OpenKey(ctx, key, keyLease)
}

// workOn does the work of the request that owns a key. It stores the answer before it sends it, even if the client has
// disconnected.
func (i idempotency) workOn(key repository.Key, next handler, w http.ResponseWriter, r *http.Request) error {
	release := i.holdKey(r, key)
	c := &captured{w: w, header: http.Header{}}
	err := guarded(func() error { return next(c, r) })
	release()
	if noted := i.endKey(r, key, c, err); noted != nil {
		i.logger.Warn("idempotency key keeps its lease", exchangeOf(r).ids(zap.Error(noted))...)
	}
	if err == nil {
		c.send()
	}
	return err
}

// holdKey prolongs the key's lease until release is called.
func (i idempotency) holdKey(r *http.Request, key repository.Key) (release func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	go func() {
		for wait.Sleep(ctx, keyHold) {
			i.prolongKey(ctx, key)
		}
	}()
	return cancel
}

// prolongKey extends the lease of a key. It only logs an error, because another try follows before the lease ends, and
// after that the next request with the key continues the same work.
func (i idempotency) prolongKey(ctx context.Context, key repository.Key) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	if err := i.keys.HoldKey(ctx, key, keyLease); err != nil && !errors.Is(err, context.Canceled) {
		i.logger.Debug("idempotency key was not prolonged", zap.Error(err))
	}
}

// endKey stores the result of a key's work: an answer, or the error of a 502. After an error of the client, or when the
// work never started, the key is dropped: the next request with it is new. After work that failed midway, the key is
// released: the next request with it continues the work.
func (i idempotency) endKey(r *http.Request, key repository.Key, c *captured, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keyTimeout)
	defer cancel()
	if err == nil {
		return i.keys.CloseKey(ctx, key, repository.Answer{
			Status: c.status, Location: c.header.Get("Location"), Body: c.body.Bytes(),
		})
	}
	var unbegun *request.UnbegunError
	switch a := respond.AnswerTo(err); {
	case a.Status == http.StatusBadGateway:
		body := wire.Encode(a.Envelope(err, exchangeOf(r).info.ID))
		return i.keys.CloseKey(ctx, key, repository.Answer{Status: a.Status, Body: body})
	case a.Status < http.StatusInternalServerError, errors.As(err, &unbegun):
		return i.keys.DropKey(ctx, key)
	default:
		return i.keys.HoldKey(ctx, key, 0)
	}
}

// captured holds an answer until it has been stored.
type captured struct {
	w      http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *captured) Header() http.Header         { return c.header }
func (c *captured) WriteHeader(status int)      { c.status = status }
func (c *captured) Write(b []byte) (int, error) { return c.body.Write(b) }
func (c *captured) Unwrap() http.ResponseWriter { return c.w }

// send sends the captured answer. An error of the connection is dropped, because the client can no longer read it.
func (c *captured) send() {
	maps.Copy(c.w.Header(), c.header)
	c.w.WriteHeader(c.status)
	_, _ = c.w.Write(c.body.Bytes())
}
