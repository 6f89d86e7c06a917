package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// How retry-all was once described: pages of 100, and message after message sent
// with acks=all and a new key, and then marked by an UPDATE. It survives no crash,
// keeps no attempts, and somebody else who does the same sends everything twice.

const (
	onePage = 100

	// clientWait is how long the C library for Kafka, and what is built on it, waits
	// for company of a record unless told otherwise (linger.ms).
	clientWait = 5 * time.Millisecond
)

type onePending struct {
	id        uuid.UUID
	partition int32
	value     []byte
}

// oneByOne measures it twice: with no wait, and with the one that is the default
// of some clients.
func (p *retryPart) oneByOne(ctx context.Context) error {
	n := max(1, p.opts.single/10)
	p.say("retrying %d messages one by one", n+max(1, n/4))
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	var err error
	if p.hasty, err = timedRate(func() (rate, error) { return p.sendEach(ctx, n, 0) }); err != nil {
		return err
	}
	p.patient, err = p.sendEach(ctx, max(1, n/4), clientWait)
	return err
}

func (p *retryPart) sendEach(ctx context.Context, n int, wait time.Duration) (rate, error) {
	client, err := newClient(p.stack.Brokers(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(wait))
	if err != nil {
		return rate{}, err
	}
	defer client.Close()
	topic := originalTopic(names[4])
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0}).FirstErr(); err != nil { // connects
		return rate{}, fmt.Errorf("send to %s: %w", topic, err)
	}
	p.live.SetMaxIdleConns(1)
	start := time.Now()
	for done := 0; done < n; {
		page, err := p.live.page(ctx, topic, min(onePage, n-done))
		if err != nil {
			return rate{}, err
		}
		if len(page) == 0 {
			return rate{}, fmt.Errorf("the run is worthless: only %d of %d messages to send one by one", done, n)
		}
		for _, m := range page {
			r := &kgo.Record{Topic: topic, Partition: m.partition, Key: []byte(uuid.NewString()), Value: m.value}
			if err := sendOne(ctx, client, r); err != nil {
				return rate{}, fmt.Errorf("send to %s: %w", topic, err)
			}
			if err := changes(1)(p.live.ExecContext(ctx, markResolved, m.id.String())); err != nil {
				return rate{}, fmt.Errorf("mark a message: %w", err)
			}
			done++
		}
	}
	took := time.Since(start)
	if took < time.Duration(n)*wait {
		return rate{}, fmt.Errorf("the run is worthless: %d records that wait %s each were sent in %s", n, wait, took)
	}
	return rate{n, took}, nil
}

// sendOne waits for the answer. The client's own call that waits would not let the
// record wait for company.
func sendOne(ctx context.Context, client *kgo.Client, r *kgo.Record) error {
	answer := make(chan error, 1)
	client.Produce(ctx, r, func(_ *kgo.Record, err error) { answer <- err })
	return <-answer
}

const markResolved = `UPDATE dlq.dlq_messages
	SET status = 'RESOLVED', retry_count = retry_count + 1, last_retry_at = now(), updated_at = now() WHERE id = $1`

func (d *database) page(ctx context.Context, topic string, size int) (page []onePending, err error) {
	rows, err := d.QueryContext(ctx, `SELECT id, original_partition, value FROM dlq.messages
		WHERE original_topic = $1 AND status = 'PENDING' ORDER BY created_at, id LIMIT $2`, topic, size)
	if err != nil {
		return nil, fmt.Errorf("read a page: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var m onePending
		if err := rows.Scan(&m.id, &m.partition, &m.value); err != nil {
			return nil, fmt.Errorf("read a page: %w", err)
		}
		page = append(page, m)
	}
	return page, rows.Err()
}
