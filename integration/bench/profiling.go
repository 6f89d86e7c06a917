package main

import (
	"context"
	"fmt"
	"io"
	"runtime/pprof"
)

// profilingPart measures what it costs that profiles are taken.
type profilingPart struct {
	*bench
	cost
}

// run stores batches of new records as the ingester does, every other one with a
// profile of the processor being written and the server counting what statements
// take.
func (p *profilingPart) run(ctx context.Context) error {
	p.say("storing %d records with and without profiles", 2*p.opts.single)
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	before, err := p.live.number(ctx, countRows)
	if err != nil {
		return err
	}
	with, pool, err := p.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	without, uncounted, err := p.live.uncounted().store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = uncounted.Close() }()
	in, err := openFeed(ctx, with, "profiles")
	if err != nil {
		return err
	}
	for p.without.n < p.opts.single {
		if err := pprof.StartCPUProfile(io.Discard); err != nil {
			return err
		}
		err := storeNew(ctx, with, in.next(hashBatch), &p.with)
		pprof.StopCPUProfile()
		if err != nil {
			return err
		}
		if err := storeNew(ctx, without, in.next(hashBatch), &p.without); err != nil {
			return err
		}
	}
	return p.live.expectRows(ctx, before+int64(p.with.n+p.without.n))
}

// uncounted is the same database, on whose connections the server does not count
// what statements take.
func (d *database) uncounted() *database {
	u := *d.url
	query := u.Query()
	query.Set("pg_stat_statements.track", "none")
	u.RawQuery = query.Encode()
	return &database{url: &u}
}

func (p *profilingPart) lines() []line {
	return []line{p.line("storing what was ingested, profiles being taken", "the same without profiles")}
}

func (p *profilingPart) method() string {
	return fmt.Sprintf("- **Profiles** are taken in the very runs that the figures are of: the programs with\n"+
		"  `--cpu-profile`, the server with `pg_stat_statements`. What that costs: %s new records are\n"+
		"  stored, %s at a time by one connection, without Kafka, every other batch with both.\n",
		thousands(p.with.n+p.without.n), thousands(hashBatch))
}
