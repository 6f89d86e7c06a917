package ingest

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// storeArgs returns the arguments of storeQuery for a batch: arrays in the order of the query's parameters. Small
// arrays come before large ones, because the driver appends all arrays to one buffer, which is copied each time it
// grows.
func storeArgs(in incoming, clock any) []any {
	columns, key, headers, value := messageArgs(in)
	args := make([]any, 0, 4+len(columns)+7+7)
	args = append(args, rangeArgs(in.Ranges)...)
	args = append(args, columns...)
	return append(args, clock, key, headers, value, rawTimes(in.Messages), defects(in.Messages), pendingPayloads(in))
}

// rawTimes returns, for each message, the timestamp of its record in milliseconds when this is not a valid date,
// otherwise NULL. The array ends with the last such timestamp, so it is empty for nearly all batches; unnest fills the
// rest of the column with NULL.
func rawTimes(messages []entity.Message) []byte {
	n := len(messages)
	for n > 0 && messages[n-1].Source.RawTime == 0 {
		n--
	}
	raw := codec.NewArray(codec.OIDInt8, n, 8)
	for i := range n {
		if at := messages[i].Source.RawTime; at != 0 {
			raw.Int64(at)
		} else {
			raw.Null()
		}
	}
	return raw.Arg()
}

// defects returns, for each message, the JSON that codec.DefectOf returns for its record, or NULL. The array ends with
// the last record that has such a JSON; unnest fills the rest of the column with NULL.
func defects(messages []entity.Message) []byte {
	n := len(messages)
	for n > 0 && codec.DefectOf(&messages[n-1].Record) == nil {
		n--
	}
	column := codec.NewArray(codec.OIDText, n, 40)
	for i := range n {
		if text := codec.DefectOf(&messages[i].Record); text != nil {
			column.Text(string(text))
		} else {
			column.Null()
		}
	}
	return column.Arg()
}

// returnArgs returns the parameters that storeReturnsQuery has in addition to those of storeQuery.
func returnArgs(in incoming) []any {
	n := len(in.back)
	children, attempts, redrives := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16)
	byContent, claimed, confirmed := codec.NewArray(codec.OIDBool, n, 1), codec.NewArray(codec.OIDBool, n, 1), codec.NewArray(codec.OIDBool, n, 1)
	for _, c := range in.back {
		children.UUID(in.Messages[c.message].ID)
		attempts.UUID(c.attempt)
		redrives.OptionalUUID(c.redrive)
		byContent.Bool(c.byContent)
		claimed.Bool(c.claimed)
		confirmed.Bool(c.confirmed)
	}
	return []any{
		children.Arg(), attempts.Arg(), redrives.Arg(), byContent.Arg(), claimed.Arg(), confirmed.Arg(), entity.ActorIngest,
	}
}

func rangeArgs(ranges []repository.Range) []any {
	n := len(ranges)
	incarnations, partitions := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt4, n, 4)
	from, to := codec.NewArray(codec.OIDInt8, n, 8), codec.NewArray(codec.OIDInt8, n, 8)
	for _, r := range ranges {
		incarnations.Int32(r.Incarnation)
		partitions.Int32(r.Partition.Partition)
		from.Int64(r.From)
		to.Int64(r.To)
	}
	return []any{incarnations.Arg(), partitions.Arg(), from.Arg(), to.Arg()}
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
		id            = codec.NewArray(codec.OIDUUID, n, 16)
		topic         = codec.NewArray(codec.OIDText, n, size(func(m *entity.Message) int { return len(m.OriginalTopic) }))
		message       = codec.NewArray(codec.OIDText, n, size(func(m *entity.Message) int { return len(m.ErrorMessage) }))
		retryCount    = codec.NewArray(codec.OIDInt4, n, 4)
		maxRetries    = codec.NewArray(codec.OIDInt4, n, 4)
		status        = codec.NewArray(codec.OIDText, n, 8)
		key           = codec.NewArray(codec.OIDBytea, n, size(func(m *entity.Message) int { return len(m.Record.Key) }))
		value         = codec.NewArray(codec.OIDBytea, n, size(func(m *entity.Message) int { return valueBytes(in, m) }))
		headers       = codec.NewArray(codec.OIDBytea, n, size(func(m *entity.Message) int { return codec.PackedSize(m.Record.Headers) }))
		note          = codec.NewArray(codec.OIDText, n, 4)
		omittedSize   = codec.NewArray(codec.OIDInt8, n, 4)
		omittedSHA    = codec.NewArray(codec.OIDBytea, n, 4)
		dlqTopic      = codec.NewArray(codec.OIDInt4, n, 4)
		incarnation   = codec.NewArray(codec.OIDInt4, n, 4)
		partition     = codec.NewArray(codec.OIDInt4, n, 4)
		offset        = codec.NewArray(codec.OIDInt8, n, 8)
		timestamp     = codec.NewArray(codec.OIDTimestamptz, n, 8)
		origPartition = codec.NewArray(codec.OIDInt4, n, 4)
		origOffset    = codec.NewArray(codec.OIDInt8, n, 8)
		origTimestamp = codec.NewArray(codec.OIDTimestamptz, n, 8)
		confidence    = codec.NewArray(codec.OIDText, n, 8)
		group         = codec.NewArray(codec.OIDText, n, 24)
		attempts      = codec.NewArray(codec.OIDInt4, n, 4)
		dialect       = codec.NewArray(codec.OIDText, n, 16)
		class         = codec.NewArray(codec.OIDText, n, 32)
		parent        = codec.NewArray(codec.OIDUUID, n, 4)
		root          = codec.NewArray(codec.OIDUUID, n, 4)
		hash          = codec.NewArray(codec.OIDInt8, n, 8)
		errorGroup    = codec.NewArray(codec.OIDUUID, n, 16)
	)
	for i := range messages {
		m := &messages[i]
		id.UUID(m.ID)
		topic.Text(m.OriginalTopic)
		message.Text(m.ErrorMessage)
		retryCount.Int32(int32(m.RetryCount))
		maxRetries.Int32(int32(m.MaxRetries))
		status.Text(string(m.Status))
		key.Bytes(m.Record.Key)
		if !in.large() {
			value.Bytes(m.Record.Value)
		}
		headers.Headers(m.Record.Headers)
		note.OptionalText(in.notes[i])
		overLimit(m, omittedSize, omittedSHA)
		dlqTopic.Int32(m.Source.TopicID)
		incarnation.Int32(m.Source.Incarnation)
		partition.Int32(m.Source.Partition)
		offset.Int64(m.Source.Offset)
		timestamp.Time(m.Source.Timestamp)
		origPartition.OptionalInt32(m.Origin.Partition)
		origOffset.OptionalInt64(m.Origin.Offset)
		origTimestamp.Time(m.Origin.Timestamp)
		confidence.OptionalText(string(m.Origin.Confidence))
		group.OptionalText(m.Failure.ConsumerGroup)
		optionalInt(attempts, m.Failure.Attempts)
		dialect.OptionalText(m.Failure.Dialect)
		class.OptionalText(m.Failure.Class)
		parent.OptionalUUID(m.Parent)
		root.OptionalUUID(m.Root)
		optionalHash(hash, in.hashes[i])
		errorGroup.OptionalUUID(m.Group)
	}
	columns = []any{
		id.Arg(), topic.Arg(), message.Arg(), retryCount.Arg(), maxRetries.Arg(), status.Arg(),
		note.Arg(), omittedSize.Arg(), omittedSHA.Arg(),
		dlqTopic.Arg(), incarnation.Arg(), partition.Arg(), offset.Arg(), timestamp.Arg(),
		origPartition.Arg(), origOffset.Arg(), origTimestamp.Arg(), confidence.Arg(),
		group.Arg(), attempts.Arg(), dialect.Arg(), class.Arg(), parent.Arg(), root.Arg(),
		hash.Arg(), errorGroup.Arg(),
	}
	if in.large() {
		return columns, key.Arg(), headers.Arg(), messages[0].Record.Value
	}
	return columns, key.Arg(), headers.Arg(), value.Arg()
}

// valueBytes returns the number of bytes that a message's value uses in the array of values.
func valueBytes(in incoming, m *entity.Message) int {
	if in.large() {
		return 0
	}
	return len(m.Record.Value)
}

func overLimit(m *entity.Message, size, sha *codec.Array) {
	if m.Record.State != entity.ValueOverLimit {
		size.Null()
		sha.Null()
		return
	}
	size.Int64(m.Record.Size)
	sha.Bytes(m.Record.SHA256)
}

func optionalHash(c *codec.Array, hash int64) {
	if hash == 0 {
		c.Null()
		return
	}
	c.Int64(hash)
}

func optionalInt(c *codec.Array, v *int) {
	if v == nil {
		c.Null()
		return
	}
	c.Int32(int32(*v))
}
