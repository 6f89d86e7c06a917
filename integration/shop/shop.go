// Package shop is a sample web shop that produces work for dlq-manager: a producer writes orders, payments and users to
// Kafka; three consumers process them, fail on some records for everyday reasons, and dead-letter these records in the
// formats of Spring, SmallRye and Kafka Connect, or with two plain headers. A republished record is consumed like any
// other: it is accepted if the cause of its failure is gone, and otherwise dead-lettered again. No part of the shop
// reads its dead letters.
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

// Config sets the load of the shop and the duration of its failures.
type Config struct {
	// Brokers are the bootstrap addresses of Kafka.
	Brokers []string

	// Prefix is the prefix of every topic and consumer group, so that several shops can share a
	// cluster.
	Prefix string

	// Registry is the URL of a schema registry. With a registry, the shop also has shipments in Avro and invoices in
	// Protobuf, which an old producer wrote before their schemas changed.
	Registry string

	// Seed determines the records: the same seed makes the same records, apart from their times.
	Seed uint64

	// Partitions is the number of partitions of each topic.
	Partitions int

	// Burst is how many orders, payments and users together the shop writes when it opens. With a registry, it also
	// writes this many shipments and invoices together. After that, one record follows per Interval.
	Burst    int
	Interval time.Duration

	// Outage is how long one of the payment providers does not answer, from the opening of the shop on. CatalogueLag is
	// the time between the first order of a new product and its entry in the catalogue. Recover ends both times early.
	Outage       time.Duration
	CatalogueLag time.Duration
}

// DefaultConfig returns a small shop with little load. The caller must set Brokers.
func DefaultConfig() Config {
	return Config{
		Seed: 1, Partitions: 3, Burst: 60, Interval: time.Second,
		Outage: 2 * time.Minute, CatalogueLag: time.Minute,
	}
}

// Validate returns every error of the configuration.
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

// Shop is a shop that Run opens. Its methods are safe for concurrent use.
type Shop struct {
	cfg   Config
	log   *logbook
	world *world

	shipments, invoices versions // schema ids of shipments and invoices, which the method register sets
}

// New returns a shop that is not open yet. The shop writes a line to log when a consumer has processed a republished
// record, and when the cause of a failure ends. If log is nil, it writes nothing.
func New(cfg Config, log io.Writer) (*Shop, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	return &Shop{cfg: cfg, log: newLogbook(log), world: newWorld(cfg, time.Now)}, nil
}

// Recover ends the outage of the payment provider and adds every product ordered so far to the
// catalogue. Records that failed for these reasons are accepted when they are republished.
func (s *Shop) Recover() {
	s.world.recover()
	s.log.line("the payment provider answers again and the catalogue has caught up")
}

// Run creates missing topics and runs the shop until ctx ends, which is not an error. It returns
// when everything has stopped. Call it once.
func (s *Shop) Run(ctx context.Context) error {
	if err := s.CreateTopics(ctx); err != nil {
		return stopped(ctx, fmt.Errorf("shop: %w", err))
	}
	if s.cfg.Registry != "" {
		if err := s.register(ctx); err != nil {
			return stopped(ctx, fmt.Errorf("shop: %w", err))
		}
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

// BurstFailures returns how many records of the burst will fail, by their dead-letter topic, if no temporary cause ends
// before the consumers process them.
func (s *Shop) BurstFailures() map[string]int {
	rehearsal := Shop{cfg: s.cfg, log: newLogbook(nil), world: newWorld(s.cfg, time.Now)}
	rehearsal.world.open()
	services, script, failures := rehearsal.services(), newScript(s.cfg), map[string]int{}
	for n := range s.cfg.Burst {
		if letter := services[n%streams].consume(script.record(n, time.Now())); letter != nil {
			failures[letter.Topic]++
		}
	}
	if s.cfg.Registry != "" {
		rehearsal.shipments, rehearsal.invoices = versions{1, 2}, versions{3, 4}
		services = rehearsal.services()
		for n := range s.cfg.Burst {
			if letter := services[streams+n%encodedStreams].consume(script.encoded(n, time.Now(), rehearsal.shipments, rehearsal.invoices)); letter != nil {
				failures[letter.Topic]++
			}
		}
	}
	return failures
}

// services returns the consumers. The script's records in JSON alternate between the first three of them in this order,
// and its encoded records between the last two.
func (s *Shop) services() []*service {
	list := []*service{
		newOrders(s.cfg.Prefix, s.world, s.log),
		newPayments(s.cfg.Prefix, s.world, s.log),
		newUsers(s.cfg.Prefix, s.log),
	}
	if s.cfg.Registry != "" {
		list = append(list, newShipmentsService(s.cfg.Prefix, s.shipments, s.log), newInvoicesService(s.cfg.Prefix, s.invoices, s.log))
	}
	return list
}

func (s *Shop) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(s.cfg.Brokers...))...)
}

// stopped returns nil if ctx has ended, because the error is then a result of this end. Otherwise it returns the error.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
