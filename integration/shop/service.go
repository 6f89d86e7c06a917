package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// idHeader is the header with the id of the republished message; all attempts to send a message have the same id.
const idHeader = "dlq-message-id"

const (
	// acceptedIDs limits how many ids of accepted replays a consumer remembers. It processes a replay again whose id it
	// has forgotten.
	acceptedIDs = 10_000

	// tries is how often a consumer tries to process a record whose failure is temporary.
	tries = 3

	// finishPatience limits how long a consumer still writes dead letters and commits offsets after the shop begins to
	// close.
	finishPatience = 5 * time.Second
)

// service is one consumer. Only its own goroutine uses it.
type service struct {
	group string
	topic string
	noun  string // what a record is, in the shop's log, such as "invoice"
	log   *logbook

	// handle processes a record. It returns nil if the consumer accepts the record, otherwise the failure.
	handle func(rec *kgo.Record) *failure

	// deadLetter makes the record for the dead-letter topic.
	deadLetter func(rec *kgo.Record, f *failure) *kgo.Record

	accepted *recent[string, struct{}]
}

// consume processes one record. It returns the record's dead letter, or nil if the consumer accepts the record. It
// skips a replay of a message that the consumer has already accepted.
func (s *service) consume(rec *kgo.Record) *kgo.Record {
	id, redelivered := header(rec, idHeader)
	if _, before := s.accepted.get(id); redelivered && before {
		s.log.line("%s skipped %s (dlq-message-id %s was accepted before)", s.group, s.about(rec), id)
		return nil
	}
	f := s.try(rec)
	if f == nil {
		s.accept(rec, id, redelivered)
		return nil
	}
	if redelivered {
		s.log.line("%s dead-lettered %s again (redelivered, dlq-message-id %s): %s", s.group, s.about(rec), id, f.reason())
	}
	return s.deadLetter(rec, f)
}

func (s *service) accept(rec *kgo.Record, id string, redelivered bool) {
	if !redelivered {
		return
	}
	s.accepted.put(id, struct{}{})
	s.log.line("%s accepted %s (redelivered, dlq-message-id %s)", s.group, s.about(rec), id)
}

// try calls handle for a record, and repeats this after a temporary failure, as frameworks do before they dead-letter a
// record.
func (s *service) try(rec *kgo.Record) *failure {
	for attempt := 1; ; attempt++ {
		f := s.handle(rec)
		if f == nil {
			return nil
		}
		if f.attempts = attempt; !f.temporary || attempt == tries {
			return f
		}
	}
}

func (s *service) about(rec *kgo.Record) string { return s.noun + " " + string(rec.Key) }

func (f *failure) reason() string {
	if f.plain != "" {
		return f.plain
	}
	return f.thrown.root().message
}

// header returns the value of the last header with that name, because the last one takes precedence.
func header(rec *kgo.Record, key string) (string, bool) {
	for i := len(rec.Headers) - 1; i >= 0; i-- {
		if rec.Headers[i].Key == key {
			return string(rec.Headers[i].Value), true
		}
	}
	return "", false
}

// serve consumes the topic of a service as a member of its consumer group until ctx ends.
func (s *Shop) serve(ctx context.Context, svc *service) error {
	client, err := s.client(
		kgo.ConsumerGroup(svc.group), kgo.ConsumeTopics(svc.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return fmt.Errorf("%s: %w", svc.group, err)
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 500)
		fetches.EachError(func(topic string, _ int32, err error) {
			if ctx.Err() == nil {
				s.log.line("%s cannot read %s: %v", svc.group, topic, err)
			}
		})
		if err := svc.finish(ctx, client, fetches.Records()); err != nil {
			return fmt.Errorf("%s: %w", svc.group, err)
		}
		client.AllowRebalance()
	}
	return nil
}

// finish processes fetched records, even if the shop closes meanwhile, and commits their offsets. A dead letter is in
// its topic before the offset of its record is committed.
func (s *service) finish(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	var dead []*kgo.Record
	for _, rec := range records {
		if letter := s.consume(rec); letter != nil {
			dead = append(dead, letter)
		}
	}
	closing, cancel := finishContext(ctx)
	defer cancel()
	if err := client.ProduceSync(closing, dead...).FirstErr(); err != nil {
		return stopped(ctx, fmt.Errorf("dead-letter: %w", err))
	}
	if err := client.CommitRecords(closing, records...); err != nil {
		return stopped(ctx, fmt.Errorf("commit: %w", err))
	}
	return nil
}

// finishContext returns a context that ends finishPatience later than ctx.
func finishContext(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishPatience, cancel) })
	return later, func() { stop(); cancel() }
}
