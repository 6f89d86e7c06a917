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

// auditCost claims and finishes with the product's statements, every other batch
// without the line for the audit trail.
func (b *bench) auditCost(ctx context.Context) (err error) {
	n := b.opts.single
	b.say("claims and results of %d with and without the audit trail", n)
	ids, err := b.live.pending(ctx, names[3], 2*n)
	if err != nil {
		return err
	}
	if err := b.live.settle(ctx); err != nil {
		return err
	}
	with, pool, err := b.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	without, bare, err := b.live.store(withoutAudit)
	if err != nil {
		return err
	}
	defer func() { _ = bare.Close() }()
	c := &b.result.audit
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
	return b.live.expect(ctx, expectation{
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

// hashCost stores batches of new records as the ingester does, and every other
// one without asking whether its records were sent before.
func (b *bench) hashCost(ctx context.Context) error {
	n := (b.opts.single + hashBatch - 1) / hashBatch * hashBatch
	b.say("storing %d records with and without looking for their like", n)
	sent, err := b.live.number(ctx, `SELECT count(*) FROM dlq.attempts
		WHERE to_status = 'RESOLVED' AND verdict = 1 AND record_hash IS NOT NULL`)
	if err != nil {
		return err
	}
	if sent < int64(b.opts.retry) {
		return fmt.Errorf("the run is worthless: %d attempts to look through, want %d", sent, b.opts.retry)
	}
	if err := b.live.settle(ctx); err != nil {
		return err
	}
	before, err := b.live.number(ctx, countRows)
	if err != nil {
		return err
	}
	store, pool, err := b.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	in, err := openFeed(ctx, store)
	if err != nil {
		return err
	}
	c := &b.result.hash
	for i := 0; c.without.n < n; i++ {
		batch, out := in.next(hashBatch), &c.with
		batch.ReturnWindow = 24 * time.Hour // the default
		if i%2 == 1 {
			batch.ReturnWindow, out = 0, &c.without
		}
		start := time.Now()
		stored, err := store.Store(ctx, batch)
		if err != nil {
			return err
		}
		if len(stored.Ranges) != 1 || len(stored.Returns) != 0 {
			return fmt.Errorf("the run is worthless: a batch was stored as %+v", stored)
		}
		*out = out.plus(rate{hashBatch, time.Since(start)})
	}
	return b.live.expect(ctx, expectation{"rows", countRows, before + int64(2*n)})
}

// feed makes batches of records that nobody has sent.
type feed struct {
	letters *letters
	decoder *deadletter.Decoder
	ref     repository.TopicRef
	offset  int64
}

func openFeed(ctx context.Context, store *postgres.Store) (*feed, error) {
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		return nil, err
	}
	f := &feed{letters: newLetters()}
	f.letters.random = rand.New(rand.NewPCG(3, 4))
	if f.decoder, err = deadletter.New(patterns, nil); err != nil {
		return nil, err
	}
	refs, err := store.OpenTopics(ctx, []repository.Topic{{Name: deadLetterTopic(names[0]), Incarnation: "another"}})
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
	b := repository.Batch{Ranges: []repository.Range{{Partition: f.partition(), From: f.offset, To: f.offset + int64(n)}}}
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
