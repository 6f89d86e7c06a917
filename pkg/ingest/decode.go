package ingest

import (
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/errorgroups"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// batch converts chunks to a repository.Batch, and returns the fingerprints of the error groups of its messages. The
// chunks of one partition together form one range.
func (i *Ingester) batch(chunks []chunk) (repository.Batch, map[errorgroups.Key]entity.Fingerprint) {
	rows := 0
	for _, c := range chunks {
		rows += len(c.records)
	}
	decoder, errorGroups := i.decoder.Load(), errorgroups.NewGrouping(i.fingerprinter)
	b := emptyBatch(i, decoder)
	b.Messages = make([]entity.Message, 0, rows)
	at := make(map[repository.Partition]int, len(chunks))
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
			m.Group = errorGroups.Group(&m)
			b.Messages = append(b.Messages, m)
		}
	}
	return b, errorGroups.Found
}

// emptyBatch returns a batch with the ingester's settings for returns, but without messages.
func emptyBatch(i *Ingester, decoder *deadletter.Decoder) repository.Batch {
	return repository.Batch{ReturnWindow: i.cfg.ReturnWindow, Declared: func(m *entity.Message) bool { return i.declaredBy(decoder, m) }}
}

// Declared reports whether the dead-letter topic of a message is declared or mapped for its original topic; see
// repository.Batch.
func (i *Ingester) Declared(m *entity.Message) bool { return i.declaredBy(i.decoder.Load(), m) }

func (i *Ingester) declaredBy(decoder *deadletter.Decoder, m *entity.Message) bool {
	return i.origins.Declaration(m.Source.Topic, m.OriginalTopic) == entity.Declared || decoder.Mapped(m.Source.Topic) == m.OriginalTopic
}

// message returns the message that is stored for a record. It contains the record unchanged, and in addition what the
// decoder understands.
func (i *Ingester) message(decoder *deadletter.Decoder, p *partition, r *broker.Record) entity.Message {
	return i.decoded(decoder, entity.Source{
		Topic: p.Topic, TopicID: p.ref.TopicID, Incarnation: p.ref.Incarnation,
		Partition: p.Partition, Offset: r.Offset, Timestamp: entity.TruncateTime(r.Time), RawTime: r.RawTime,
	}, record(r))
}

// decoded returns the message that is stored for a record, which was read from the position source.
func (i *Ingester) decoded(decoder *deadletter.Decoder, source entity.Source, record entity.Record) entity.Message {
	reading := decoder.Decode(source.Topic, record, source.Timestamp, i.exists)
	if record.State == entity.ValueUnreadable {
		reading.ErrorMessage = unreadable(source.Offset, &record)
	}
	m := entity.NewMessage(reading.OriginalTopic, reading.ErrorMessage, source.Timestamp)
	m.MaxRetries = i.cfg.MaxRetries
	m.Record, m.Source = record, source
	m.Origin = reading.Origin
	m.Failure = reading.Failure
	if returned := reading.Returned; returned != nil {
		m.Return = &entity.Return{Parent: returned.MessageID, Attempt: returned.RedriveID}
	}
	m.Share = i.share(&m)
	if m.Share == nil {
		decoder.SetDigest(&m)
	}
	return m
}

// share returns the ShareRecord of a share group's dead letter. It returns nil for other messages, without the option
// WithShareGroups, for a dead letter that exceeds a limit of ingest, and for one that does not name the position of its
// record. It does not check whether the group's configuration names the dead-letter topic, because the group may not be
// known yet; package completion checks this later.
func (i *Ingester) share(m *entity.Message) *entity.ShareRecord {
	if i.shareGroups == nil || !deadletter.IsShareGroup(m) || m.Record.State != entity.ValueStored || !deadletter.PointsToOrigin(m) {
		return nil
	}
	return &entity.ShareRecord{State: entity.CompletionWaiting, Digest: entity.DeadLetterDigest(m.Record.Key, m.Record.Value)}
}

// unreadable returns the error message of a message that represents offsets that cannot be read.
func unreadable(offset int64, r *entity.Record) string {
	if r.LastOffset == offset {
		return fmt.Sprintf("offset %d cannot be read: %s", offset, r.Unreadable)
	}
	return fmt.Sprintf("offsets %d to %d cannot be read: %s", offset, r.LastOffset, r.Unreadable)
}

func record(r *broker.Record) entity.Record {
	out := entity.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Size: int64(len(r.Value))}
	d := r.Defect
	switch {
	case d == nil:
	case d.Reason != "":
		out.State, out.Unreadable, out.LastOffset = entity.ValueUnreadable, d.Reason, d.Last
	default:
		out.State, out.Limit, out.Size, out.SHA256 = entity.ValueOverLimit, d.Limit, d.Size, d.SHA256[:]
	}
	return out
}
