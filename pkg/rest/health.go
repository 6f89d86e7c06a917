package rest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

const (
	// probeTimeout bounds one look at the dependencies.
	probeTimeout = 2 * time.Second

	// probeEvery is how long a look counts: however often readiness is asked, the
	// dependencies are asked about once a second.
	probeEvery = time.Second

	// strikes is how often running a required check must fail before the program
	// is unready: one lost packet must not empty the load balancer.
	strikes = 2
)

// Check is one dependency that readiness tells about.
type Check struct {
	Name  string
	Probe func(ctx context.Context) error // must return soon after ctx ends

	// Required makes the program unready when the check never passed yet, or
	// failed twice running. Otherwise its state is shown and changes nothing.
	Required bool

	// Public lets the probe's error text into the answer. Without it the answer
	// says "failed" and the text goes to the log: driver errors name hosts.
	Public bool

	// Passed is what the answer says when all is well; "ok" when empty.
	Passed string
}

// checkState is what the last look at a check saw.
type checkState struct {
	err      error
	failures int // running
	passed   bool
}

func (c Check) ready(st checkState) bool { return !c.Required || (st.passed && st.failures < strikes) }

func (c Check) text(st checkState) string {
	switch {
	case st.err != nil && c.Public:
		return st.err.Error()
	case st.err != nil:
		return "failed"
	case c.Passed != "":
		return c.Passed
	default:
		return "ok"
	}
}

// health asks the dependencies and remembers. It is safe for concurrent use.
type health struct {
	checks []Check
	logger *zap.Logger
	now    func() time.Time

	mu     sync.Mutex
	looked time.Time
	states []checkState
}

func newHealth(checks []Check, logger *zap.Logger) *health {
	return &health{checks: checks, logger: logger, now: time.Now, states: make([]checkState, len(checks))}
}

// look returns whether all required checks are well, and the state of each.
func (h *health) look(ctx context.Context) (ready bool, texts map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); h.looked.IsZero() || now.Sub(h.looked) >= probeEvery {
		h.looked = now
		h.refresh(ctx)
	}
	ready, texts = true, make(map[string]string, len(h.checks))
	for i, c := range h.checks {
		texts[c.Name] = c.text(h.states[i])
		ready = ready && c.ready(h.states[i])
	}
	return ready, texts
}

// refresh runs every probe at once. A prober that hangs up must not look like a
// dependency that failed, so the asking request's end does not count.
func (h *health) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	errs := make([]error, len(h.checks))
	var all sync.WaitGroup
	for i, c := range h.checks {
		all.Go(func() { errs[i] = safely(ctx, c.Probe) })
	}
	all.Wait()
	for i, err := range errs {
		h.note(i, err)
	}
}

// note stores what a probe said and logs when it changed its mind.
func (h *health) note(i int, err error) {
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

// safely turns a probe's panic into an error: it runs in a goroutine, where a
// panic would end the program.
func safely(ctx context.Context, probe func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("probe panicked: %v", p)
		}
	}()
	return probe(ctx)
}

// alive answers as long as the program can answer at all.
func (s *Server) alive(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
	return nil
}

type readinessJSON struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

func (s *Server) readiness(w http.ResponseWriter, r *http.Request) error {
	well, checks := s.health.look(r.Context())
	if !well || s.phase.Load() != ready {
		writeJSON(w, http.StatusServiceUnavailable, readinessJSON{"not_ready", checks})
		return nil
	}
	writeJSON(w, http.StatusOK, readinessJSON{"ready", checks})
	return nil
}

func (s *Server) exposeMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	return nil
}
