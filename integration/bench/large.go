package main

import (
	"context"
	"errors"
	"fmt"
)

// largePart is the memory of the programs with records of 10 MB.
type largePart struct {
	*bench
	in      ingested
	sent    sent
	retried work
	api     int64 // most that was resident, in bytes
}

const (
	largeBytes = 10_000_000
	largeCount = 200
)

func (p *largePart) run(ctx context.Context) (err error) {
	h := heap{name: "large", bytes: largeBytes, count: max(p.opts.share(largeCount), 2)}
	p.say("ingesting %d of 10 MB", h.count)
	if p.sent, err = p.heapUp(ctx, h); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kafka.remove(ctx, h.dead(), h.original())) }()
	d, err := p.database(ctx, "bench_large")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.drop(ctx, d)) }()
	if p.in, err = p.ingestAll(ctx, d, h.only(p.program("ingester", d)), h.count); err != nil {
		return err
	}
	if err := d.expectIngestedRows(ctx, h.count, p.sent.bytes); err != nil {
		return err
	}
	p.say("retrying them")
	return p.retryLarge(ctx, d, h)
}

func (p *largePart) retryLarge(ctx context.Context, d *database, h heap) (err error) {
	api, err := h.only(p.program("api", d)).serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	var got report
	p.retried, err = timed(func() (int, error) {
		_, err := api.call(ctx, "/api/v1/dlq/"+h.dead()+"/retry-all", "", &got)
		return got.Retried, err
	})
	if err != nil {
		return err
	}
	if want := (report{Retried: h.count, Selected: h.count}); got != want {
		return fmt.Errorf("the run is worthless: retry-all answered %+v, want %+v", got, want)
	}
	if p.api, err = peakMemory(api.Pid()); err != nil {
		return err
	}
	held, err := p.kafka.held(ctx, h.original())
	if err == nil && held != int64(h.count) {
		err = fmt.Errorf("the run is worthless: %d records in %s, want %d", held, h.original(), h.count)
	}
	return err
}

func (p *largePart) lines() []line {
	in := memoryLine(fmt.Sprintf("memory of the ingester, %d records of 10 MB", p.in.n), p.in.memory)
	in.beside, in.limits = perMegabyte(p.in.work), p.in.cpu.limits(p.in.n, "record", ingestWriters)
	out := memoryLine(fmt.Sprintf("memory of the API, retry-all of %d records of 10 MB", p.retried.n), p.api)
	out.beside, out.limits = perMegabyte(p.retried), p.retried.cpu.limits(p.retried.n, "record", redriveWorkers)
	return []line{in, out}
}

func perMegabyte(w work) string { return fmt.Sprintf("%.0f MB/s", w.perSecond()*largeBytes/1e6) }

func (p *largePart) method() string {
	return fmt.Sprintf("- **Records of 10 MB.** %d of them, ingested into a database of their own by one ingester\n"+
		"  (%.1f s) and sent back by one retry-all (%.1f s), default settings both.\n",
		p.in.n, p.in.took.Seconds(), p.retried.took.Seconds())
}
