package postgres

import (
	"encoding/json"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// storeArgs builds the arrays of a batch in the order of storeQuery's parameters. The driver appends them to a
// growing buffer: small before large saves copies of large values.
func (s *Store) storeArgs(in incoming) []any {
	columns, key, headers, value := messageArgs(in)
	args := make([]any, 0, 4+len(columns)+7+7)
	args = append(args, rangeArgs(in.Ranges)...)
	args = append(args, columns...)
	return append(args, s.clock(), key, headers, value, rawTimes(in.Messages), defects(in.Messages), pendingPayloads(in))
}

// rawTimes are the timestamps that are not valid dates, up to the last one: hardly any batch has one, and unnest
// fills a column that is too short with NULL.
func rawTimes(messages []entity.Message) []byte {
	n := len(messages)
	for n > 0 && messages[n-1].Source.RawTime == 0 {
		n--
	}
	raw := newColumn(oidInt8, n, 8)
	for i := range n {
		if at := messages[i].Source.RawTime; at != 0 {
			raw.int64(at)
		} else {
			raw.null()
		}
	}
	return raw.arg()
}

// defects are the missing parts of the messages' records, up to the last message that has one: unnest fills a column
// that is too short with NULL.
func defects(messages []entity.Message) []byte {
	n := len(messages)
	for n > 0 && defectOf(&messages[n-1].Record) == nil {
		n--
	}
	column := newColumn(oidText, n, 40)
	for i := range n {
		if text := defectOf(&messages[i].Record); text != nil {
			column.text(string(text))
		} else {
			column.null()
		}
	}
	return column.arg()
}

// defect is the JSON of the column defect.
type defect struct {
	Limit      string `json:"limit,omitempty"`
	Unreadable string `json:"unreadable,omitempty"`
	LastOffset int64  `json:"last_offset,omitempty"`
}

// defectOf is the JSON of a record's defect, nil when it has none.
func defectOf(r *entity.Record) []byte {
	d := defect{Limit: r.Limit, Unreadable: strings.ToValidUTF8(strings.ReplaceAll(r.Unreadable, "\x00", ""), "\uFFFD"), LastOffset: r.LastOffset}
	if d.Limit == "" && r.State != entity.ValueUnreadable {
		return nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil // cannot happen: it has only text and a number
	}
	return text
}

// noteDefect applies the column defect to a record, whose state may depend on it. A value that SQL wrote and that is
// not a defect is ignored.
func noteDefect(r *entity.Record, column []byte) {
	if column == nil {
		return
	}
	var d defect
	if json.Unmarshal(column, &d) != nil {
		return
	}
	r.Limit = d.Limit
	if d.Unreadable != "" {
		r.State, r.Unreadable, r.LastOffset = entity.ValueUnreadable, d.Unreadable, d.LastOffset
	}
}

// returnArgs are the additional parameters of storeReturnsQuery.
func returnArgs(in incoming) []any {
	n := len(in.back)
	children, attempts, redrives := newColumn(oidUUID, n, 16), newColumn(oidUUID, n, 16), newColumn(oidUUID, n, 16)
	byContent, claimed, confirmed := newColumn(oidBool, n, 1), newColumn(oidBool, n, 1), newColumn(oidBool, n, 1)
	for _, c := range in.back {
		children.uuid(in.Messages[c.message].ID)
		attempts.uuid(c.attempt)
		redrives.optionalUUID(c.redrive)
		byContent.bool(c.byContent)
		claimed.bool(c.claimed)
		confirmed.bool(c.confirmed)
	}
	return []any{
		children.arg(), attempts.arg(), redrives.arg(), byContent.arg(), claimed.arg(), confirmed.arg(), entity.ActorIngest,
	}
}

func rangeArgs(ranges []repository.Range) []any {
	n := len(ranges)
	incarnations, partitions := newColumn(oidInt4, n, 4), newColumn(oidInt4, n, 4)
	from, to := newColumn(oidInt8, n, 8), newColumn(oidInt8, n, 8)
	for _, r := range ranges {
		incarnations.int32(r.Incarnation)
		partitions.int32(r.Partition.Partition)
		from.int64(r.From)
		to.int64(r.To)
	}
	return []any{incarnations.arg(), partitions.arg(), from.arg(), to.arg()}
}

func messageArgs(in incoming) (columns []any, keys, headerLists, values any) {
	messages := in.Messages
	n := len(messages)
	size := func(of func(*entity.Message) int) int {
		total := 0
		for i := range messages {
			total += of(&messages[i])
		}
		return total/max(n, 1) + 1
	}
	var (
		id            = newColumn(oidUUID, n, 16)
		topic         = newColumn(oidText, n, size(func(m *entity.Message) int { return len(m.OriginalTopic) }))
		message       = newColumn(oidText, n, size(func(m *entity.Message) int { return len(m.ErrorMessage) }))
		retryCount    = newColumn(oidInt4, n, 4)
		maxRetries    = newColumn(oidInt4, n, 4)
		status        = newColumn(oidText, n, 8)
		key           = newColumn(oidBytea, n, size(func(m *entity.Message) int { return len(m.Record.Key) }))
		value         = newColumn(oidBytea, n, size(func(m *entity.Message) int { return valueBytes(in, m) }))
		headers       = newColumn(oidBytea, n, size(func(m *entity.Message) int { return packedSize(m.Record.Headers) }))
		note          = newColumn(oidText, n, 4)
		omittedSize   = newColumn(oidInt8, n, 4)
		omittedSHA    = newColumn(oidBytea, n, 4)
		dlqTopic      = newColumn(oidInt4, n, 4)
		incarnation   = newColumn(oidInt4, n, 4)
		partition     = newColumn(oidInt4, n, 4)
		offset        = newColumn(oidInt8, n, 8)
		timestamp     = newColumn(oidTimestamptz, n, 8)
		origPartition = newColumn(oidInt4, n, 4)
		origOffset    = newColumn(oidInt8, n, 8)
		origTimestamp = newColumn(oidTimestamptz, n, 8)
		confidence    = newColumn(oidText, n, 8)
		group         = newColumn(oidText, n, 24)
		attempts      = newColumn(oidInt4, n, 4)
		dialect       = newColumn(oidText, n, 16)
		class         = newColumn(oidText, n, 32)
		parent        = newColumn(oidUUID, n, 4)
		root          = newColumn(oidUUID, n, 4)
		hash          = newColumn(oidInt8, n, 8)
		errorGroup    = newColumn(oidUUID, n, 16)
	)
	for i := range messages {
		m := &messages[i]
		id.uuid(m.ID)
		topic.text(m.OriginalTopic)
		message.text(m.ErrorMessage)
		retryCount.int32(int32(m.RetryCount))
		maxRetries.int32(int32(m.MaxRetries))
		status.text(string(m.Status))
		key.bytes(m.Record.Key)
		if !in.large() {
			value.bytes(m.Record.Value)
		}
		headers.headers(m.Record.Headers)
		note.optionalText(in.notes[i])
		overLimit(m, omittedSize, omittedSHA)
		dlqTopic.int32(m.Source.TopicID)
		incarnation.int32(m.Source.Incarnation)
		partition.int32(m.Source.Partition)
		offset.int64(m.Source.Offset)
		timestamp.time(m.Source.Timestamp)
		origPartition.optionalInt32(m.Origin.Partition)
		origOffset.optionalInt64(m.Origin.Offset)
		origTimestamp.time(m.Origin.Timestamp)
		confidence.optionalText(string(m.Origin.Confidence))
		group.optionalText(m.Failure.ConsumerGroup)
		optionalInt(attempts, m.Failure.Attempts)
		dialect.optionalText(m.Failure.Dialect)
		class.optionalText(m.Failure.Class)
		parent.optionalUUID(m.Parent)
		root.optionalUUID(m.Root)
		optionalHash(hash, in.hashes[i])
		errorGroup.optionalUUID(m.Group)
	}
	columns = []any{
		id.arg(), topic.arg(), message.arg(), retryCount.arg(), maxRetries.arg(), status.arg(),
		note.arg(), omittedSize.arg(), omittedSHA.arg(),
		dlqTopic.arg(), incarnation.arg(), partition.arg(), offset.arg(), timestamp.arg(),
		origPartition.arg(), origOffset.arg(), origTimestamp.arg(), confidence.arg(),
		group.arg(), attempts.arg(), dialect.arg(), class.arg(), parent.arg(), root.arg(),
		hash.arg(), errorGroup.arg(),
	}
	if in.large() {
		return columns, key.arg(), headers.arg(), messages[0].Record.Value
	}
	return columns, key.arg(), headers.arg(), value.arg()
}

// valueBytes is the size of a message's value in the array of values.
func valueBytes(in incoming, m *entity.Message) int {
	if in.large() {
		return 0
	}
	return len(m.Record.Value)
}

func overLimit(m *entity.Message, size, sha *column) {
	if m.Record.State != entity.ValueOverLimit {
		size.null()
		sha.null()
		return
	}
	size.int64(m.Record.Size)
	sha.bytes(m.Record.SHA256)
}

func optionalHash(c *column, hash int64) {
	if hash == 0 {
		c.null()
		return
	}
	c.int64(hash)
}

func optionalInt(c *column, v *int) {
	if v == nil {
		c.null()
		return
	}
	c.int32(int32(*v))
}
