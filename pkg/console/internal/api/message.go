package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// Message is a message in an answer of the API. An unknown text is empty, and an unknown number is nil.
type Message struct {
	ID             string    `json:"id"`
	Status         string    `json:"status"`
	OriginalTopic  string    `json:"original_topic"`
	ErrorMessage   string    `json:"error_message"`
	Cause          string    `json:"cause"`
	ErrorClass     string    `json:"error_class"`
	StackTrace     string    `json:"stack_trace"`
	RetryCount     int       `json:"retry_count"`
	MaxRetries     int       `json:"max_retries"`
	CreatedAt      time.Time `json:"created_at"`
	NextAttemptAt  time.Time `json:"next_attempt_at"`
	FinishedAt     time.Time `json:"finished_at"`
	DLQTopic       string    `json:"dlq_topic"`
	DLQPartition   *int32    `json:"dlq_partition"`
	DLQOffset      *int64    `json:"dlq_offset"`
	DLQTimestamp   time.Time `json:"dlq_timestamp"`
	DLQRawTime     *int64    `json:"dlq_timestamp_ms"`
	OrigPartition  *int32    `json:"original_partition"`
	OrigOffset     *int64    `json:"original_offset"`
	OrigTimestamp  time.Time `json:"original_timestamp"`
	ConsumerGroup  string    `json:"consumer_group"`
	ConsumerTries  *int64    `json:"consumer_attempts"`
	Duplicates     int64     `json:"duplicates"`
	Repeats        []Repeat  `json:"repeats"`
	RepeatOf       string    `json:"repeat_of"`
	Completion     string    `json:"completion"`
	CompletionWhy  string    `json:"completion_reason"`
	Dialect        string    `json:"dialect"`
	OriginKnownBy  string    `json:"origin_confidence"`
	Undeclared     bool      `json:"undeclared"`
	UndeclaredWhy  string    `json:"undeclared_reason"`
	GroupID        string    `json:"group_id"`
	ParentID       string    `json:"parent_id"`
	Confirmed      *bool     `json:"return_confirmed"` // nil: the message is not a return
	Outcome        string    `json:"outcome"`
	OutcomeGroup   string    `json:"outcome_group"`
	OutcomeOffset  *int64    `json:"outcome_offset"`
	LastError      string    `json:"last_publish_error"`
	LastErrorClass string    `json:"last_publish_error_class"`
	HeadersOmitted string    `json:"headers_omitted"`
	PayloadOmitted string    `json:"payload_omitted"`
	PayloadSize    *int64    `json:"payload_size"`
	Masked         []string  `json:"masked"`
	Hops           []Hop     `json:"hops"`
	Key            *Blob     `json:"key"`
	KeyOmitted     string    `json:"key_omitted"`
	KeySize        *int64    `json:"key_size"`
	KeyFormat      string    `json:"key_format"`
	PayloadFormat  string    `json:"payload_format"`
	PayloadReason  string    `json:"payload_reason"`
	Headers        []Header  `json:"headers"`
	ReplayRemoves  []string  `json:"replay_removes"`
	ReplayKeeps    []string  `json:"replay_keeps"`
	Derived        map[string]Derived
	Payload        json.RawMessage  `json:"payload"`
	PayloadSchema  *SchemaReference `json:"payload_schema"` // nil: the payload has no schema
	KeyJSON        json.RawMessage  `json:"key_json"`
	KeySchema      *SchemaReference `json:"key_schema"`
	Target         *Target          `json:"target"` // nil: the message has no target

	// Envelope is nil when the value does not look like an envelope.
	Envelope *struct{ Members []string } `json:"envelope"`
}

// OfShareGroup reports whether the broker wrote the dead letter for a share group.
func (m *Message) OfShareGroup() bool { return m.Dialect == "sharegroup" }

// Target is the topic to which a retry would send a message now. Exists is nil when that is not known.
type Target struct {
	Topic      string `json:"topic"`
	Redirected bool   `json:"redirected"`
	Exists     *bool  `json:"exists"`
}

// NoTarget reports whether a retry cannot be sent because its target does not exist.
func (m *Message) NoTarget() bool {
	return m.Target != nil && m.Target.Exists != nil && !*m.Target.Exists
}

// SentTo returns the topic to which a retry would send the message now.
func (m *Message) SentTo() string {
	if m.Target != nil {
		return m.Target.Topic
	}
	return m.OriginalTopic
}

// Unconfirmed reports whether the message is a return that is not confirmed, and so changed no outcome.
func (m Message) Unconfirmed() bool { return m.Confirmed != nil && !*m.Confirmed }

// Repeat is the position of a repeated dead letter that was left out.
type Repeat struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Hop is one of the failures that the headers of the record describe.
type Hop struct {
	Dialect   string `json:"dialect"`
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
}

// ScopeTopic returns the topic for which roles are granted: the original topic or, while that is unknown, the
// dead-letter topic.
func (m *Message) ScopeTopic() string {
	if m.OriginalTopic != "" {
		return m.OriginalTopic
	}
	return m.DLQTopic
}

// Unsettled reports whether the result of the last attempt is unknown.
func (m *Message) Unsettled() bool {
	return m.Status == "RETRYING" && m.LastErrorClass == "UNKNOWN"
}

// JSONPayload returns the payload in the answer, nil for none. The JSON value null counts as a payload.
func (m *Message) JSONPayload() []byte {
	if m.PayloadOmitted != "" || m.PayloadSize == nil || len(m.Payload) == 0 {
		return nil
	}
	return m.Payload
}

// OnlyBytes reports whether the answer leaves the payload out.
func (m *Message) OnlyBytes() bool { return m.JSONPayload() == nil && m.PayloadOmitted != "" }

// InKafka reports whether the payload is not stored and has to be fetched from Kafka.
func (m *Message) InKafka() bool {
	return m.PayloadOmitted == "over_limit" || m.PayloadOmitted == "pointer"
}

// Masks reports whether the API has masked a header's value. It returns false for a record that itself contains the
// text of the mask.
func (m *Message) Masks(h Header) bool {
	return h.Value != nil && h.Value.Data == Mask && slices.Contains(m.Masked, "header:"+h.Key)
}

// Mask is the text by which the API replaces masked values.
const Mask = "***"

// Blob holds bytes as the API sends them: as text, or as base64 when they are not UTF-8. A nil *Blob is null.
type Blob struct {
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

// Bytes returns the decoded bytes; nil for null.
func (b *Blob) Bytes() []byte {
	if b == nil {
		return nil
	}
	if b.Encoding == "base64" {
		if raw, err := base64.StdEncoding.DecodeString(b.Data); err == nil {
			return raw
		}
	}
	return []byte(b.Data)
}

// Header is a header of the record. KeyBase64 is set when its name is not UTF-8.
type Header struct {
	Key       string `json:"key"`
	KeyBase64 string `json:"key_base64"`
	Value     *Blob  `json:"value"`
}

// Derived says where a field of the message was read from.
type Derived struct {
	Source     string `json:"source"`
	Dialect    string `json:"dialect"`
	Header     string `json:"header"`
	Occurrence *int   `json:"occurrence"`
	Confidence string `json:"confidence"`
}

// Words returns the bytes as text, or in hex if they are not UTF-8. It clips long hex and adds the size.
func (b *Blob) Words() string {
	if b.Encoding != "base64" {
		return b.Data
	}
	raw, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil {
		return b.Data
	}
	const most = 12
	if len(raw) > most {
		return fmt.Sprintf("0x%x… (%s)", raw[:most], format.Bytes(int64(len(raw))))
	}
	return fmt.Sprintf("0x%x", raw)
}

var qualified = regexp.MustCompile(`^([\w$]+(?:[.\\][\w$]+)*)[.\\]([\w$]+)$`)

// ShortClass returns the error class without its package.
func (m Message) ShortClass() string {
	if parts := qualified.FindStringSubmatch(m.ErrorClass); parts != nil {
		return parts[2]
	}
	return m.ErrorClass
}

// Package returns the package of the error class, or "".
func (m Message) Package() string {
	if parts := qualified.FindStringSubmatch(m.ErrorClass); parts != nil {
		return parts[1]
	}
	return ""
}

// Position returns the topic, partition and offset of the dead letter; "" for a message without a dead-letter record.
func (m Message) Position() string {
	if m.DLQPartition == nil || m.DLQOffset == nil {
		return ""
	}
	return fmt.Sprintf("%s %d@%d", m.DLQTopic, *m.DLQPartition, *m.DLQOffset)
}

// MessageRef addresses a message in the API and in the console.
type MessageRef struct {
	ID       string
	Archived bool
}

// RefOf returns the message that the path of a request names.
func RefOf(r *http.Request, archived bool) MessageRef { return MessageRef{r.PathValue("id"), archived} }

// Endpoint returns the path of the message in the API; with more segments, the path of a resource below the message.
func (m MessageRef) Endpoint(more ...string) string {
	segments := []string{"dlq", "messages", m.ID}
	if m.Archived {
		segments = []string{"archive", m.ID}
	}
	return Endpoint(append(segments, more...)...)
}

// URL returns the address of the message's page.
func (m MessageRef) URL() string { return m.List() + "/" + url.PathEscape(m.ID) }

// List returns the path of the list that has the message: of live or of archived messages.
func (m MessageRef) List() string {
	if m.Archived {
		return link.Archive
	}
	return link.Messages
}
