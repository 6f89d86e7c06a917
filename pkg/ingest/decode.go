package ingest

import (
	"crypto/sha256"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// batch turns chunks into what the store takes, and returns the failures that the
// messages' groups are of. Chunks of one partition follow one another, so they
// become one range.
func (i *Ingester) batch(chunks []chunk) (repository.Batch, map[topicGroup]entity.Fingerprint) {
	rows := 0
	for _, c := range chunks {
		rows += len(c.records)
	}
	b := repository.Batch{Messages: make([]entity.Message, 0, rows), ReturnWindow: i.cfg.ReturnWindow}
	at := make(map[repository.Partition]int, len(chunks))
	decoder, groups := i.decoder.Load(), newGrouping(i.fingerprinter)
	b.Declared = func(m *entity.Message) bool {
		return i.origins.Declaration(m.Source.Topic, m.OriginalTopic) == entity.Declared || decoder.Mapped(m.Source.Topic) == m.OriginalTopic
	}
	for _, c := range chunks {
		key := c.p.key()
		if n, ok := at[key]; ok {
			b.Ranges[n].To = c.to
		} else {
			at[key] = len(b.Ranges)
			b.Ranges = append(b.Ranges, repository.Range{Partition: key, From: c.from, To: c.to})
		}
		for n := range c.records {
			m := i.message(decoder, c.p, &c.records[n])
			m.Group = groups.group(&m)
			b.Messages = append(b.Messages, m)
		}
	}
	return b, groups.found
}

// message is the dead letter of a record. Whatever the record holds, there is
// one: what cannot be read is kept as it is.
func (i *Ingester) message(decoder *deadletter.Decoder, p *partition, r *broker.Record) entity.Message {
	record := i.record(r)
	reading := decoder.Decode(p.Topic, record, r.Time, i.exists)
	m := entity.NewMessage(reading.OriginalTopic, reading.ErrorMessage, r.Time)
	m.MaxRetries = i.cfg.MaxRetries
	m.Record = record
	m.Source = entity.Source{
		Topic: p.Topic, TopicID: p.ref.TopicID, Incarnation: p.ref.Incarnation,
		Partition: p.Partition, Offset: r.Offset, Timestamp: entity.Moment(r.Time), RawTime: r.RawTime,
	}
	m.Origin = reading.Origin
	m.Failure = reading.Failure
	if said := reading.Returned; said != nil {
		m.Return = &entity.Return{Parent: said.MessageID, Attempt: said.RedriveID}
	}
	return m
}

func (i *Ingester) record(r *broker.Record) entity.Record {
	out := entity.Record{Key: r.Key, Value: r.Value, Size: int64(len(r.Value))}
	if len(r.Headers) > 0 {
		out.Headers = make([]entity.Header, len(r.Headers))
		for n, h := range r.Headers {
			out.Headers[n] = entity.Header(h)
		}
	}
	if out.Size > i.cfg.MaxRecordBytes {
		sum := sha256.Sum256(r.Value)
		out.State, out.SHA256, out.Value = entity.ValueOverLimit, sum[:], nil
	}
	return out
}
