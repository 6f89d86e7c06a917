package rest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/address"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
)

// instrumentation counts and logs requests, and sets what all answers have in common.
type instrumentation struct {
	reporter
	metrics      *metrics
	proxies      address.Proxies
	minWriteRate int64 // see Config.MinWriteRate
	writeTimeout time.Duration
}

// observe is the outermost layer of the server. It gives each request an id, sets the headers that every answer has,
// and counts and logs the request.
func (o *instrumentation) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{
			ResponseWriter: w, info: request.Info{ID: requestID(r), Call: entity.NewID(), TraceID: traceID(r.Header, trace.SpanContext{})}, route: unmatched,
			address: o.proxies.Client(r), client: r.Context(), asked: r.Header,
		}
		if outer, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
			x.pace, x.inner, x.address, x.info.Call = outer.pace, true, outer.address, outer.info.Call
		} else {
			x.pace = newPace(w, o.minWriteRate, o.writeTimeout)
		}
		x.info.EndAt = x.pace.endAt
		header := w.Header()
		header.Set("X-Request-Id", x.info.ID)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if o.proxies.Secure(r) {
			header.Set("Strict-Transport-Security", "max-age=31536000")
		}
		header.Set("Cache-Control", "no-store")

		o.metrics.inFlight.Inc()
		began := time.Now()
		defer func() {
			o.metrics.inFlight.Dec()
			o.metrics.observe(r.Method, x, time.Since(began))
			o.logAccess(r, x, time.Since(began))
			if x.slow {
				o.logger.Info("a client was disconnected: it took its answer too slowly (min_write_rate)",
					x.ids(zap.String("route", x.route), zap.Int64("bytes", x.bytes), zap.String("remote", r.RemoteAddr))...)
			}
			x.endSpan()
		}()
		ctx := context.WithValue(r.Context(), exchangeKey{}, x)
		next.ServeHTTP(x, r.WithContext(request.WithInfo(ctx, &x.info)))
	})
}

// logAccess logs changes at level info, and reads and requests to unknown paths at level debug.
func (o *instrumentation) logAccess(r *http.Request, x *exchange, took time.Duration) {
	level := zap.DebugLevel
	if (r.Method != http.MethodGet && r.Method != http.MethodHead) && x.route != unmatched {
		level = zap.InfoLevel
	}
	entry := o.logger.Check(level, "request")
	if entry == nil { // at the usual level info, reads are not logged, so their fields need not be made
		return
	}
	entry.Write(x.ids(
		zap.String("method", r.Method), zap.String("path", r.URL.EscapedPath()),
		zap.String("route", x.route), zap.Int("status", x.status), zap.Int64("bytes", x.bytes),
		zap.Duration("took", took), zap.String("remote", r.RemoteAddr))...)
}

// recovered turns a panic into a 500, or cuts the connection if the answer has begun. Only the log gets the stack.
func (o *instrumentation) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				exchangeOf(r).broken = true
				panic(p) // net/http handles this panic
			}
			o.fail(w, r, panicked(p))
		}()
		next.ServeHTTP(w, r)
	})
}

// requestID returns the id that the client has given the request, if it is well-formed, and otherwise a new random id.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); wellFormedID.MatchString(id) {
		return id
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails, by its documentation
	return "req_" + hex.EncodeToString(b[:])
}

var wellFormedID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
