// Package shop is a sample web shop that gives dlq-manager something to do: a
// producer writes orders, payments and users to Kafka, three consumers work on
// them, fail on some for everyday reasons, and dead-letter those as Spring,
// SmallRye and Kafka Connect do. A record that is sent back is consumed like any
// other: it is accepted when its cause is gone, and dead-lettered again when not.
// What becomes of the dead letters is left to others.
package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// Config says how busy the shop is and for how long things go wrong.
type Config struct {
	// Brokers are the bootstrap addresses of Kafka.
	Brokers []string

	// Prefix is put before the name of every topic and group, so that several
	// shops can share a cluster.
	Prefix string

	// Seed makes the records: the same seed makes the same ones.
	Seed uint64

	// Partitions is how many each topic gets.
	Partitions int

	// Burst is how many records are there at once when the shop opens; after
	// that one follows every Interval.
	Burst    int
	Interval time.Duration

	// Outage is how long one of the payment providers does not answer, from the
	// opening on. CatalogueLag is how long a new product can be ordered before
	// the catalogue knows it. Recover ends both early.
	Outage       time.Duration
	CatalogueLag time.Duration
}

// DefaultConfig is a small shop on a quiet day. Brokers are missing in it.
func DefaultConfig() Config {
	return Config{
		Seed: 1, Partitions: 3, Burst: 60, Interval: time.Second,
		Outage: 2 * time.Minute, CatalogueLag: time.Minute,
	}
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, problem string) {
		if !ok {
			errs = append(errs, errors.New(problem))
		}
	}
	check(len(c.Brokers) > 0, "brokers are missing")
	check(c.Partitions >= 1 && c.Partitions <= 100, "partitions must be 1 to 100")
	check(c.Burst >= 0 && c.Burst <= 10_000, "burst must be 0 to 10000")
	check(c.Interval >= time.Millisecond, "interval must be at least 1ms")
	check(c.Outage >= 0, "outage must not be negative")
	check(c.CatalogueLag >= 0, "catalogue lag must not be negative")
	return errors.Join(errs...)
}

// Shop is a shop that is not open yet. Its methods are safe for concurrent use.
type Shop struct {
	cfg   Config
	log   *logbook
	world *world
}

// New returns a shop. What it does with records that were sent back, and when
// a cause of failure is gone, is written to log, one line each; nil discards it.
func New(cfg Config, log io.Writer) (*Shop, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	return &Shop{cfg: cfg, log: newLogbook(log), world: newWorld(cfg, time.Now)}, nil
}

// Recover ends the outage of the payment provider and lets the catalogue catch
// up with every product ordered so far. Records that failed for these reasons
// are accepted when they are sent again.
func (s *Shop) Recover() {
	s.world.recover()
	s.log.line("the payment provider answers again and the catalogue has caught up")
}

// Run creates the topics where they are missing and does business until ctx
// ends, which is a nil error. It returns when everything has stopped. Call it once.
func (s *Shop) Run(ctx context.Context) error {
	if err := s.CreateTopics(ctx); err != nil {
		return stopped(ctx, fmt.Errorf("shop: %w", err))
	}
	s.world.open()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.produce(ctx) })
	for _, service := range s.services() {
		group.Go(func() error { return s.serve(ctx, service) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("shop: %w", err)
	}
	return nil
}

// BurstFailures is how many records of the burst fail, by dead-letter topic, when
// nothing recovers before they are consumed.
func (s *Shop) BurstFailures() map[string]int {
	rehearsal := Shop{cfg: s.cfg, log: newLogbook(nil), world: newWorld(s.cfg, time.Now)}
	rehearsal.world.open()
	services, script, failures := rehearsal.services(), newScript(s.cfg), map[string]int{}
	for n := range s.cfg.Burst {
		if letter := services[n%streams].consume(script.record(n, time.Now())); letter != nil {
			failures[letter.Topic]++
		}
	}
	return failures
}

// services are the three consumers, in the order in which their records take
// turns.
func (s *Shop) services() []*service {
	return []*service{
		newOrders(s.cfg.Prefix, s.world, s.log),
		newPayments(s.cfg.Prefix, s.world, s.log),
		newUsers(s.cfg.Prefix, s.log),
	}
}

func (s *Shop) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(s.cfg.Brokers...))...)
}

// stopped turns an error into nil when it only says that ctx has ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
