package messages

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const maxEditHeaders = 500

// ourHeaders are the headers that every attempt sets.
var ourHeaders = []string{"dlq-message-id", "dlq-root-id", "dlq-retry-count", "dlq-redrive-id", "dlq-redriven-at"}

type editOrder struct {
	given       bool
	payload     request.RawJSON
	payloadNull request.Option[bool]
	key         request.Nullable[string]
	headers     request.Option[[]request.RawJSON]

	payloadBase64, keyBase64, topic request.Option[string]

	keyJSON request.RawJSON
	schema  request.Option[string]

	kept map[int]bool // indexes in the list of the edit's headers: these headers keep the values that the record has
	request.Problems
}

func (e *editOrder) object() request.Object {
	return request.Object{Given: &e.given, Fields: request.Fields{
		"payload": &e.payload, "payload_base64": &e.payloadBase64, "payload_null": &e.payloadNull,
		"key": &e.key, "key_base64": &e.keyBase64, "headers": &e.headers, "target_topic": &e.topic,
		"key_json": &e.keyJSON, "schema": &e.schema,
	}}
}

// read returns the edit of the request; nil when the request has none.
func (e *editOrder) read() (*entity.Edit, error) {
	if !e.given {
		return nil, nil
	}
	edit := &entity.Edit{}
	edit.SetValue, edit.Value = e.value()
	edit.SetKey, edit.Key = e.recordKey()
	edit.SetHeaders, edit.Headers = e.headers.Given, e.headerList()
	edit.Topic = e.topic.Value
	choice, ok := request.SchemaChoice(e.schema)
	e.Refuse(!ok, "edit.schema", request.SchemaChoices)
	e.Refuse(choice != "" && e.payload == nil && e.keyJSON == nil, "edit.schema", "needs payload or key_json: other bytes are sent unchanged")
	e.Refuse(e.topic.Given && !entity.ValidTopic(edit.Topic), "edit.target_topic", "must be the name of a topic")
	e.Refuse(len(e.Problems) == 0 && edit.Empty(), "edit", "must change the payload, the key, the headers or the topic")
	return edit, e.Err()
}

func (e *editOrder) value() (set bool, value []byte) {
	e.Refuse(several(e.payload != nil, e.payloadBase64.Given, e.payloadNull.Value), "edit.payload", "give one of payload, payload_base64 and payload_null")
	switch {
	case e.payloadNull.Value:
		return true, nil
	case e.payloadBase64.Given:
		return true, e.base64("edit.payload_base64", e.payloadBase64.Value)
	default:
		return e.payload != nil, e.payload
	}
}

// several reports whether the request gives one part of the record in more than one form, such as payload and
// payload_base64.
func several(given ...bool) bool {
	ways := 0
	for _, g := range given {
		if g {
			ways++
		}
	}
	return ways > 1
}

// base64 decodes text and never returns nil, because empty bytes are not null.
func (e *editOrder) base64(field, text string) []byte {
	raw, err := base64.StdEncoding.DecodeString(text)
	e.Refuse(err != nil, field, "must be base64")
	return append([]byte{}, raw...)
}

func (e *editOrder) recordKey() (set bool, key []byte) {
	e.Refuse(several(e.key.Given, e.keyBase64.Given, e.keyJSON != nil), "edit.key", "give one of key, key_base64 and key_json")
	switch {
	case e.keyJSON != nil:
		return true, e.keyJSON
	case e.keyBase64.Given:
		return true, e.base64("edit.key_base64", e.keyBase64.Value)
	case e.key.Value != nil:
		return true, []byte(*e.key.Value)
	default:
		return e.key.Given, nil
	}
}

func (e *editOrder) headerList() []entity.Header {
	if e.Refuse(len(e.headers.Value) > maxEditHeaders, "edit.headers", "must be at most %d", maxEditHeaders) {
		return nil
	}
	var list []entity.Header
	for i, raw := range e.headers.Value {
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
	var key, encoded request.Option[string]
	var text request.Nullable[string]
	if err := request.DecodeObjectAt(raw, at, request.Fields{"key": &key, "value": &text, "value_base64": &encoded, "keep": &keep}); err != nil {
		e.Add(err)
		return header, false
	}
	e.Refuse(!key.Given, at+".key", "must be given")
	e.Refuse(text.Given && encoded.Given, at+".value", "give either value or value_base64")
	e.Refuse(keep && (text.Given || encoded.Given), at+".keep", "keeps the record's own value: give no other")
	header.Key = key.Value
	switch {
	case encoded.Given:
		header.Value = e.base64(at+".value_base64", encoded.Value)
	case text.Value != nil:
		header.Value = []byte(*text.Value)
	}
	return header, keep
}

// keepHeaders inserts the record's own headers where the edit only names a header. So a caller can keep masked headers
// without seeing their values.
func keepHeaders(edit *entity.Edit, kept map[int]bool, m *entity.Message) error {
	if len(kept) == 0 {
		return nil
	}
	var p request.Problems
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
		p.Refuse(!found, fmt.Sprintf("edit.headers[%d].keep", i), "the record has no header of that name here: %s", respond.Clip(h.Key))
	}
	edit.Headers = all
	return p.Err()
}

// checkEdit refuses headers that would mark the record as a dead letter or as another replay. It also refuses mask
// texts that the caller has sent back in place of masked values. The headers that the edit keeps have no values yet.
func (h Retries) checkEdit(ctx context.Context, edit *entity.Edit, m *entity.Message) error {
	topic := edit.Topic
	if topic == "" {
		topic = m.OriginalTopic
	}
	var p request.Problems
	for i, header := range edit.Headers {
		at := fmt.Sprintf("edit.headers[%d]", i)
		p.Refuse(slices.Contains(ourHeaders, header.Key), at+".key", "is written anew with every attempt: %s", respond.Clip(header.Key))
		p.Refuse(!slices.Contains(ourHeaders, header.Key) && h.Dialects.StripsHeader(m, topic, header.Key), at+".key",
			"would mark the record as a dead letter: %s", respond.Clip(header.Key))
		p.Refuse(h.Masking.Header(header.Key) && string(header.Value) == wire.MaskedText, at+".value", stillMasked)
	}
	p.Refuse(edit.SetValue && h.bringsMaskBack(ctx, m, entity.ValuePart, edit.Value), "edit.payload", stillMasked)
	p.Refuse(edit.SetKey && h.bringsMaskBack(ctx, m, entity.KeyPart, edit.Key), "edit.key_json", stillMasked)
	return p.Err()
}

const stillMasked = "has " + wire.MaskedText + " where the message has a masked value: write what is meant to be sent"

// bringsMaskBack reports whether a new key or value has the mask text at a masked path. To find this out, it replaces the
// mask text by another text and masks the result: at masked paths the other text then disappears, and at other paths it
// remains.
func (h Retries) bringsMaskBack(ctx context.Context, m *entity.Message, part entity.RecordPart, text []byte) bool {
	const other = "*_*_*"
	if h.Masking.Empty() || !bytes.Contains(text, []byte(wire.MaskedText)) || !utf8.Valid(text) {
		return false
	}
	was := entity.DecodePart(h.Reader(ctx), m, part, payload.MaxPatched)
	probe := bytes.ReplaceAll(text, []byte(wire.MaskedText), []byte(other))
	shown, _ := h.Masking.Read(probe, was.Names).Shown()
	return payload.Valid(probe) && bytes.Count(shown, []byte(other)) < bytes.Count(probe, []byte(other))
}
