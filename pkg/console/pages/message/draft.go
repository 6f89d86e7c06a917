package message

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// maxEdited is the size in bytes of the largest payload that can be edited. By default, the API accepts no larger
// request body.
const maxEdited = 1 << 20

// payloadMark marks the position of a JSON payload in a request. No other text in the request can look like it, because
// its quotes would be escaped.
const payloadMark = "\x00payload"

type value struct {
	As   string // text, base64, null, keep, json, or remove
	Text string
}

const (
	asText   = "text"
	asBase64 = "base64"
	asNull   = "null"
	asKeep   = "keep"   // the record's own value is sent; the form may show it masked
	asJSON   = "json"   // the user edits JSON, which is encoded with a schema
	asRemove = "remove" // the header is not sent
	// the header's name cannot be written in an edit: the header is sent only if no other header is changed.
	asLost = "lost"
)

type editHeader struct {
	value
	Name string
	Own  int // number of the message's header that the row edits, from 1; 0: a new header
}

// Locked reports whether the name cannot be edited, because a form field would change its characters.
func (h editHeader) Locked() bool {
	return h.Own > 0 && (h.As == asLost || strings.TrimSpace(h.Name) == "" || writable([]byte(h.Name), false).As != asText)
}

func (h editHeader) Shown() string {
	return format.Visible(strings.ReplaceAll(format.Clip(200, h.Name), "\n", `\n`))
}

type draft struct {
	Topic     string
	Schema    string // "latest", or "" for the schema of the record
	Payload   value
	Key       value
	Headers   []editHeader
	NotJSON   bool // send the payload although it is not JSON
	Duplicate bool
	Envelope  bool
	Reason    string
}

const freshRows = 2 // empty rows that follow the headers

func draftOf(m *api.Message, raw []byte) draft {
	d := draft{Topic: m.OriginalTopic, Payload: writable(raw, true), Key: blobValue(m.Key)}
	if m.PayloadEncoding() != "" && m.JSONPayload() != nil {
		d.Payload = value{asJSON, toEdit(m)}
	}
	if decoded := m.DecodedKey(); decoded != nil {
		d.Key = value{asJSON, string(decoded)}
	}
	// the answer contains only the first headers: an edit that lists them would remove the others
	if m.HeadersOmitted != "" {
		return d
	}
	for i, h := range m.Headers {
		row := editHeader{value: blobValue(h.Value), Name: h.Key, Own: i + 1}
		switch {
		case marksDeadLetter(h.Key, m):
			row.As = asRemove
		case h.KeyBase64 != "":
			row.value = value{As: asLost}
		case m.Masks(h):
			row.value = value{As: asKeep}
		}
		d.Headers = append(d.Headers, row)
	}
	return d
}

// toEdit returns a decoded payload as formatted JSON. If the record itself has JSON text, or the formatted text would
// be too long, toEdit returns the JSON unchanged.
func toEdit(m *api.Message) string {
	raw := m.JSONPayload()
	if text, used, ok := format.JSON(raw, maxEdited); ok && used == len(raw) && m.PayloadFormat != "json_schema" {
		return text
	}
	return string(raw)
}

func blobValue(b *api.Blob) value { return writable(b.Bytes(), false) }

// writable returns bytes for a form field: as text, or in base64 if the field would change the text.
func writable(raw []byte, lines bool) value {
	if raw == nil {
		return value{As: asNull}
	}
	odd := func(r rune) bool {
		return (r < ' ' || r == 0x7f) && !(lines && (r == '\n' || r == '\t' || r == '\r'))
	}
	if text := string(raw); utf8.Valid(raw) && strings.IndexFunc(text, odd) < 0 && !loneReturn(text) {
		return value{asText, text}
	}
	return value{asBase64, base64.StdEncoding.EncodeToString(raw)}
}

// loneReturn reports whether a browser would change the line breaks of the text: it has a carriage return without a
// line feed, or both kinds of line breaks.
func loneReturn(text string) bool {
	pairs := strings.Count(text, "\r\n")
	return strings.Count(text, "\r") != pairs || pairs > 0 && strings.Count(text, "\n") != pairs
}

// deadLetterMarks are prefixes of headers that make a record a dead letter. The API knows further prefixes, and rejects
// headers that have them.
var deadLetterMarks = []string{
	"kafka_dlt-", "kafka_original-", "kafka_exception-", "__connect.errors.", "__streams.errors.", "x-dlq-", "dlq-", "dlq_", "dead-letter-",
	"x-dead-letter-", "x-death", "x-original-", "x-exception-", "reason_poisoned", "topic_poisoned", "handler_poisoned", "subscriber_poisoned",
}

func marksDeadLetter(name string, m *api.Message) bool {
	if removed := slices.Contains(m.ReplayRemoves, name); removed || slices.Contains(m.ReplayKeeps, name) {
		return removed
	}
	for _, d := range m.Derived {
		if d.Header != "" && strings.EqualFold(d.Header, name) {
			return true
		}
	}
	return slices.ContainsFunc(deadLetterMarks, func(mark string) bool { return strings.HasPrefix(strings.ToLower(name), mark) })
}

// readDraft reads a form. Names of headers that a form field cannot hold are taken from the message.
func readDraft(r *http.Request, was draft) draft {
	d := draft{
		Topic:     request.Text(r, "topic"),
		Schema:    request.Text(r, "schema"),
		Payload:   value{cmp.Or(request.Text(r, "payload_as"), asText), oneBreak(r.PostFormValue("payload"))},
		Key:       value{cmp.Or(request.Text(r, "key_as"), asText), r.PostFormValue("record_key")},
		NotJSON:   request.Text(r, "not_json") != "",
		Duplicate: request.Text(r, "accept_duplicate") != "",
		Envelope:  request.Text(r, "accept_envelope") != "",
		Reason:    request.Text(r, "reason"),
	}
	names, as, values, own := r.PostForm["header_name"], r.PostForm["header_as"], r.PostForm["header_value"], r.PostForm["header_own"]
	for i := range min(len(names), len(as), len(values), len(own)) {
		row := editHeader{value: value{as[i], values[i]}, Name: names[i]}
		if n, err := strconv.Atoi(own[i]); err == nil && n > 0 && n <= len(was.Headers) {
			row = row.of(was.Headers[n-1])
		}
		if row.Own > 0 || strings.TrimSpace(row.Name) != "" {
			d.Headers = append(d.Headers, row)
		}
	}
	return d
}

// of merges a row of the form with the message's header. A header whose name the user has emptied is not sent.
func (h editHeader) of(was editHeader) editHeader {
	h.Own = was.Own
	switch {
	case was.As == asLost:
		return was
	case was.Locked():
		h.Name = was.Name
	case strings.TrimSpace(h.Name) == "":
		return editHeader{value: value{As: asRemove, Text: h.Text}, Name: was.Name, Own: was.Own}
	}
	return h
}

// written reports whether the edit sends the text that the user has typed for this value.
func (v value) written() bool { return v.As == asText || v.As == asJSON }

// settle decides what is sent when a field contains typed text and the user has also chosen to send no value, or the
// record's own value. It uses the input that the user has changed.
func (d *draft) settle(was draft) {
	d.Payload, d.Key = d.Payload.settled(was.Payload), d.Key.settled(was.Key)
	for i := range d.Headers {
		d.Headers[i].value = d.Headers[i].settled(value{As: d.Headers[i].As})
	}
}

func (v value) settled(was value) value {
	switch {
	case v.As == asKeep && v.Text != "", v.As == asNull && was.As == asNull && v.Text != "":
		v.As = asText
	case v.As == asNull || v.As == asKeep:
		v.Text = ""
	}
	return v
}

// oneBreak replaces the CR LF that browsers send as line break by LF.
func oneBreak(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// bytes returns the bytes that the user's input stands for; nil means null.
func (v value) bytes() ([]byte, error) {
	switch v.As {
	case asNull:
		return nil, nil
	case asBase64:
		return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(v.Text), ""))
	default:
		return []byte(v.Text), nil
	}
}

// order returns the edit for the API, without the parts that did not change, and the problems of the fields.
func (d draft) order(was draft) (edit map[string]any, problems []view.FieldProblem) {
	edit = map[string]any{}
	if d.Topic != "" && d.Topic != was.Topic {
		edit["target_topic"] = d.Topic
	}
	if raw, err := d.payload(was).bytes(); err != nil {
		problems = append(problems, view.FieldProblem{Field: "payload", Reason: "must be base64"})
	} else if d.payloadChanged(was) && len(raw) > maxEdited {
		problems = append(problems, view.FieldProblem{Field: "payload", Reason: "must have at most 1 MiB"})
	} else if d.json(was) != "" {
		edit["payload"] = payloadMark
	} else if d.payloadChanged(was) && d.Payload.As == asJSON {
		problems = append(problems, view.FieldProblem{Field: "payload", Reason: "must be JSON, which is encoded with the schema"})
	} else if d.payloadChanged(was) {
		put(edit, "payload", raw, "payload_null", true)
	}
	if raw, err := d.Key.bytes(); err != nil {
		problems = append(problems, view.FieldProblem{Field: "key", Reason: "must be base64"})
	} else if d.Key.As == asJSON {
		if !json.Valid(raw) {
			problems = append(problems, view.FieldProblem{Field: "key", Reason: "must be JSON, which is encoded with the schema"})
		} else if d.Key != was.Key || d.Schema != "" {
			edit["key_json"] = json.RawMessage(raw)
		}
	} else if d.Key != was.Key {
		put(edit, "key", raw, "key", nil)
	}
	if d.Schema != "" && (edit["payload"] != nil || edit["key_json"] != nil) {
		edit["schema"] = d.Schema
	}
	if d.headersChanged(was) {
		list, wrong := d.headerList()
		edit["headers"], problems = list, append(problems, wrong...)
	}
	return edit, problems
}

// payload returns the text of the form, with CR LF line breaks if the original payload had them.
func (d draft) payload(was draft) value {
	v := d.Payload
	if v.As == asText && strings.Contains(was.Payload.Text, "\r\n") {
		v.Text = strings.ReplaceAll(v.Text, "\n", "\r\n")
	}
	return v
}

func (d draft) payloadChanged(was draft) bool { return d.payload(was) != was.Payload }

// json returns the payload if it is valid JSON and the user has changed it or chosen another schema; else "".
func (d draft) json(was draft) string {
	v := d.payload(was)
	again := v.As == asJSON && d.Schema != ""
	if !d.payloadChanged(was) && !again || !v.written() || checkJSON(v.Text) != nil {
		return ""
	}
	return v.Text
}

// put adds raw to the edit as base64, under name with the suffix _base64. If raw is nil, it sets the member named by
// the parameter null to the value in the parameter is.
func put(edit map[string]any, name string, raw []byte, null string, is any) {
	if raw == nil {
		edit[null] = is
		return
	}
	edit[name+"_base64"] = base64.StdEncoding.EncodeToString(raw)
}

// headersChanged reports whether the headers that d sends differ from the headers that was sends.
func (d draft) headersChanged(was draft) bool {
	return !slices.EqualFunc(d.sent(), was.sent(), func(a, b editHeader) bool { return a.Name == b.Name && a.value == b.value })
}

func (d draft) sent() []editHeader {
	unsent := func(h editHeader) bool { return h.As == asRemove || h.As == asLost }
	return slices.DeleteFunc(slices.Clone(d.Headers), unsent)
}

// Sending returns the number of headers that are sent.
func (d draft) Sending() int64 { return int64(len(d.sent())) }

func (d draft) Removed() int64 { return d.count(asRemove) }

func (d draft) Lost() int64 { return d.count(asLost) }

func (d draft) count(as string) (n int64) {
	for _, h := range d.Headers {
		if h.As == as {
			n++
		}
	}
	return n
}

func (d draft) headerList() (list []map[string]any, problems []view.FieldProblem) {
	list = []map[string]any{}
	kept := map[string]bool{}
	for _, h := range d.sent() {
		one := map[string]any{"key": h.Name}
		switch h.As {
		case asKeep:
			if kept[h.Name] {
				continue // the API needs only one entry to keep all headers with this name
			}
			kept[h.Name], one["keep"] = true, true
		case asNull:
			one["value"] = nil
		default:
			raw, err := h.bytes()
			if err != nil {
				problems = append(problems, view.FieldProblem{Field: "header " + h.Name, Reason: "must be base64"})
			}
			one["value_base64"] = base64.StdEncoding.EncodeToString(raw)
		}
		list = append(list, one)
	}
	return list, problems
}

// checked identifies the draft that was checked, because any other draft must be checked before it is sent.
func (d draft) checked() string {
	d.Reason, d.Duplicate, d.Envelope, d.NotJSON = "", false, false, false
	raw, _ := json.Marshal(d)
	return format.Digest(string(raw))
}

type jsonProblem struct {
	Line, Column int
	What         string
	Excerpt      string
}

func checkJSON(text string) *jsonProblem {
	raw := []byte(text)
	if json.Valid(raw) {
		return nil
	}
	err := json.Unmarshal(raw, new(json.RawMessage))
	offset, what := len(text), err.Error()
	if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // encoding/json returns it unwrapped
		offset = min(int(syntax.Offset), len(text))
		if offset > 0 && !strings.HasPrefix(what, "unexpected end") {
			offset-- // the decoder's offset is one byte after the wrong character
		}
	}
	before := text[:offset]
	line := strings.Count(before, "\n") + 1
	start := strings.LastIndexByte(before, '\n') + 1
	excerpt, _, _ := strings.Cut(text[start:], "\n")
	return &jsonProblem{line, utf8.RuneCountInString(before[start:]) + 1, what, format.Visible(format.Beginning(160, excerpt))}
}
