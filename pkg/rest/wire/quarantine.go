package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Quarantined is a record that the database refused to store as a message.
type Quarantined struct {
	ID             uuid.UUID       `json:"id"`
	DLQTopic       string          `json:"dlq_topic"`
	DLQPartition   int32           `json:"dlq_partition"`
	DLQOffset      int64           `json:"dlq_offset"`
	DLQTimestamp   *string         `json:"dlq_timestamp"`
	DLQTimestampMs *int64          `json:"dlq_timestamp_ms"`
	SQLState       string          `json:"sqlstate"`
	Error          *string         `json:"error"`
	FirstTry       *string         `json:"first_try"`
	LastTry        *string         `json:"last_try"`
	Tries          int             `json:"tries"`
	RetryAt        *string         `json:"retry_at"`
	Key            json.RawMessage `json:"key"`
	KeyOmitted     *string         `json:"key_omitted"`
	KeySize        *int64          `json:"key_size"`
	Headers        json.RawMessage `json:"headers"`
	Payload        json.RawMessage `json:"payload"`
	PayloadOmitted *string         `json:"payload_omitted"`
	PayloadSize    *int64          `json:"payload_size"`
	Masked         []string        `json:"masked"`
}

// Quarantined shows a record like a message. With masks it hides the database's text, which may quote the record.
func (w Messages) Quarantined(q entity.Quarantined) Quarantined {
	m := q.Message()
	c := w.show(&m, View{Limit: MaxListPayload})
	shown := Quarantined{
		ID: q.ID, DLQTopic: q.Source.Topic, DLQPartition: q.Source.Partition, DLQOffset: q.Source.Offset,
		DLQTimestamp: Stamp(q.Source.Timestamp), DLQTimestampMs: OrNull(q.Source.RawTime),
		SQLState: q.SQLState, FirstTry: Stamp(q.FirstTry), LastTry: Stamp(q.LastTry), Tries: q.Tries, RetryAt: Stamp(q.RetryAt),
		Key: appendBlob(nil, q.Record.Key), KeyOmitted: OrNull(largeIf(q.Record.KeyOmitted > 0)),
		KeySize: keySize(q.Record), Payload: c.payload, PayloadOmitted: OrNull(c.omitted), PayloadSize: c.size, Masked: ListOf(c.masked),
	}
	if !c.Record.HeadersOmitted || c.Record.Headers != nil {
		shown.Headers = appendHeaders(nil, c.Record.Headers, c.hidden)
	}
	if w.Masking.Empty() {
		shown.Error = OrNull(q.Error)
	}
	return shown
}
