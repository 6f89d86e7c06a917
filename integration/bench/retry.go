package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// work is a rate and whose time it took.
type work struct {
	rate
	cpu usage
}

// plus is both together.
func (w work) plus(other work) work {
	return work{w.rate.plus(other.rate), w.cpu.plus(other.cpu)}
}

// timed runs what is measured. n is what it got done.
func timed(do func() (n int, err error)) (w work, err error) {
	before, err := cpuNow()
	if err != nil {
		return w, err
	}
	start := time.Now()
	n, err := do()
	if err != nil {
		return w, err
	}
	w.rate = rate{n, time.Since(start)}
	after, err := cpuNow()
	w.cpu = after.since(before)
	return w, err
}

// timedRate is for what times itself, without its preparations.
func timedRate(do func() (rate, error)) (work, error) {
	var r rate
	w, err := timed(func() (n int, err error) {
		r, err = do()
		return r.n, err
	})
	w.rate = r
	return w, err
}

// redriveWorkers is the default of how many batches one API has under way.
const redriveWorkers = 4

// retried is how retry-all did.
type retried struct {
	work
	memory  int64
	created rate // only the fixing of such a selection
	profile profile
}

// retryPart retries a topic of the table that the ingester filled, and sets that
// beside other ways to do it.
type retryPart struct {
	*bench
	retried
	produced produced
	looked   looked
	bare     work // claim, attempt row and result by hand-written SQL
	hasty    work // page by page, one message at a time, with a client that does not wait
	patient  rate // the same with the wait that is some clients' default
}

func (p *retryPart) run(ctx context.Context) (err error) {
	for _, step := range []func(context.Context) error{p.retryAll, p.lookAround, p.createRedrive, p.bareSQL, p.oneByOne} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	p.produced, err = p.producerPerformance(ctx, producerTimes*p.opts.retry)
	return err
}

// retryAll times one request: from its being sent to its answer, which comes
// when every result is stored.
func (p *retryPart) retryAll(ctx context.Context) (err error) {
	p.say("retrying %d", p.opts.retry)
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	prog := p.program("api", p.live)
	noting, err := p.note(ctx, p.live, &prog)
	if err != nil {
		return err
	}
	api, err := prog.serve(ctx)
	if err != nil {
		return err
	}
	var got report
	p.work, err = timed(func() (int, error) {
		_, err := api.call(ctx, "/api/v1/dlq/"+deadLetterTopic(names[0])+"/retry-all", "", &got)
		return got.Retried, err
	})
	if err == nil {
		p.memory, err = peakMemory(api.Pid())
	}
	if err = errors.Join(err, api.stop()); err != nil {
		return err
	}
	if p.profile, err = noting.done(ctx); err != nil {
		return err
	}
	return p.expectRetried(ctx, got)
}

// report is what the API says of a redrive that is over.
type report struct {
	Retried, Selected, Failed, Dead, Skipped int
	InDoubt                                  int `json:"in_doubt"`
}

func (p *retryPart) expectRetried(ctx context.Context, got report) error {
	n := p.opts.retry
	if want := (report{Retried: n, Selected: n}); got != want {
		return fmt.Errorf("the run is worthless: retry-all answered %+v, want %+v", got, want)
	}
	if err := p.expectHeld(ctx, originalTopic, int64(n)); err != nil {
		return err
	}
	return p.live.expect(ctx,
		expectation{"resolved rows", `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED'`, int64(n)},
		expectation{"resolved by the counters", `SELECT coalesce(sum(messages), 0) FROM dlq.message_counters
			WHERE status = 'RESOLVED'`, int64(n)},
		expectation{"attempts with an offset", `SELECT count(DISTINCT (target_partition, target_offset))
			FROM dlq.attempts WHERE target_offset >= 0`, int64(n)},
		expectation{"results of the redrive", `SELECT count(DISTINCT id) FROM dlq.redrive_batches b,
			unnest(b.message_ids, b.results, b.offsets) AS item (id, result, log_offset)
			WHERE b.done AND item.result = 1 AND item.log_offset >= 0`, int64(n)},
		expectation{"lines of the audit trail", `SELECT count(*) FROM dlq.audit WHERE kind = 'message'`, int64(n)},
		expectation{"rows", countRows, int64(p.opts.rows())},
	)
}

// createRedrive times the request that fixes a selection of the same kind. The
// program is told to leave redrives to others, so nothing else happens
// meanwhile; and the redrive is cancelled, so nothing will.
func (p *retryPart) createRedrive(ctx context.Context) (err error) {
	p.say("creating a redrive")
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	api, err := p.program("api", p.live).with("DLQ_REDRIVE_WORKERS=0").serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	var begun struct {
		Selected, Waiting int
		State             string
	}
	start := time.Now()
	location, err := api.call(ctx, "/api/v1/dlq/"+deadLetterTopic(names[1])+"/retry-all", "respond-async", &begun)
	p.created = rate{begun.Selected, time.Since(start)}
	if err != nil {
		return err
	}
	if n := quota(p.opts.records, p.opts.retry)[1]; begun.Selected != n || begun.Waiting != n {
		return fmt.Errorf("the run is worthless: a redrive of %d began with %+v", n, begun)
	}
	if _, err := api.call(ctx, location+"/cancel", "", &begun); err != nil {
		return err
	}
	if begun.State != "cancelled" {
		return fmt.Errorf("the run is worthless: a cancelled redrive is %s", begun.State)
	}
	return nil
}

// call posts to the API and reads its answer. prefer is a preference as in RFC
// 7240, or empty. location is the header's.
func (r *running) call(ctx context.Context, path, prefer string, answer any) (location string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, nil)
	if err != nil {
		return "", err
	}
	if prefer != "" {
		req.Header.Set("Prefer", prefer)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("post %s: %w", path, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", fmt.Errorf("post %s: %w", path, err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("post %s: %s: %s", path, res.Status, body)
	}
	return res.Header.Get("Location"), json.Unmarshal(body, answer)
}
