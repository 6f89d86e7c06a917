package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// cost is what one part of a statement takes: the same with it and without, batch
// about batch, so that both meet the same machine.
type cost struct{ with, without rate }

// ratio is below 1 for as much as the part takes.
func (c cost) ratio() float64 { return quotient(c.with.perSecond(), c.without.perSecond()) }

// auditPart measures the line of the audit trail.
type auditPart struct {
	*bench
	cost
}

// run claims and finishes with the product's statements, every other batch
// without the line for the audit trail.
func (p *auditPart) run(ctx context.Context) (err error) {
	n := p.opts.single
	p.say("claims and results of %d with and without the audit trail", n)
	ids, err := p.live.pending(ctx, names[3], 2*n)
	if err != nil {
		return err
	}
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	with, pool, err := p.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	without, bare, err := p.live.store(withoutAudit)
	if err != nil {
		return err
	}
	defer func() { _ = bare.Close() }()
	c := &p.cost
	for i := 0; len(ids) > 0; i++ {
		some := ids[:min(bareBatch, len(ids))]
		ids = ids[len(some):]
		store, out := with, &c.with
		if i%2 == 1 {
			store, out = without, &c.without
		}
		start := time.Now()
		if _, err := attempt(ctx, store, some); err != nil {
			return err
		}
		*out = out.plus(rate{len(some), time.Since(start)})
	}
	return p.live.expect(ctx, expectation{
		"lines of the audit trail",
		`SELECT count(*) FROM dlq.audit WHERE actor = '` + benchActor + `'`, int64(c.with.n),
	})
}

const benchActor = "bench"

// attempt claims messages and finishes them as acknowledged, and says how long
// the claim took.
func attempt(ctx context.Context, store *postgres.Store, ids []uuid.UUID) (claiming time.Duration, err error) {
	claims, results := make([]repository.Claim, len(ids)), make([]repository.Result, len(ids))
	for i, id := range ids {
		part := int32(i % partitions)
		claims[i] = repository.Claim{MessageID: id, ID: entity.NewID(), Topic: originalTopic(names[0]), Partition: part}
		results[i] = repository.Result{
			MessageID: id, ClaimID: claims[i].ID, Verdict: entity.Acknowledged, Partition: part, Offset: int64(i),
		}
	}
	cause := entity.By(benchActor)
	start := time.Now()
	claimed, err := store.Claim(ctx, claims, repository.Claiming{Expiry: time.Minute, Cause: cause})
	claiming = time.Since(start)
	if err != nil {
		return 0, err
	}
	finished, err := store.Finish(ctx, results, cause)
	if err != nil {
		return 0, err
	}
	if len(claimed) != len(ids) || len(finished) != len(ids) {
		return 0, fmt.Errorf("the run is worthless: %d claimed and %d finished of %d", len(claimed), len(finished), len(ids))
	}
	return claiming, nil
}

// hashBatch is as many rows as the ingester stores at once.
const hashBatch = copyBatch

// hashPart measures the look for equal records.
type hashPart struct {
	*bench
	cost
}

// run stores batches of new records as the ingester does, and every other
// one without asking whether its records were sent before.
func (p *hashPart) run(ctx context.Context) error {
	n := (p.opts.single + hashBatch - 1) / hashBatch * hashBatch
	p.say("storing %d records with and without looking for their like", n)
	sent, err := p.live.number(ctx, `SELECT count(*) FROM dlq.attempts
		WHERE to_status = 'RESOLVED' AND verdict = 1 AND record_hash IS NOT NULL`)
	if err != nil {
		return err
	}
	if sent < int64(p.opts.retry) {
		return fmt.Errorf("the run is worthless: %d attempts to look through, want %d", sent, p.opts.retry)
	}
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	before, err := p.live.number(ctx, countRows)
	if err != nil {
		return err
	}
	store, pool, err := p.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	in, err := openFeed(ctx, store, "equal records")
	if err != nil {
		return err
	}
	c := &p.cost
	for i := 0; c.without.n < n; i++ {
		batch, out := in.next(hashBatch), &c.with
		if i%2 == 1 {
			batch.ReturnWindow, out = 0, &c.without
		}
		if err := storeNew(ctx, store, batch, out); err != nil {
			return err
		}
	}
	return p.live.expect(ctx, expectation{"rows", countRows, before + int64(2*c.with.n)})
}

// storeNew stores a batch of which no record was sent before.
func storeNew(ctx context.Context, store *postgres.Store, batch repository.Batch, out *rate) error {
	start := time.Now()
	stored, err := store.Store(ctx, batch)
	if err != nil {
		return err
	}
	if len(stored.Ranges) != 1 || len(stored.Returns) != 0 {
		return fmt.Errorf("the run is worthless: a batch was stored as %+v", stored)
	}
	*out = out.plus(rate{len(batch.Messages), time.Since(start)})
	return nil
}

// feed makes batches of records that nobody has sent.
type feed struct {
	letters *letters
	decoder *deadletter.Decoder
	ref     repository.TopicRef
	offset  int64
}

// openFeed begins a log of its own, of this incarnation of a topic.
func openFeed(ctx context.Context, store *postgres.Store, incarnation string) (*feed, error) {
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		return nil, err
	}
	f := &feed{letters: newLetters()}
	f.letters.random = rand.New(rand.NewPCG(3, 4))
	if f.decoder, err = deadletter.New(patterns, nil); err != nil {
		return nil, err
	}
	refs, err := store.OpenTopics(ctx, []repository.Topic{{Name: deadLetterTopic(names[0]), Incarnation: incarnation}})
	if err != nil {
		return nil, err
	}
	f.ref = refs[0]
	_, err = store.OpenPosition(ctx, []repository.Position{{Partition: f.partition()}})
	return f, err
}

func (f *feed) partition() repository.Partition {
	return repository.Partition{Incarnation: f.ref.Incarnation}
}

func (f *feed) next(n int) repository.Batch {
	b := repository.Batch{ReturnWindow: 24 * time.Hour, Ranges: []repository.Range{{Partition: f.partition(), From: f.offset, To: f.offset + int64(n)}}}
	for range n {
		b.Messages = append(b.Messages, f.message())
		f.offset++
	}
	return b
}

// message is what the ingester makes of a record.
func (f *feed) message() entity.Message {
	r := f.letters.letter(names[0], int(f.offset))
	record := entity.Record{Key: r.Key, Value: r.Value, Size: int64(len(r.Value))}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, entity.Header{Key: h.Key, Value: h.Value})
	}
	reading := f.decoder.Decode(r.Topic, record, f.letters.at, nil)
	m := entity.NewMessage(reading.OriginalTopic, reading.ErrorMessage, f.letters.at)
	m.Record, m.Origin, m.Failure = record, reading.Origin, reading.Failure
	m.Source = entity.Source{
		Topic: r.Topic, TopicID: f.ref.TopicID, Incarnation: f.ref.Incarnation,
		Offset: f.offset, Timestamp: entity.Moment(f.letters.at),
	}
	return m
}

func (p *auditPart) lines() []line {
	return []line{p.line("claim and result", "the same without the audit line")}
}

func (p *auditPart) method() string {
	return fmt.Sprintf("- **The audit line** is part of the statement that ends attempts. %s messages are claimed and\n"+
		"  ended, %d at a time by one connection, every other batch with that part cut out of the\n"+
		"  statement's text.\n", thousands(p.with.n+p.without.n), bareBatch)
}

func (p *hashPart) lines() []line {
	return []line{p.line("storing what was ingested", "the same without the look for equal records")}
}

func (p *hashPart) method() string {
	return fmt.Sprintf("- **The look for equal records** is what `ingest.return_window` costs. %s new records are\n"+
		"  stored, %s at a time by one connection, without Kafka, every other batch with a window of\n"+
		"  0 in place of 24h, while there are at least %s attempts of that time to look through.\n",
		thousands(p.with.n+p.without.n), thousands(hashBatch), thousands(p.opts.retry))
}
