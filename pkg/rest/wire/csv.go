package wire

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// CSVHead is the line of column names, in the order of a message's JSON members.
const CSVHead = "id,original_topic,error_message,retry_count,max_retries,payload,status,created_at,updated_at,last_retry_at," +
	"dlq_topic,dlq_partition,dlq_offset,dlq_timestamp,dlq_timestamp_ms,original_partition,original_offset,original_timestamp," +
	"consumer_group,error_class,stack_trace,consumer_attempts,dialect,origin_confidence,undeclared,undeclared_reason,duplicates,repeats,repeat_of,source_gone,completion,completion_reason,group_id,parent_id,return_confirmed,root_id," +
	"outcome,outcome_group,outcome_offset,next_attempt_at,finished_at,last_publish_error,last_publish_error_class," +
	"key,key_omitted,key_size,key_json,key_format,key_schema,headers,headers_omitted,payload_omitted,payload_size,payload_url,payload_format,payload_schema,payload_reason,limit_exceeded,unreadable_reason,last_offset,cause,masked\n"

func csvBytes(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// appendCell appends a text as a cell. If a spreadsheet would read the text as a formula, it puts an apostrophe in
// front, so that a record cannot run formulas on the machine that opens the file.
func appendCell(dst []byte, text string) []byte {
	if text == "" {
		return dst
	}
	dangerous := Formula(text)
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

// Formula reports whether a spreadsheet might execute the text as a formula. Some spreadsheets skip spaces and
// invisible characters, and accept full-width operators.
func Formula(text string) bool {
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
