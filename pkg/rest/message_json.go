package rest

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// maskedText stands where something is masked.
const maskedText = "***"

// view says how messages are shown.
type view struct {
	limit    int                        // the longest payload that is shown
	unmasked func(*entity.Message) bool // whose secrets are shown; nil: nobody's
	archived bool                       // it is one of the archive
	oneLine  bool                       // without line breaks between the tokens of the payload
	noValues bool                       // nobody asked for payloads

	standing func(*entity.Message) entity.OriginStanding // nil: no origin is undeclared
}

// shown is a message as somebody may see it.
type shown struct {
	*entity.Message
	payload    []byte // nil: null
	omitted    string // why
	oneLine    bool
	size       *int64
	url        string // of the payload, when it was left out
	stackTrace string
	hidden     []bool   // of the headers; nil: none is
	masked     []string // names of what was masked
	undeclared string   // why the origin is; "": it is not
}

// show prepares a message for an answer. It is good as long as m is.
func (s *Server) show(m *entity.Message, v view) shown {
	var c shown
	c.Message, c.stackTrace, c.size = m, s.dialects.StackTraceOf(*m), payloadSize(m.Record)
	c.payload, c.omitted = projectPayload(m.Record, v.limit)
	if c.omitted == "" && c.payload == nil && s.dialects.IsPointer(m) {
		c.omitted = pointer
	}
	if v.standing != nil {
		c.undeclared = v.standing(m).Undeclared
	}
	if v.noValues && (c.omitted == tooLarge || c.payload != nil) {
		c.payload, c.omitted = nil, notAsked
	}
	if c.omitted != "" && c.omitted != unreadable {
		c.url = payloadURL(m.ID, v.archived)
	}
	c.oneLine = v.oneLine
	if !s.masks.Empty() && (v.unmasked == nil || !v.unmasked(m)) {
		s.mask(&c)
	}
	return c
}

// payloadURL is where the bytes of a value are.
func payloadURL(id uuid.UUID, archived bool) string {
	if archived {
		return "/api/v1/archive/" + id.String() + "/payload"
	}
	return "/api/v1/dlq/messages/" + id.String() + "/payload"
}

// mask takes out what is masked: values of the payload and of headers, and what was
// read from such a header.
func (s *Server) mask(c *shown) {
	if c.payload != nil {
		c.payload, c.masked = s.masks.Payload(c.payload)
	}
	for i, h := range c.Record.Headers {
		if !s.masks.Header(h.Key) || h.Value == nil {
			continue
		}
		if c.hidden == nil {
			c.hidden = make([]bool, len(c.Record.Headers))
		}
		c.hidden[i] = true
		c.masked = appendNew(c.masked, "header:"+h.Key)
	}
	c.maskDerived(s.derived.Of(c.Message))
}

// maskDerived masks fields that have a text.
func (c *shown) maskDerived(fields entity.MaskedFields) {
	if fields == (entity.MaskedFields{}) {
		return
	}
	m := *c.Message
	c.Message = &m
	hide := func(name string, masked bool, text string) string {
		if !masked || text == "" {
			return text
		}
		c.masked = append(c.masked, name)
		return maskedText
	}
	m.ErrorMessage = hide("error_message", fields.ErrorMessage, m.ErrorMessage)
	m.Failure.Class = hide("error_class", fields.ErrorClass, m.Failure.Class)
	c.stackTrace = hide("stack_trace", fields.StackTrace, c.stackTrace)
	m.Failure.ConsumerGroup = hide("consumer_group", fields.ConsumerGroup, m.Failure.ConsumerGroup)
	if fields.ConsumerGroup && m.Consumption != nil {
		consumed := *m.Consumption
		consumed.Group = maskedText
		m.Consumption = &consumed
	}
}

func appendNew(list []string, name string) []string {
	for _, have := range list {
		if have == name {
			return list
		}
	}
	return append(list, name)
}

// appendMessage writes m as JSON. The payload is written as the producer wrote it.
func (s *Server) appendMessage(dst []byte, m *entity.Message, v view) []byte {
	c := s.show(m, v)
	dst = append(dst, '{')
	dst = c.appendMembers(dst)
	return append(dst, '}')
}

// appendMembers writes what stands between the braces.
func (c *shown) appendMembers(dst []byte) []byte {
	dst = append(dst, `"id":`...)
	dst = appendID(dst, c.ID)
	dst = append(dst, `,"original_topic":`...)
	dst = appendText(dst, c.OriginalTopic)
	dst = append(dst, `,"error_message":`...)
	dst = appendText(dst, c.ErrorMessage)
	dst = append(dst, `,"retry_count":`...)
	dst = appendInt(dst, c.RetryCount)
	dst = append(dst, `,"max_retries":`...)
	dst = appendInt(dst, c.MaxRetries)
	dst = append(dst, `,"payload":`...)
	if c.payload == nil {
		dst = append(dst, "null"...)
	} else {
		begin := len(dst)
		dst = append(dst, c.payload...)
		if c.oneLine {
			joinLines(dst[begin:])
		}
	}
	dst = append(dst, `,"status":`...)
	dst = appendText(dst, c.Status.String())
	dst = memberTime(dst, "created_at", c.CreatedAt)
	dst = memberTime(dst, "updated_at", c.UpdatedAt)
	dst = memberTime(dst, "last_retry_at", c.LastRetryAt)
	dst = c.appendPlaces(dst)
	dst = c.appendFailure(dst)
	dst = c.appendLife(dst)
	return c.appendRecord(dst)
}

// joinLines makes one line of valid JSON. It has line breaks only between tokens,
// where a space means the same: within strings they are escaped.
func joinLines(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
}

// appendPlaces writes where the message and its record stood.
func (c *shown) appendPlaces(dst []byte) []byte {
	var partition *int32
	var offset *int64
	if c.Source.Known() {
		partition, offset = &c.Source.Partition, &c.Source.Offset
	}
	dst = memberText(dst, "dlq_topic", c.Source.Topic)
	dst = memberInt(dst, "dlq_partition", partition)
	dst = memberInt(dst, "dlq_offset", offset)
	dst = memberTime(dst, "dlq_timestamp", c.Source.Timestamp)
	dst = memberInt(dst, "dlq_timestamp_ms", orNull(c.Source.RawTime))
	dst = memberInt(dst, "original_partition", c.Origin.Partition)
	dst = memberInt(dst, "original_offset", c.Origin.Offset)
	return memberTime(dst, "original_timestamp", c.Origin.Timestamp)
}

// appendFailure writes what the consumer said.
func (c *shown) appendFailure(dst []byte) []byte {
	dst = memberText(dst, "consumer_group", c.Failure.ConsumerGroup)
	dst = memberText(dst, "error_class", c.Failure.Class)
	dst = memberText(dst, "stack_trace", c.stackTrace)
	dst = memberInt(dst, "consumer_attempts", c.Failure.Attempts)
	dst = memberText(dst, "dialect", c.Failure.Dialect)
	dst = memberText(dst, "origin_confidence", c.Origin.Confidence)
	dst = strconv.AppendBool(member(dst, "undeclared"), c.undeclared != "")
	return memberText(dst, "undeclared_reason", c.undeclared)
}

// appendReturn writes whether a message that came back says what became of its parent's
// record; null for one that did not come back.
func appendReturn(dst []byte, m *entity.Message) []byte {
	dst = member(dst, "return_confirmed")
	if m.Parent == uuid.Nil {
		return append(dst, "null"...)
	}
	return strconv.AppendBool(dst, !m.UnconfirmedReturn)
}

// appendLife writes whose child it is, and what became of it.
func (c *shown) appendLife(dst []byte) []byte {
	dst = memberID(dst, "group_id", c.Group)
	dst = memberID(dst, "parent_id", c.Parent)
	dst = appendReturn(dst, c.Message)
	dst = memberID(dst, "root_id", rootOf(c.Message))
	dst = memberText(dst, "outcome", c.Outcome)
	var group string
	var offset *int64
	if c.Consumption != nil {
		group, offset = c.Consumption.Group, &c.Consumption.Offset
	}
	dst = memberText(dst, "outcome_group", group)
	dst = memberInt(dst, "outcome_offset", offset)
	dst = memberTime(dst, "next_attempt_at", c.NextAttemptAt)
	dst = memberTime(dst, "finished_at", c.FinishedAt())
	dst = memberText(dst, "last_publish_error", c.LastPublishError)
	return memberText(dst, "last_publish_error_class", c.LastPublishErrorClass)
}

// appendRecord writes the record's bytes, and what of them is not there.
func (c *shown) appendRecord(dst []byte) []byte {
	dst = append(dst, `,"key":`...)
	dst = appendBlob(dst, c.Record.Key)
	dst = memberText(dst, "key_omitted", keyOmitted(c.Record))
	dst = memberInt(dst, "key_size", keySize(c.Record))
	dst = append(dst, `,"headers":`...)
	dst = c.appendHeaders(dst)
	dst = memberText(dst, "headers_omitted", headersOmitted(c.Record))
	dst = memberText(dst, "payload_omitted", c.omitted)
	dst = memberInt(dst, "payload_size", c.size)
	dst = memberText(dst, "payload_url", c.url)
	dst = memberText(dst, "limit_exceeded", c.Record.Limit)
	dst = memberText(dst, "unreadable_reason", c.Record.Unreadable)
	dst = memberInt(dst, "last_offset", c.lastOffset())
	dst = append(dst, `,"masked":[`...)
	for i, name := range c.masked {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, name)
	}
	return append(dst, ']')
}

// lastOffset is up to where the message stands for what cannot be read, nil where it
// stands for a record.
func (c *shown) lastOffset() *int64 {
	if c.Record.State != entity.ValueUnreadable {
		return nil
	}
	return &c.Record.LastOffset
}

// appendHeaders keeps order and repeats. The list is null only when all headers were
// left out. Names are text by habit only: where one is not,
// key_base64 has its bytes and key what can be read of it.
func (c *shown) appendHeaders(dst []byte) []byte {
	if c.Record.HeadersOmitted && c.Record.Headers == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, h := range c.Record.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = appendText(dst, h.Key)
		if !utf8.ValidString(h.Key) {
			dst = append(dst, `,"key_base64":`...)
			dst = appendBase64(dst, []byte(h.Key))
		}
		dst = append(dst, `,"value":`...)
		if c.hidden != nil && c.hidden[i] {
			dst = appendBlob(dst, []byte(maskedText))
		} else {
			dst = appendBlob(dst, h.Value)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func member(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func memberText[T ~string](dst []byte, name string, text T) []byte {
	dst = member(dst, name)
	if text == "" {
		return append(dst, "null"...)
	}
	return appendText(dst, text)
}

func memberInt[T ~int | ~int32 | ~int64](dst []byte, name string, n *T) []byte {
	dst = member(dst, name)
	if n == nil {
		return append(dst, "null"...)
	}
	return appendInt(dst, *n)
}

func memberTime(dst []byte, name string, t time.Time) []byte {
	return appendStamp(member(dst, name), t)
}

func memberID(dst []byte, name string, id uuid.UUID) []byte {
	dst = member(dst, name)
	if id == uuid.Nil {
		return append(dst, "null"...)
	}
	return appendID(dst, id)
}

// headerJSON shows a record header as appendHeaders does.
type headerJSON struct {
	Key       string `json:"key"`
	KeyBase64 []byte `json:"key_base64,omitempty"`
	Value     *blob  `json:"value"`
}

// showHeaders shows headers that are not those of a message.
func (s *Server) showHeaders(headers []entity.Header, unmasked bool) []headerJSON {
	list := make([]headerJSON, 0, len(headers))
	for _, h := range headers {
		one := headerJSON{Key: h.Key, Value: showBytes(h.Value)}
		if !utf8.ValidString(h.Key) {
			one.KeyBase64 = []byte(h.Key)
		}
		if h.Value != nil && !unmasked && s.masks.Header(h.Key) {
			one.Value = showBytes([]byte(maskedText))
		}
		list = append(list, one)
	}
	return list
}

// keyOmitted says why a key is not shown.
func keyOmitted(r entity.Record) string {
	if r.KeyOmitted == 0 {
		return ""
	}
	return tooLarge
}

// keySize is the length of the key in bytes, nil for a null key.
func keySize(r entity.Record) *int64 {
	size := r.KeyOmitted
	switch {
	case size > 0:
	case r.Key == nil:
		return nil
	default:
		size = int64(len(r.Key))
	}
	return &size
}

// headersOmitted says why there are headers that are not shown.
func headersOmitted(r entity.Record) string {
	if !r.HeadersOmitted {
		return ""
	}
	return tooLarge
}

// rootOf is the first message of the lineage, which may be the message itself.
func rootOf(m *entity.Message) uuid.UUID {
	if m.Root == uuid.Nil {
		return m.ID
	}
	return m.Root
}
