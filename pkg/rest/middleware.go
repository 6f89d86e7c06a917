package rest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// exchange is the state of one request and its answer, for the log and the metrics. Only one goroutine at a time
// changes it: the request's own, or the handler's while the handler answers.
type exchange struct {
	http.ResponseWriter
	id      string
	route   string // the template that matched, or unmatched
	status  int    // 0 until the answer began
	bytes   int64
	pace    *pace           // of the connection; an inner call uses the outer exchange's
	inner   bool            // an inner call: the outer exchange writes to the connection
	slow    bool            // the client read the answer too slowly
	address netip.Addr      // of the client; the zero Addr when it has none
	client  context.Context // ends when the client leaves
	span    trace.Span      // nil: not traced
	asked   http.Header     // of the request
	message *entity.Message // of the path, once messageToRetry has read it
	broken  bool            // the connection is cut, because the answer is incomplete
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	return r.Context().Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // observe put it there
}

// WriteHeader records the status and starts the time in which the client must read the answer. Interim answers (1xx)
// pass unchanged.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK && x.status == 0 {
		x.status = status
		if !x.inner {
			x.pace.begin()
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	write := x.ResponseWriter.Write
	if !x.inner {
		write = func(b []byte) (int, error) { return x.pace.write(x.ResponseWriter, b) }
	}
	n, err := write(b)
	x.bytes += int64(n)
	x.slow = x.slow || !x.inner && errors.Is(err, os.ErrDeadlineExceeded)
	return n, err
}

func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// observe is the outermost layer: it names the request, sets the headers of every answer, counts and logs it.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, id: requestID(r), route: unmatched, address: s.proxies.client(r), client: r.Context(), asked: r.Header}
		if outer, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
			x.pace, x.inner, x.address = outer.pace, true, outer.address
		} else {
			x.pace = s.newPace(w)
		}
		header := w.Header()
		header.Set("X-Request-Id", x.id)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if s.proxies.secure(r) {
			header.Set("Strict-Transport-Security", "max-age=31536000")
		}
		header.Set("Cache-Control", "no-store")

		s.metrics.inFlight.Inc()
		began := time.Now()
		defer func() {
			s.metrics.inFlight.Dec()
			s.metrics.observe(r.Method, x, time.Since(began))
			s.logAccess(r, x, time.Since(began))
			if x.slow {
				s.logger.Info("a client was disconnected: it took its answer too slowly (min_write_rate)",
					x.ids(zap.String("route", x.route), zap.Int64("bytes", x.bytes), zap.String("remote", r.RemoteAddr))...)
			}
			x.endSpan()
		}()
		next.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

// logAccess logs changes at level info and reads at level debug.
func (s *Server) logAccess(r *http.Request, x *exchange, took time.Duration) {
	level := zap.DebugLevel
	if (r.Method != http.MethodGet && r.Method != http.MethodHead) && x.route != unmatched {
		level = zap.InfoLevel
	}
	entry := s.logger.Check(level, "request")
	if entry == nil { // so that reads cost nothing at level info
		return
	}
	entry.Write(x.ids(
		zap.String("method", r.Method), zap.String("path", r.URL.EscapedPath()),
		zap.String("route", x.route), zap.Int("status", x.status), zap.Int64("bytes", x.bytes),
		zap.Duration("took", took), zap.String("remote", r.RemoteAddr))...)
}

// recovered turns a panic into a 500; the stack is written only to the log.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				exchangeOf(r).broken = true
				panic(p) // meant for net/http
			}
			s.fail(w, r, panicked(p))
		}()
		next.ServeHTTP(w, r)
	})
}

// requestID keeps a client's own well-formed id and makes one otherwise.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); wellFormedID.MatchString(id) {
		return id
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return "req_" + hex.EncodeToString(b[:])
}

var wellFormedID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
