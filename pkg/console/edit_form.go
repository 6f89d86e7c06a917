package console

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type value struct {
	As   string // text, base64, null, keep, or remove
	Text string
}

const (
	asText   = "text"
	asBase64 = "base64"
	asNull   = "null"
	asKeep   = "keep"   // the record's own, which may be masked
	asRemove = "remove" // of a header: it is not sent
	asLost   = "lost"   // no edit can say its name: it goes along while no other header is changed
)

type editHeader struct {
	value
	Name string
	Own  int // which of the message's headers it is, from 1; 0: none of them
}

// Locked reports whether its name stands in no field of a form without being changed.
func (h editHeader) Locked() bool {
	return h.Own > 0 && (h.As == asLost || strings.TrimSpace(h.Name) == "" || writable([]byte(h.Name), false).As != asText)
}

func (h editHeader) Shown() string { return visible(strings.ReplaceAll(clip(200, h.Name), "\n", `\n`)) }

type draft struct {
	Topic     string
	Payload   value
	Key       value
	Headers   []editHeader
	NotJSON   bool // it is sent although it is not JSON
	Duplicate bool
	Reason    string
}

const freshRows = 2 // empty rows below the headers

func draftOf(m *message, raw []byte) draft {
	d := draft{Topic: m.OriginalTopic, Payload: writable(raw, true), Key: blobValue(m.Key)}
	if m.HeadersOmitted != "" { // those that stand here would take the place of all
		return d
	}
	for i, h := range m.Headers {
		row := editHeader{value: blobValue(h.Value), Name: h.Key, Own: i + 1}
		switch {
		case marksDeadLetter(h.Key, m):
			row.As = asRemove
		case h.KeyBase64 != "":
			row.value = value{As: asLost}
		case m.masks(h):
			row.value = value{As: asKeep}
		}
		d.Headers = append(d.Headers, row)
	}
	return d
}

func blobValue(b *blob) value { return writable(b.bytes(), false) }

// writable is bytes for a field of a form, as base64 when the field would change them.
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

// loneReturn reports whether browsers would change a text's returns: single ones, and pairs among single line feeds.
func loneReturn(text string) bool {
	pairs := strings.Count(text, "\r\n")
	return strings.Count(text, "\r") != pairs || pairs > 0 && strings.Count(text, "\n") != pairs
}

// deadLetterMarks are prefixes of headers that mark dead letters: without them a record is a record again. The API
// knows more, and refuses those.
var deadLetterMarks = []string{
	"kafka_dlt-", "kafka_original-", "kafka_exception-", "__connect.errors.", "__streams.errors.", "x-dlq-", "dlq-", "dlq_", "dead-letter-",
	"x-dead-letter-", "x-death", "x-original-", "x-exception-", "reason_poisoned", "topic_poisoned", "handler_poisoned", "subscriber_poisoned",
}

func marksDeadLetter(name string, m *message) bool {
	for _, d := range m.Derived {
		if d.Header != "" && strings.EqualFold(d.Header, name) {
			return true
		}
	}
	return slices.ContainsFunc(deadLetterMarks, func(mark string) bool { return strings.HasPrefix(strings.ToLower(name), mark) })
}

// readDraft reads a form. Names that no field can hold are those of the message.
func readDraft(r *http.Request, was draft) draft {
	d := draft{
		Topic:     text(r, "topic"),
		Payload:   value{cmp.Or(text(r, "payload_as"), asText), oneBreak(r.PostFormValue("payload"))},
		Key:       value{cmp.Or(text(r, "key_as"), asText), r.PostFormValue("record_key")},
		NotJSON:   text(r, "not_json") != "",
		Duplicate: text(r, "accept_duplicate") != "",
		Reason:    text(r, "reason"),
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

// of is a row of a form for a header of the message. One whose name was emptied is not sent.
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

// settle decides between a text and the mark that there is none: the one that was changed wins.
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

// oneBreak undoes what browsers do to line breaks.
func oneBreak(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// bytes returns what a value stands for; nil is null.
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

// order is the edit for the API, without what did not change, and what is wrong with it.
func (d draft) order(was draft) (edit map[string]any, problems []fieldProblem) {
	edit = map[string]any{}
	if d.Topic != "" && d.Topic != was.Topic {
		edit["target_topic"] = d.Topic
	}
	if raw, err := d.payload(was).bytes(); err != nil {
		problems = append(problems, fieldProblem{"payload", "must be base64"})
	} else if d.payloadChanged(was) && len(raw) > maxEdited {
		problems = append(problems, fieldProblem{"payload", "must have at most 1 MiB"})
	} else if d.json(was) != "" {
		edit["payload"] = payloadHere
	} else if d.payloadChanged(was) {
		put(edit, "payload", raw, "payload_null", true)
	}
	if raw, err := d.Key.bytes(); err != nil {
		problems = append(problems, fieldProblem{"key", "must be base64"})
	} else if d.Key != was.Key {
		put(edit, "key", raw, "key", nil)
	}
	if d.headersChanged(was) {
		list, wrong := d.headerList()
		edit["headers"], problems = list, append(problems, wrong...)
	}
	return edit, problems
}

// payload is the text of the form, with line breaks of two characters if the payload had them.
func (d draft) payload(was draft) value {
	v := d.Payload
	if v.As == asText && strings.Contains(was.Payload.Text, "\r\n") {
		v.Text = strings.ReplaceAll(v.Text, "\n", "\r\n")
	}
	return v
}

func (d draft) payloadChanged(was draft) bool { return d.payload(was) != was.Payload }

// json is the payload when it was changed and is JSON, else "".
func (d draft) json(was draft) string {
	v := d.payload(was)
	if !d.payloadChanged(was) || v.As != asText || checkJSON(v.Text) != nil {
		return ""
	}
	return v.Text
}

// put writes bytes as base64; null is another member.
func put(edit map[string]any, name string, raw []byte, null string, is any) {
	if raw == nil {
		edit[null] = is
		return
	}
	edit[name+"_base64"] = base64.StdEncoding.EncodeToString(raw)
}

// headersChanged leaves out rows that are never sent.
func (d draft) headersChanged(was draft) bool {
	return !slices.EqualFunc(d.sent(), was.sent(), func(a, b editHeader) bool { return a.Name == b.Name && a.value == b.value })
}

func (d draft) sent() []editHeader {
	unsent := func(h editHeader) bool { return h.As == asRemove || h.As == asLost }
	return slices.DeleteFunc(slices.Clone(d.Headers), unsent)
}

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

func (d draft) headerList() (list []map[string]any, problems []fieldProblem) {
	list = []map[string]any{}
	kept := map[string]bool{}
	for _, h := range d.sent() {
		one := map[string]any{"key": h.Name}
		switch h.As {
		case asKeep:
			if kept[h.Name] {
				continue // one stands for all of that name
			}
			kept[h.Name], one["keep"] = true, true
		case asNull:
			one["value"] = nil
		default:
			raw, err := h.bytes()
			if err != nil {
				problems = append(problems, fieldProblem{"header " + h.Name, "must be base64"})
			}
			one["value_base64"] = base64.StdEncoding.EncodeToString(raw)
		}
		list = append(list, one)
	}
	return list, problems
}

// checked identifies what was looked at: anything else must be checked first.
func (d draft) checked() string {
	d.Reason, d.Duplicate, d.NotJSON = "", false, false
	raw, _ := json.Marshal(d)
	return digest(string(raw))
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
	if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // the package returns it as it is
		offset = min(int(syntax.Offset), len(text))
		if offset > 0 && !strings.HasPrefix(what, "unexpected end") {
			offset-- // it is the character behind the one that is wrong
		}
	}
	before := text[:offset]
	line := strings.Count(before, "\n") + 1
	start := strings.LastIndexByte(before, '\n') + 1
	excerpt, _, _ := strings.Cut(text[start:], "\n")
	return &jsonProblem{line, utf8.RuneCountInString(before[start:]) + 1, what, visible(beginningOf(160, excerpt))}
}
