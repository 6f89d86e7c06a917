package rest

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// csvHead is the line with the names of the columns, in the order in which a
// message has them in JSON.
const csvHead = "id,original_topic,error_message,retry_count,max_retries,payload,status,created_at,updated_at,last_retry_at," +
	"dlq_topic,dlq_partition,dlq_offset,dlq_timestamp,dlq_timestamp_ms,original_partition,original_offset,original_timestamp," +
	"consumer_group,error_class,stack_trace,consumer_attempts,dialect,origin_confidence,undeclared,undeclared_reason,group_id,parent_id,return_confirmed,root_id," +
	"outcome,outcome_group,outcome_offset,next_attempt_at,finished_at,last_publish_error,last_publish_error_class," +
	"key,key_omitted,key_size,headers,headers_omitted,payload_omitted,payload_size,payload_url,limit_exceeded,unreadable_reason,last_offset,masked\n"

// appendCSV writes a message as one line. What is null is empty. Bytes that are
// not UTF-8 stand in base64 behind "base64:"; headers are JSON.
func (c *shown) appendCSV(dst []byte) []byte {
	dst = append(dst, c.ID.String()...)
	dst = cell(dst, c.OriginalTopic)
	dst = cell(dst, c.ErrorMessage)
	dst = cellInt(dst, &c.RetryCount)
	dst = cellInt(dst, &c.MaxRetries)
	dst = cell(dst, string(c.payload))
	dst = cell(dst, c.Status.String())
	dst = cellTime(dst, c.CreatedAt)
	dst = cellTime(dst, c.UpdatedAt)
	dst = cellTime(dst, c.LastRetryAt)
	dst = c.cellsOfPlaces(dst)
	dst = cell(dst, c.Failure.ConsumerGroup)
	dst = cell(dst, c.Failure.Class)
	dst = cell(dst, c.stackTrace)
	dst = cellInt(dst, c.Failure.Attempts)
	dst = cell(dst, c.Failure.Dialect)
	dst = cell(dst, string(c.Origin.Confidence))
	dst = cell(dst, strconv.FormatBool(c.undeclared != ""))
	dst = cell(dst, c.undeclared)
	dst = c.cellsOfLife(dst)
	dst = cell(dst, csvBytes(c.Record.Key))
	dst = cell(dst, keyOmitted(c.Record))
	dst = cellInt(dst, keySize(c.Record))
	dst = cell(dst, c.csvHeaders())
	dst = cell(dst, headersOmitted(c.Record))
	dst = cell(dst, c.omitted)
	dst = cellInt(dst, c.size)
	dst = cell(dst, c.url)
	dst = cell(dst, c.Record.Limit)
	dst = cell(dst, c.Record.Unreadable)
	dst = cellInt(dst, c.lastOffset())
	dst = cell(dst, strings.Join(c.masked, " "))
	return append(dst, '\n')
}

func (c *shown) cellsOfPlaces(dst []byte) []byte {
	var partition *int32
	var offset *int64
	if c.Source.Known() {
		partition, offset = &c.Source.Partition, &c.Source.Offset
	}
	dst = cell(dst, c.Source.Topic)
	dst = cellInt(dst, partition)
	dst = cellInt(dst, offset)
	dst = cellTime(dst, c.Source.Timestamp)
	dst = cellInt(dst, orNull(c.Source.RawTime))
	dst = cellInt(dst, c.Origin.Partition)
	dst = cellInt(dst, c.Origin.Offset)
	return cellTime(dst, c.Origin.Timestamp)
}

// csvReturn is return_confirmed; empty for a message that did not come back.
func (c *shown) csvReturn() string {
	if c.Parent == uuid.Nil {
		return ""
	}
	return strconv.FormatBool(!c.UnconfirmedReturn)
}

func (c *shown) cellsOfLife(dst []byte) []byte {
	dst = cellID(dst, c.Group)
	dst = cellID(dst, c.Parent)
	dst = cell(dst, c.csvReturn())
	dst = cellID(dst, rootOf(c.Message))
	dst = cell(dst, string(c.Outcome))
	var group string
	var offset *int64
	if c.Consumption != nil {
		group, offset = c.Consumption.Group, &c.Consumption.Offset
	}
	dst = cell(dst, group)
	dst = cellInt(dst, offset)
	dst = cellTime(dst, c.NextAttemptAt)
	dst = cellTime(dst, c.FinishedAt())
	dst = cell(dst, c.LastPublishError)
	return cell(dst, string(c.LastPublishErrorClass))
}

func (c *shown) csvHeaders() string {
	if len(c.Record.Headers) == 0 {
		return ""
	}
	return string(c.appendHeaders(nil))
}

func csvBytes(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// cell writes text behind a comma. A text that a spreadsheet would take for a
// formula gets an apostrophe in front: whoever writes to a topic must not have
// formulas run at whoever opens the file.
func cell(dst []byte, text string) []byte {
	dst = append(dst, ',')
	if text == "" {
		return dst
	}
	dangerous := formula(text)
	if !dangerous && !strings.ContainsAny(text, "\",;\t\r\n ") && utf8.ValidString(text) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	if dangerous {
		dst = append(dst, '\'')
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	for {
		before, after, found := strings.Cut(text, `"`)
		dst = append(dst, before...)
		if !found {
			return append(dst, '"')
		}
		dst = append(dst, '"', '"')
		text = after
	}
}

// formula reports whether a spreadsheet might compute the text. Some of them skip
// spaces and marks that nobody sees, and know the wide forms of the signs.
func formula(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	if first == '\t' || first == '\r' || first == '\n' {
		return true
	}
	if first > ' ' && first < 0x80 {
		return strings.ContainsRune("=+-@", first)
	}
	text = strings.TrimLeftFunc(text, func(c rune) bool { return c <= ' ' || c == 0xa0 || escapedMark(c) })
	first, _ = utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune("=+-@＝＋－＠", first)
}

func cellInt[T ~int | ~int32 | ~int64](dst []byte, n *T) []byte {
	dst = append(dst, ',')
	if n == nil {
		return dst
	}
	return strconv.AppendInt(dst, int64(*n), 10)
}

func cellTime(dst []byte, t time.Time) []byte {
	dst = append(dst, ',')
	if !shownTime(t) {
		return dst
	}
	return t.UTC().AppendFormat(dst, timeLayout)
}

func cellID(dst []byte, id uuid.UUID) []byte {
	dst = append(dst, ',')
	if id == uuid.Nil {
		return dst
	}
	return append(dst, id.String()...)
}
