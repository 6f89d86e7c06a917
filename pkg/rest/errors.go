package rest

import (
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// reporter answers and logs the errors of requests.
type reporter struct{ logger *zap.Logger }

// fail answers with the JSON of the error, and logs its cause once unless the error is the client's fault.
func (p reporter) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := respond.AnswerTo(err)
	x := exchangeOf(r)
	p.logFailure(a, x, err)
	if x.status != 0 {
		// A part of the answer was sent before the error. Only a broken connection can show the client that the answer
		// is incomplete.
		panic(http.ErrAbortHandler)
	}
	if a.Status == http.StatusServiceUnavailable || a.Status == http.StatusTooManyRequests || errors.Is(err, entity.ErrContended) {
		w.Header().Set("Retry-After", strconv.Itoa(respond.RetryAfter(err)))
	}
	if a.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	respond.JSON(w, a.Status, a.Envelope(err, x.info.ID))
}

func (p reporter) logFailure(a respond.Answer, x *exchange, err error) {
	if a.Status < http.StatusInternalServerError {
		return
	}
	log := p.logger.Error
	if a.Status != http.StatusInternalServerError {
		log = p.logger.Warn // a status other than 500 means that a dependency failed, not that this program has a bug
	}
	log("request failed", x.ids(zap.String("route", x.route), zap.Int("status", a.Status), zap.Error(err))...)
}

// clientGone logs a request whose client has left.
func (p reporter) clientGone(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	p.logger.Debug("client gone", x.ids(zap.String("route", x.route), zap.Error(err))...)
	if x.status == 0 {
		w.WriteHeader(respond.StatusClientGone)
	}
}
