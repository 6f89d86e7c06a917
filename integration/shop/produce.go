package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produce writes all records of the burst at once, and then one record per interval. Shipments and invoices, whose
// values have a schema, are only in the burst.
func (s *Shop) produce(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	defer client.Close()
	script := newScript(s.cfg)
	var burst []*kgo.Record
	for n := range s.cfg.Burst {
		if burst = append(burst, script.record(n, time.Now())); s.cfg.Registry != "" {
			burst = append(burst, script.encoded(n, time.Now(), s.shipments, s.invoices))
		}
	}
	if err := write(ctx, client, burst...); err != nil {
		return stopped(ctx, err)
	}
	return stopped(ctx, s.trickle(ctx, client, script))
}

func (s *Shop) trickle(ctx context.Context, client *kgo.Client, script script) error {
	tick := time.NewTicker(s.cfg.Interval)
	defer tick.Stop()
	for n := s.cfg.Burst; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case at := <-tick.C:
			if err := write(ctx, client, script.record(n, at)); err != nil {
				return err
			}
		}
	}
}

func write(ctx context.Context, client *kgo.Client, records ...*kgo.Record) error {
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	return nil
}
