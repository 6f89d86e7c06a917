package rest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

const (
	probeTimeout = 2 * time.Second

	// probeEvery is how long the result of the probes is reused, however often readiness is requested.
	probeEvery = time.Second

	// strikes is how many failures of a required check in a row make the program unready. It is more than one, because
	// a single lost packet must not make the program unready.
	strikes = 2
)

// Check finds out whether one dependency of the program works.
type Check struct {
	Name  string
	Probe func(ctx context.Context) error

	// Required says that the program is ready only if this check passes: not before it has passed once, and not while
	// its last two probes have failed. Checks that are not required are only shown.
	Required bool

	// Public reports whether the answer may show an error of the probe. For other errors the answer is "failed", and
	// only the log has the text, because errors of drivers name hosts.
	Public func(error) bool

	// Passed is the text of the answer for a passed check; "ok" when empty.
	Passed string
}

type checkState struct {
	err      error
	failures int // number of failures in a row
	passed   bool
}

func (c Check) ready(st checkState) bool { return !c.Required || (st.passed && st.failures < strikes) }

func (c Check) text(st checkState) string {
	switch {
	case st.err != nil && c.Public != nil && c.Public(st.err):
		return st.err.Error()
	case st.err != nil:
		return "failed"
	case c.Passed != "":
		return c.Passed
	default:
		return "ok"
	}
}

// errNoAnswer is the result of a probe that has not returned in time, because a driver may ignore its context and wait.
var errNoAnswer = errors.New("the probe has not returned")

// health probes the dependencies and caches the results. It is safe for concurrent use.
type health struct {
	checks []Check
	logger *zap.Logger
	now    func() time.Time

	liveness func() error // an error makes /healthz answer 503
	serving  func() bool  // reports whether the server is ready and does not drain

	mu      sync.Mutex
	queried time.Time
	states  []checkState

	underWay []atomic.Bool // whether the probe of each check is running
}

func newHealth(checks []Check, serving func() bool, logger *zap.Logger) *health {
	return &health{
		checks: checks, logger: logger, now: time.Now, serving: serving, liveness: func() error { return nil },
		states: make([]checkState, len(checks)), underWay: make([]atomic.Bool, len(checks)),
	}
}

// query returns whether all required checks pass, and the text of each check's state.
func (h *health) query(ctx context.Context) (ready bool, texts map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queried.IsZero() || h.now().Sub(h.queried) >= probeEvery {
		h.refresh(ctx)
		h.queried = h.now() // after refresh, so that requests that waited for this refresh use its result
	}
	ready, texts = true, make(map[string]string, len(h.checks))
	for i, c := range h.checks {
		texts[c.Name] = c.text(h.states[i])
		ready = ready && c.ready(h.states[i])
	}
	return ready, texts
}

// refresh runs all probes at once and waits for them at most probeTimeout. It goes on when the request that started it
// has ended, because a prober that disconnects must not look like a failed dependency.
func (h *health) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	answers := make([]<-chan error, len(h.checks))
	for i := range h.checks {
		answers[i] = h.begin(ctx, i)
	}
	for i, answer := range answers {
		h.record(i, await(ctx, answer))
	}
}

// await returns the answer of a probe. When ctx ends first, but the answer has come as well, await returns the answer.
func await(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer:
		return err
	default:
		return errNoAnswer
	}
}

// begin starts a probe. While the previous one is still running, the result is errNoAnswer instead.
func (h *health) begin(ctx context.Context, i int) <-chan error {
	answer := make(chan error, 1)
	if !h.underWay[i].CompareAndSwap(false, true) {
		answer <- errNoAnswer
		return answer
	}
	go func() {
		err := guarded(func() error { return h.checks[i].Probe(ctx) })
		h.underWay[i].Store(false)
		answer <- err
	}()
	return answer
}

// record stores a probe's result, and logs it when it changed.
func (h *health) record(i int, err error) {
	st, name := &h.states[i], zap.String("check", h.checks[i].Name)
	switch {
	case err != nil && st.failures == 0:
		h.logger.Warn("check failed", name, zap.Error(err))
	case err == nil && st.failures > 0:
		h.logger.Info("check passed again", name)
	}
	st.err = err
	if err != nil {
		st.failures++
		return
	}
	st.failures, st.passed = 0, true
}

type livenessJSON struct {
	Status string `json:"status"`
}

// alive answers 200, unless the program has a fault that only a restart can repair.
func (h *health) alive(w http.ResponseWriter, _ *http.Request) error {
	if err := h.liveness(); err != nil {
		h.logger.Error("this program must be restarted", zap.Error(err))
		respond.JSON(w, http.StatusServiceUnavailable, livenessJSON{"stalled"})
		return nil
	}
	respond.JSON(w, http.StatusOK, livenessJSON{"ok"})
	return nil
}

type readinessJSON struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// readiness answers 200 while the server is ready and all required checks pass.
func (h *health) readiness(w http.ResponseWriter, r *http.Request) error {
	well, checks := h.query(r.Context())
	if !well || !h.serving() {
		respond.JSON(w, http.StatusServiceUnavailable, readinessJSON{"not_ready", checks})
		return nil
	}
	respond.JSON(w, http.StatusOK, readinessJSON{"ready", checks})
	return nil
}
