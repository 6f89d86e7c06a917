package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
)

// settleInterval is shorter than the default, so that the work is measured and
// not the rest before it.
const settleInterval = 100 * time.Millisecond

// doubtPart is the settling of claims that a process left behind.
type doubtPart struct {
	*bench
	work // from the start of the API, until the last is settled
}

// run leaves claims behind as a process does that is killed in the middle
// of them, and times one API from its start until none is left.
func (p *doubtPart) run(ctx context.Context) (err error) {
	n := p.opts.doubtful
	p.say("settling %d doubtful claims", n)
	ids, err := p.live.pending(ctx, names[2], n)
	if err != nil {
		return err
	}
	if err := p.abandon(ctx, ids); err != nil {
		return fmt.Errorf("leave claims behind: %w", err)
	}
	if err := p.live.expect(ctx, expectation{"claims", countRetrying, int64(n)}); err != nil {
		return err
	}
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	if err := p.settleAll(ctx); err != nil {
		return err
	}
	return p.expectSettled(ctx, ids)
}

const countRetrying = `SELECT coalesce(sum(messages), 0) FROM dlq.message_counters WHERE status = 'RETRYING'`

func (p *doubtPart) settleAll(ctx context.Context) (err error) {
	var api *running
	defer func() {
		if api != nil {
			err = errors.Join(err, api.stop())
		}
	}()
	p.work, err = timed(func() (int, error) {
		var err error
		if api, err = p.program("api", p.live).with("DLQ_REDRIVE_SETTLE_INTERVAL=" + settleInterval.String()).serve(ctx); err != nil {
			return 0, err
		}
		return p.opts.doubtful, poll(ctx, 10*time.Millisecond, func() (bool, error) {
			if err := api.alive(); err != nil {
				return false, err
			}
			left, err := p.live.number(ctx, countRetrying)
			return left == 0, err
		})
	})
	return err
}

// abandon claims messages and sends every other one, and does nothing more: what
// is left is what a process leaves that was killed. Records of others stand
// between those that were sent.
func (p *doubtPart) abandon(ctx context.Context, ids []uuid.UUID) (err error) {
	store, pool, err := p.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	cfg := broker.DefaultConfig()
	cfg.Brokers = p.stack.Brokers()
	cluster, err := broker.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		return err
	}
	sender, err := republisher.New(republisher.DefaultConfig(), patterns, cluster,
		cluster.NewProducer(broker.ProducerConfig{Timeout: 5 * time.Second}))
	if err != nil {
		return err
	}
	if err := inBatches(1, bareBatch, ids, func(some []uuid.UUID) error { return p.abandonSome(ctx, store, sender, some) }); err != nil {
		return err
	}
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		living, err := p.live.number(ctx, `SELECT count(*) FROM dlq.dlq_messages
			WHERE status = 'RETRYING' AND claim_expires_at > clock_timestamp()`)
		return living == 0, err
	})
}

func (p *doubtPart) abandonSome(ctx context.Context, store *postgres.Store, sender *republisher.Republisher, ids []uuid.UUID) error {
	messages, _, err := store.Load(ctx, ids, 1<<30)
	if err != nil {
		return err
	}
	records, claims := map[uuid.UUID]entity.Record{}, make([]repository.Claim, len(messages))
	targets := map[uuid.UUID]entity.Target{}
	drafts := make([]entity.Outgoing, len(messages))
	for i, m := range messages {
		drafts[i] = entity.Outgoing{Message: m}
	}
	for i, t := range sender.Plan(ctx, drafts, true) {
		if t.Err != nil {
			return t.Err
		}
		m := messages[i]
		records[m.ID], targets[m.ID] = m.Record, t
		claims[i] = repository.Claim{
			MessageID: m.ID, ID: entity.NewID(), Topic: t.Topic, TopicID: t.TopicID, Partition: t.Partition, EndOffset: t.EndOffset,
		}
	}
	claimed, err := store.Claim(ctx, claims, repository.Claiming{Expiry: time.Second, Cause: entity.By("killed")})
	if err != nil {
		return err
	}
	letters := newLetters()
	if _, err := p.kafka.produce(ctx, len(ids), func(n int) *kgo.Record {
		r := letters.letter(names[2], n)
		r.Topic = originalTopic(names[2])
		return r
	}); err != nil {
		return err
	}
	var sent []entity.Outgoing
	for _, m := range claimed[:len(claimed)/2] {
		m.Record = records[m.ID]
		sent = append(sent, entity.Outgoing{Message: m, Target: targets[m.ID]})
	}
	for _, d := range sender.Publish(ctx, sent) {
		if d.Verdict != entity.Acknowledged {
			return fmt.Errorf("send a message: %w", d.Err)
		}
	}
	return nil
}

func (p *doubtPart) expectSettled(ctx context.Context, ids []uuid.UUID) error {
	total := int64(len(ids))
	sent := int64(0) // half of each batch
	for left := len(ids); left > 0; left -= bareBatch {
		sent += int64(min(left, bareBatch) / 2)
	}
	held, err := p.kafka.held(ctx, originalTopic(names[2]))
	if err != nil {
		return err
	}
	if held != total+sent {
		return fmt.Errorf("the run is worthless: %d records where claims were settled, want %d", held, total+sent)
	}
	const attempts = `SELECT count(DISTINCT message_id) FROM dlq.attempts WHERE actor = 'settler' AND `
	return p.live.expect(ctx,
		expectation{"found in the target log", attempts + `to_status = 'RESOLVED' AND error_class = 'ALREADY_PUBLISHED'`, sent},
		expectation{"not found there", attempts + `to_status = 'PENDING' AND verdict = 8`, total - sent},
	)
}

func (p *doubtPart) lines() []line {
	return []line{{
		work: fmt.Sprintf("settling %s doubtful claims", thousands(p.n)), figure: seconds(p.took),
		beside: noDemand, ratio: noDemand,
		wanted: "< " + seconds(wantSettled), reached: p.n > 0 && p.took < wantSettled, limits: p.cpu.limits(p.n, "message", redriveWorkers),
	}}
}

func (p *doubtPart) method() string {
	return fmt.Sprintf("- **Settling.** %s messages are claimed with the product's statements, half of them are\n"+
		"  published with its publisher, as many records of others between them, and that is all: so\n"+
		"  a process leaves them that is killed. When the claims have expired, one API is started,\n"+
		"  with `settle_interval: %s`. The time is from the start of its process until the last\n"+
		"  message is RESOLVED, because its record was found, or PENDING, because it was not.\n",
		thousands(p.n), settleInterval)
}
