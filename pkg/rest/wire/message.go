package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
)

// Dialects read a message's fields from its headers.
type Dialects interface {
	// StackTraceOf returns the stack trace of a message, which the store may have only in the headers; "" when there is
	// no stack trace.
	StackTraceOf(m entity.Message) string

	// ExplainMessage returns for each field of the failure from where it was read.
	ExplainMessage(m entity.Message) entity.Explanation

	// IsPointer reports whether the dead letter is a pointer: it has no value, because it only names the record that
	// failed.
	IsPointer(m *entity.Message) bool

	// ReplayHeaders returns the headers that a replay of the message to a topic removes, and those that it keeps although
	// a value of the failure was read from them. The parameter e is the message's explanation.
	ReplayHeaders(m *entity.Message, topic string, e entity.Explanation) entity.ReplayHeaders

	// PositionHolds reports whether the stored partition and offset belong to the message's original topic.
	PositionHolds(m *entity.Message) bool
}

// Messages writes messages as JSON and CSV. It masks values, unless the view shows the message without masks.
type Messages struct {
	Dialects Dialects
	Masking  Masking
}

// View says how messages are shown to a principal in one answer.
type View struct {
	Limit    int                        // size in bytes of the longest payload that is shown
	Unmasked func(*entity.Message) bool // reports messages that are shown without masks; nil: none
	Archived bool                       // the message is in the archive
	OneLine  bool                       // replaces line breaks between the tokens of the payload by spaces
	NoValues bool                       // payloads are left out

	Standing func(*entity.Message) entity.OriginStanding // nil: no origin is undeclared
	Schemas  entity.PartReader                           // nil: nothing is decoded

	Target *Target // where a retry would send a single message; nil: the answer does not say it
}

// Target is the topic to which a retry would send a message now. Exists is nil when that is not known.
type Target struct {
	Topic      string
	Redirected bool
	Exists     *bool
}

func (t *Target) write(r *row) {
	r.name("target")
	if t == nil {
		r.null()
		return
	}
	inner := row{dst: append(r.dst, '{')}
	inner.word("topic", t.Topic)
	inner.flag("redirected", true, t.Redirected)
	inner.flag("exists", t.Exists != nil, t.Exists != nil && *t.Exists)
	r.dst = append(inner.dst, '}')
}

// AppendJSON writes m as JSON. The payload is written as the producer wrote it, unless it is decoded, masked or joined
// to one line.
func (w Messages) AppendJSON(dst []byte, m *entity.Message, v View) []byte {
	c := w.show(m, v)
	r := row{dst: append(dst, '{')}
	c.write(&r)
	return append(r.dst, '}')
}

// AppendDetailed writes m as JSON, with the members that lists leave out.
func (w Messages) AppendDetailed(dst []byte, m *entity.Message, v View) []byte {
	dst = w.AppendJSON(dst, m, v)
	r := row{dst: dst[:len(dst)-1], more: true}
	v.Target.write(&r)
	to := m.OriginalTopic
	if v.Target != nil {
		to = v.Target.Topic
	}
	explanation := w.Dialects.ExplainMessage(*m)
	replay := w.Dialects.ReplayHeaders(m, to, explanation)
	r.list("replay_removes", replay.Removes)
	r.list("replay_keeps", replay.Keeps)
	return append(appendExplanation(append(r.dst, ','), explanation), '}')
}

// AppendCSV writes m as one line. Bytes that are not UTF-8 are in base64 after "base64:"; headers are JSON.
func (w Messages) AppendCSV(dst []byte, m *entity.Message, v View) []byte {
	c := w.show(m, v)
	r := row{dst: dst, csv: true}
	c.write(&r)
	return append(r.dst, '\n')
}

// shown is a message that is prepared for an answer to a principal.
type shown struct {
	*entity.Message
	payload    []byte // payload in the answer; nil becomes null
	omitted    string // why the answer leaves out the payload; "": it has the payload
	oneLine    bool
	size       *int64
	url        string // URL of the payload, if the payload is left out
	stackTrace string
	cause      string
	value, key entity.Decoded // value and key of the record, decoded with the schemas of a registry
	shownKey   []byte         // key in the answer
	hidden     []bool         // which headers are masked; nil: none
	masked     []string       // names of the masked values
	undeclared string         // why the origin is undeclared; "" when it is not
}

// show prepares a message for an answer. The result refers to m, so m must not change while the result is used.
func (w Messages) show(m *entity.Message, v View) shown {
	var c shown
	if m.Origin.Partition != nil || m.Origin.Offset != nil {
		if !w.Dialects.PositionHolds(m) {
			another := *m
			another.Origin.Partition, another.Origin.Offset, m = nil, nil, &another
		}
	}
	c.Message, c.stackTrace, c.size, c.shownKey = m, w.Dialects.StackTraceOf(*m), payloadSize(m.Record), m.Record.Key
	c.payload, c.omitted = projectPayload(m.Record, v.Limit)
	if v.Schemas != nil {
		c.value, c.key = decoded(m, v, c.omitted)
		if c.value.Format != entity.NoFormat {
			c.payload, c.omitted = c.value.JSON, c.value.Omitted
		}
	}
	if c.omitted == "" && c.payload == nil && w.Dialects.IsPointer(m) {
		c.omitted = pointer
	}
	if v.Standing != nil {
		c.undeclared = v.Standing(m).Undeclared
	}
	if v.NoValues && (c.omitted == TooLarge || c.payload != nil) {
		c.payload, c.omitted = nil, notAsked
	}
	if c.omitted != "" && c.omitted != unreadable {
		c.url = payloadURL(m.ID, v.Archived)
	}
	c.oneLine = v.OneLine
	if !w.Masking.Empty() && (v.Unmasked == nil || !v.Unmasked(m)) {
		c.mask(w.Masking)
	}
	// The cause is derived from the texts after masking, so that it cannot contain masked text.
	c.cause = fingerprint.Cause(c.Failure.Class, c.ErrorMessage, c.stackTrace)
	return c
}

func payloadURL(id uuid.UUID, archived bool) string {
	if archived {
		return "/api/v1/archive/" + id.String() + "/payload"
	}
	return "/api/v1/dlq/messages/" + id.String() + "/payload"
}

// mask replaces the masked values of the payload, of the key, of headers, and of fields that were read from a masked
// header.
func (c *shown) mask(by Masking) {
	c.maskRecord(by)
	c.hidden = by.headers(c.Record.Headers)
	for i, hidden := range c.hidden {
		if name := "header:" + c.Record.Headers[i].Key; hidden && !slices.Contains(c.masked, name) {
			c.masked = append(c.masked, name)
		}
	}
	c.maskDerived(by.Derived.Of(c.Message))
}

// maskDerived masks the fields of the failure that were read from masked headers and are not empty, and other texts
// that name a masked consumer group.
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
		return MaskedText
	}
	m.ErrorMessage = hide("error_message", fields.ErrorMessage, m.ErrorMessage)
	m.Failure.Class = hide("error_class", fields.ErrorClass, m.Failure.Class)
	c.stackTrace = hide("stack_trace", fields.StackTrace, c.stackTrace)
	m.Failure.ConsumerGroup = hide("consumer_group", fields.ConsumerGroup, m.Failure.ConsumerGroup)
	if fields.ConsumerGroup && m.Consumption != nil {
		consumed := *m.Consumption
		consumed.Group = MaskedText
		m.Consumption = &consumed
	}
	if m.Share != nil {
		share := *m.Share
		share.Reason = hide("completion_reason", fields.ConsumerGroup, share.Reason) // names the group
		m.Share = &share
	}
}

// write writes the members of the message, in the order of CSVHead.
func (c *shown) write(r *row) {
	r.id("id", c.ID)
	r.word("original_topic", c.OriginalTopic)
	r.word("error_message", c.ErrorMessage)
	number(r, "retry_count", &c.RetryCount)
	number(r, "max_retries", &c.MaxRetries)
	c.writePayload(r)
	r.word("status", c.Status.String())
	r.time("created_at", c.CreatedAt)
	r.time("updated_at", c.UpdatedAt)
	r.time("last_retry_at", c.LastRetryAt)
	c.writeSource(r)
	c.writeFailure(r)
	c.writeOutcome(r)
	c.writeRecord(r)
}

func (c *shown) writePayload(r *row) {
	r.name("payload")
	switch {
	case r.csv:
		r.dst = appendCell(r.dst, string(c.payload))
	case c.payload == nil:
		r.null()
	default:
		begin := len(r.dst)
		if r.dst = append(r.dst, c.payload...); c.oneLine {
			joinLines(r.dst[begin:])
		}
	}
}

// joinLines replaces the line breaks of valid JSON by spaces. Unescaped line breaks occur only between the tokens of
// JSON, where a space has the same meaning.
func joinLines(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
}

// writeSource writes the positions of the dead letter and of the original record.
func (c *shown) writeSource(r *row) {
	var partition *int32
	var offset *int64
	if c.Source.Known() {
		partition, offset = &c.Source.Partition, &c.Source.Offset
	}
	r.text("dlq_topic", c.Source.Topic)
	number(r, "dlq_partition", partition)
	number(r, "dlq_offset", offset)
	r.time("dlq_timestamp", c.Source.Timestamp)
	number(r, "dlq_timestamp_ms", OrNull(c.Source.RawTime))
	number(r, "original_partition", c.Origin.Partition)
	number(r, "original_offset", c.Origin.Offset)
	r.time("original_timestamp", c.Origin.Timestamp)
}

func (c *shown) writeFailure(r *row) {
	r.text("consumer_group", c.Failure.ConsumerGroup)
	r.text("error_class", c.Failure.Class)
	r.text("stack_trace", c.stackTrace)
	number(r, "consumer_attempts", c.Failure.Attempts)
	r.text("dialect", c.Failure.Dialect)
	r.text("origin_confidence", string(c.Origin.Confidence))
	r.flag("undeclared", true, c.undeclared != "")
	r.text("undeclared_reason", c.undeclared)
	c.writeShare(r)
}

// writeShare writes what the store knows of repeats of the dead letter and, for a share group's dead letter, the state
// of its completion.
func (c *shown) writeShare(r *row) {
	var duplicates *int
	share := entity.ShareRecord{}
	switch {
	case c.Share != nil:
		duplicates, share = &c.Share.Duplicates, *c.Share
	case c.NamesPosition() || c.Repeats.Count > 0:
		duplicates = &c.Repeats.Count
	}
	number(r, "duplicates", duplicates)
	c.writeRepeats(r)
	r.id("repeat_of", c.Repeats.Of)
	r.flag("source_gone", true, share.State == entity.SourceGone)
	r.text("completion", string(share.State))
	r.text("completion_reason", share.Reason)
}

// writeRepeats writes the positions of repeats, in CSV as JSON too.
func (c *shown) writeRepeats(r *row) {
	r.name("repeats")
	if len(c.Repeats.Positions) == 0 {
		r.dst = append(r.dst, "[]"...)
		return
	}
	list := []byte{'['}
	for i, at := range c.Repeats.Positions {
		if i > 0 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, `{"partition":%d,"offset":%d}`, at.Partition, at.Offset)
	}
	if list = append(list, ']'); r.csv {
		r.dst = appendCell(r.dst, string(list))
	} else {
		r.dst = append(r.dst, list...)
	}
}

// writeOutcome writes the lineage of the message and the outcome of its replay. For a return, return_confirmed says
// whether the return is confirmed; it is null for a message that is no return.
func (c *shown) writeOutcome(r *row) {
	r.id("group_id", c.Group)
	r.id("parent_id", c.Parent)
	r.flag("return_confirmed", c.Parent != uuid.Nil, !c.UnconfirmedReturn)
	r.id("root_id", rootOf(c.Message))
	r.text("outcome", string(c.Outcome))
	var group string
	var offset *int64
	if c.Consumption != nil {
		group, offset = c.Consumption.Group, &c.Consumption.Offset
	}
	r.text("outcome_group", group)
	number(r, "outcome_offset", offset)
	r.time("next_attempt_at", c.NextAttemptAt)
	r.time("finished_at", c.FinishedAt())
	r.text("last_publish_error", c.LastPublishError)
	r.text("last_publish_error_class", string(c.LastPublishErrorClass))
}

// writeRecord writes the key and the headers of the record, and which parts are left out. When the message stands for a
// range of unreadable records, last_offset is the offset of the last one; otherwise it is null.
func (c *shown) writeRecord(r *row) {
	r.blob("key", c.shownKey)
	r.text("key_omitted", largeIf(c.Record.KeyOmitted > 0))
	number(r, "key_size", keySize(c.Record))
	c.writeDecodedKey(r)
	c.writeHeaders(r)
	r.text("headers_omitted", largeIf(c.Record.HeadersOmitted))
	r.text("payload_omitted", c.omitted)
	number(r, "payload_size", c.size)
	r.text("payload_url", c.url)
	c.writeDecodedPayload(r)
	r.text("limit_exceeded", c.Record.Limit)
	r.text("unreadable_reason", c.Record.Unreadable)
	var last *int64
	if c.Record.State == entity.ValueUnreadable {
		last = &c.Record.LastOffset
	}
	number(r, "last_offset", last)
	r.word("cause", c.cause)
	r.name("masked")
	if r.csv {
		r.dst = appendCell(r.dst, strings.Join(c.masked, " "))
		return
	}
	r.appendList(c.masked)
}

// writeHeaders writes the headers. It writes null when all headers were left out. In CSV the cell is then empty, and
// also for a record without headers.
func (c *shown) writeHeaders(r *row) {
	r.name("headers")
	switch {
	case r.csv && len(c.Record.Headers) == 0:
	case r.csv:
		r.dst = appendCell(r.dst, string(appendHeaders(nil, c.Record.Headers, c.hidden)))
	case c.Record.HeadersOmitted && c.Record.Headers == nil:
		r.null()
	default:
		r.dst = appendHeaders(r.dst, c.Record.Headers, c.hidden)
	}
}

// appendHeaders writes the headers in their order, including repeated ones. If the name of a header is not UTF-8,
// key_base64 contains its bytes and key its readable part.
func appendHeaders(dst []byte, headers []entity.Header, hidden []bool) []byte {
	dst = append(dst, '[')
	for i, h := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"key":`...), h.Key)
		if !utf8.ValidString(h.Key) {
			dst = appendBase64(append(dst, `,"key_base64":`...), []byte(h.Key))
		}
		value := h.Value
		if hidden != nil && hidden[i] {
			value = []byte(MaskedText)
		}
		dst = append(appendBlob(append(dst, `,"value":`...), value), '}')
	}
	return append(dst, ']')
}

// row writes the members of an object as JSON, or as the cells of a line of CSV, in which null is empty.
type row struct {
	dst  []byte
	csv  bool
	more bool // a member was already written
}

func (r *row) name(name string) {
	if r.more {
		r.dst = append(r.dst, ',')
	}
	if r.more = true; !r.csv {
		r.dst = append(r.dst, '"')
		r.dst = append(r.dst, name...)
		r.dst = append(r.dst, '"', ':')
	}
}

func (r *row) null() {
	if !r.csv {
		r.dst = append(r.dst, "null"...)
	}
}

// word writes a text; an empty text stays an empty text.
func (r *row) word(name, text string) {
	if r.name(name); r.csv {
		r.dst = appendCell(r.dst, text)
	} else {
		r.dst = appendText(r.dst, text)
	}
}

// list writes a list of texts.
func (r *row) list(name string, texts []string) {
	r.name(name)
	r.appendList(texts)
}

func (r *row) appendList(texts []string) {
	r.dst = append(r.dst, '[')
	for i, text := range texts {
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = appendText(r.dst, text)
	}
	r.dst = append(r.dst, ']')
}

// text writes a text; an empty text becomes null.
func (r *row) text(name, text string) {
	if text != "" {
		r.word(name, text)
		return
	}
	r.name(name)
	r.null()
}

func (r *row) flag(name string, known, is bool) {
	if r.name(name); known {
		r.dst = strconv.AppendBool(r.dst, is)
	} else {
		r.null()
	}
}

func (r *row) time(name string, t time.Time) {
	switch r.name(name); {
	case !r.csv:
		r.dst = appendStamp(r.dst, t)
	case shownTime(t):
		r.dst = t.UTC().AppendFormat(r.dst, TimeLayout)
	}
}

func (r *row) id(name string, id uuid.UUID) {
	switch r.name(name); {
	case id == uuid.Nil:
		r.null()
	case r.csv:
		r.dst = append(r.dst, id.String()...)
	default:
		r.dst = appendID(r.dst, id)
	}
}

func (r *row) blob(name string, b []byte) {
	if r.name(name); r.csv {
		r.dst = appendCell(r.dst, csvBytes(b))
	} else {
		r.dst = appendBlob(r.dst, b)
	}
}

// number writes a number; nil is written as null.
func number[T ~int | ~int32 | ~int64](r *row, name string, n *T) {
	if r.name(name); n == nil {
		r.null()
	} else {
		r.dst = strconv.AppendInt(r.dst, int64(*n), 10)
	}
}

// largeIf returns the reason "too_large" if omitted is true, and "" otherwise.
func largeIf(omitted bool) string {
	if omitted {
		return TooLarge
	}
	return ""
}

// keySize returns the length of the key in bytes, nil for a null key.
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

// rootOf returns the first message of the lineage, which may be the message itself.
func rootOf(m *entity.Message) uuid.UUID {
	if m.Root == uuid.Nil {
		return m.ID
	}
	return m.Root
}

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
		Key: appendBlob(nil, c.shownKey), KeyOmitted: OrNull(largeIf(q.Record.KeyOmitted > 0)),
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
