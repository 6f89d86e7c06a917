package rest

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// A message is encoded in two halves with the payload between them, because
// the payload is written as the producer wrote it: encoding/json would compact
// it and escape some of its characters.
type (
	messageHead struct {
		ID            uuid.UUID `json:"id"`
		OriginalTopic string    `json:"original_topic"`
		ErrorMessage  string    `json:"error_message"`
		RetryCount    int       `json:"retry_count"`
		MaxRetries    int       `json:"max_retries"`
	}
	messageTail struct {
		Status      entity.Status `json:"status"`
		CreatedAt   *string       `json:"created_at"`
		UpdatedAt   *string       `json:"updated_at"`
		LastRetryAt *string       `json:"last_retry_at"`

		DLQTopic              *string            `json:"dlq_topic"`
		DLQPartition          *int32             `json:"dlq_partition"`
		DLQOffset             *int64             `json:"dlq_offset"`
		DLQTimestamp          *string            `json:"dlq_timestamp"`
		OriginalPartition     *int32             `json:"original_partition"`
		OriginalOffset        *int64             `json:"original_offset"`
		OriginalTimestamp     *string            `json:"original_timestamp"`
		ConsumerGroup         *string            `json:"consumer_group"`
		ErrorClass            *string            `json:"error_class"`
		StackTrace            *string            `json:"stack_trace"`
		ConsumerAttempts      *int               `json:"consumer_attempts"`
		Dialect               *string            `json:"dialect"`
		OriginConfidence      *entity.Confidence `json:"origin_confidence"`
		GroupID               *uuid.UUID         `json:"group_id"`
		ParentID              *uuid.UUID         `json:"parent_id"`
		RootID                uuid.UUID          `json:"root_id"`
		Outcome               *entity.Outcome    `json:"outcome"`
		OutcomeGroup          *string            `json:"outcome_group"`
		OutcomeOffset         *int64             `json:"outcome_offset"`
		NextAttemptAt         *string            `json:"next_attempt_at"`
		FinishedAt            *string            `json:"finished_at"`
		LastPublishError      *string            `json:"last_publish_error"`
		LastPublishErrorClass *entity.ErrorClass `json:"last_publish_error_class"`
		Key                   *blob              `json:"key"`
		Headers               []headerJSON       `json:"headers"`
		HeadersOmitted        *string            `json:"headers_omitted"`
		PayloadOmitted        *string            `json:"payload_omitted"`
		PayloadSize           *int64             `json:"payload_size"`
	}

	// headerJSON shows a record header. Names are text by habit only: where one
	// is not, KeyBase64 has its bytes and Key what can be read of it.
	headerJSON struct {
		Key       string `json:"key"`
		KeyBase64 []byte `json:"key_base64,omitempty"`
		Value     *blob  `json:"value"`
	}
)

// appendMessage writes m as JSON; a payload longer than limit is left out.
func (s *Server) appendMessage(out *bytes.Buffer, m entity.Message, limit int) {
	payload, omitted := projectPayload(m.Record, limit)
	tail := s.tail(m)
	tail.PayloadOmitted = orNull(omitted)

	head := encode(messageHead{m.ID, m.OriginalTopic, m.ErrorMessage, m.RetryCount, m.MaxRetries})
	out.Write(bytes.TrimSuffix(head, []byte("}")))
	out.WriteString(`,"payload":`)
	if payload == nil {
		payload = []byte("null")
	}
	out.Write(payload)
	out.WriteByte(',')
	out.Write(bytes.TrimPrefix(encode(tail), []byte("{")))
}

func (s *Server) tail(m entity.Message) messageTail {
	t := messageTail{
		Status:      m.Status,
		CreatedAt:   stamp(m.CreatedAt),
		UpdatedAt:   stamp(m.UpdatedAt),
		LastRetryAt: stamp(m.LastRetryAt),

		DLQTopic:              orNull(m.Source.Topic),
		DLQTimestamp:          stamp(m.Source.Timestamp),
		OriginalPartition:     m.Origin.Partition,
		OriginalOffset:        m.Origin.Offset,
		OriginalTimestamp:     stamp(m.Origin.Timestamp),
		ConsumerGroup:         orNull(m.Failure.ConsumerGroup),
		ErrorClass:            orNull(m.Failure.Class),
		StackTrace:            orNull(s.stackTrace(m)),
		ConsumerAttempts:      m.Failure.Attempts,
		Dialect:               orNull(m.Failure.Dialect),
		OriginConfidence:      orNull(m.Origin.Confidence),
		ParentID:              orNull(m.Parent),
		RootID:                rootOf(m),
		Outcome:               orNull(m.Outcome),
		NextAttemptAt:         stamp(m.NextAttemptAt),
		FinishedAt:            stamp(m.FinishedAt()),
		LastPublishError:      orNull(m.LastPublishError),
		LastPublishErrorClass: orNull(m.LastPublishErrorClass),
		Key:                   showBytes(m.Record.Key),
		Headers:               showHeaders(m.Record),
		HeadersOmitted:        headersOmitted(m.Record),
		PayloadSize:           payloadSize(m.Record),
	}
	if m.Source.Known() {
		t.DLQPartition, t.DLQOffset = &m.Source.Partition, &m.Source.Offset
	}
	if c := m.Consumption; c != nil {
		t.OutcomeGroup, t.OutcomeOffset = orNull(c.Group), &c.Offset
	}
	return t
}

// showHeaders keeps order and repeats. The list is null only when there are
// headers that were left out.
func showHeaders(r entity.Record) []headerJSON {
	if r.HeadersOmitted {
		return nil
	}
	list := make([]headerJSON, 0, len(r.Headers))
	for _, h := range r.Headers {
		shown := headerJSON{Key: h.Key, Value: showBytes(h.Value)}
		if !utf8.ValidString(h.Key) {
			shown.Key = strings.ToValidUTF8(h.Key, "\uFFFD")
			shown.KeyBase64 = []byte(h.Key)
		}
		list = append(list, shown)
	}
	return list
}

// headersOmitted says why there are headers that are not shown.
func headersOmitted(r entity.Record) *string {
	if !r.HeadersOmitted {
		return nil
	}
	return orNull(tooLarge)
}

// rootOf is the first message of the lineage, which may be the message itself.
func rootOf(m entity.Message) uuid.UUID {
	if m.Root == uuid.Nil {
		return m.ID
	}
	return m.Root
}
