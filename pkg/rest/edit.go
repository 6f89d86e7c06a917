package rest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const maxEditHeaders = 500

// ourHeaders are the headers that every attempt sets.
var ourHeaders = []string{"dlq-message-id", "dlq-root-id", "dlq-retry-count", "dlq-redrive-id", "dlq-redriven-at"}

type editOrder struct {
	given       bool
	payload     rawJSON
	payloadNull option[bool]
	key         nullable[string]
	headers     option[[]rawJSON]

	payloadBase64, keyBase64, topic option[string]

	kept map[int]bool // which of the headers stand for the record's own of that name
	problems
}

func (e *editOrder) object() object {
	return object{&e.given, fields{
		"payload": &e.payload, "payload_base64": &e.payloadBase64, "payload_null": &e.payloadNull,
		"key": &e.key, "key_base64": &e.keyBase64, "headers": &e.headers, "target_topic": &e.topic,
	}}
}

// read returns the edit, nil for none.
func (e *editOrder) read() (*entity.Edit, error) {
	if !e.given {
		return nil, nil
	}
	edit := &entity.Edit{}
	edit.SetValue, edit.Value = e.value()
	edit.SetKey, edit.Key = e.recordKey()
	edit.SetHeaders, edit.Headers = e.headers.given, e.headerList()
	edit.Topic = e.topic.value
	e.refuse(e.topic.given && !entity.ValidTopic(edit.Topic), "edit.target_topic", "must be the name of a topic")
	e.refuse(len(e.problems) == 0 && edit.Empty(), "edit", "must change the payload, the key, the headers or the topic")
	return edit, joined(e.problems)
}

func (e *editOrder) value() (set bool, value []byte) {
	ways := 0
	for _, given := range []bool{e.payload != nil, e.payloadBase64.given, e.payloadNull.value} {
		if given {
			ways++
		}
	}
	e.refuse(ways > 1, "edit.payload", "give one of payload, payload_base64 and payload_null")
	switch {
	case e.payloadNull.value:
		return true, nil
	case e.payloadBase64.given:
		return true, e.base64("edit.payload_base64", e.payloadBase64.value)
	default:
		return e.payload != nil, e.payload
	}
}

// base64 never returns nil: empty bytes are not null.
func (e *editOrder) base64(field, text string) []byte {
	raw, err := base64.StdEncoding.DecodeString(text)
	e.refuse(err != nil, field, "must be base64")
	return append([]byte{}, raw...)
}

func (e *editOrder) recordKey() (set bool, key []byte) {
	e.refuse(e.key.given && e.keyBase64.given, "edit.key", "give either key or key_base64")
	switch {
	case e.keyBase64.given:
		return true, e.base64("edit.key_base64", e.keyBase64.value)
	case e.key.value != nil:
		return true, []byte(*e.key.value)
	default:
		return e.key.given, nil
	}
}

func (e *editOrder) headerList() []entity.Header {
	if e.refuse(len(e.headers.value) > maxEditHeaders, "edit.headers", "must be at most %d", maxEditHeaders) {
		return nil
	}
	var list []entity.Header
	for i, raw := range e.headers.value {
		header, keep := e.header(raw, fmt.Sprintf("edit.headers[%d]", i))
		if list = append(list, header); keep {
			if e.kept == nil {
				e.kept = map[int]bool{}
			}
			e.kept[i] = true
		}
	}
	return list
}

func (e *editOrder) header(raw []byte, at string) (header entity.Header, keep bool) {
	var key, encoded option[string]
	var text nullable[string]
	if err := decodeObjectAt(raw, at, fields{"key": &key, "value": &text, "value_base64": &encoded, "keep": &keep}); err != nil {
		e.note(err)
		return header, false
	}
	e.refuse(!key.given, at+".key", "must be given")
	e.refuse(text.given && encoded.given, at+".value", "give either value or value_base64")
	e.refuse(keep && (text.given || encoded.given), at+".keep", "keeps the record's own value: give no other")
	header.Key = key.value
	switch {
	case encoded.given:
		header.Value = e.base64(at+".value_base64", encoded.value)
	case text.value != nil:
		header.Value = []byte(*text.value)
	}
	return header, keep
}

// keepHeaders inserts the record's own headers where an edit only names them, so that masked headers can be kept
// without being shown.
func keepHeaders(edit *entity.Edit, kept map[int]bool, m *entity.Message) error {
	if len(kept) == 0 {
		return nil
	}
	var p problems
	var all []entity.Header
	for i, h := range edit.Headers {
		if !kept[i] {
			all = append(all, h)
			continue
		}
		found := false
		for _, own := range m.Record.Headers {
			if own.Key == h.Key {
				all, found = append(all, own), true
			}
		}
		p.refuse(!found, fmt.Sprintf("edit.headers[%d].keep", i), "the record has no header of that name here: %s", clip(h.Key))
	}
	edit.Headers = all
	return joined(p)
}

// checkEdit refuses headers that mark the record as a dead letter or as another replay, and masks that are sent back
// instead of masked values. Kept headers have no values yet.
func (s *Server) checkEdit(edit *entity.Edit, m *entity.Message) error {
	topic := edit.Topic
	if topic == "" {
		topic = m.OriginalTopic
	}
	var p problems
	for i, h := range edit.Headers {
		at := fmt.Sprintf("edit.headers[%d]", i)
		p.refuse(slices.Contains(ourHeaders, h.Key), at+".key", "is written anew with every attempt: %s", clip(h.Key))
		p.refuse(!slices.Contains(ourHeaders, h.Key) && s.dialects.StripsHeader(m.Failure.Dialect, topic, h.Key), at+".key",
			"would mark the record as a dead letter: %s", clip(h.Key))
		p.refuse(s.masks.Header(h.Key) && string(h.Value) == maskedText, at+".value", stillMasked)
	}
	p.refuse(edit.SetValue && s.bringsMaskBack(edit.Value), "edit.payload", stillMasked)
	return joined(p)
}

const stillMasked = "has " + maskedText + " where the message has a masked value: write what is meant to be sent"

// bringsMaskBack reports whether a masked part of the value is the mask text itself. It replaces the mask text by
// another text: at a masked path masking removes that text, elsewhere it stays.
func (s *Server) bringsMaskBack(value []byte) bool {
	const mask, other = `"` + maskedText + `"`, `"*_*_*"`
	if s.masks.Empty() || !bytes.Contains(value, []byte(mask)) || !utf8.Valid(value) {
		return false
	}
	probe := bytes.ReplaceAll(value, []byte(mask), []byte(other))
	masked, _ := s.masks.Payload(probe)
	return bytes.Count(masked, []byte(other)) < bytes.Count(probe, []byte(other))
}
