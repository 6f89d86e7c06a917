package rest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// editJSON says how an attempt's record differed from its message.
type editJSON struct {
	TargetTopic    *string         `json:"target_topic"`
	PayloadChanged bool            `json:"payload_changed"`
	PayloadPatch   json.RawMessage `json:"payload_patch"` // null where one side is not JSON, or too large to compare
	KeyChanged     bool            `json:"key_changed"`
	HeadersChanged bool            `json:"headers_changed"`
	Headers        json.RawMessage `json:"headers"`
	RedrivePatch   json.RawMessage `json:"redrive_patch"`
}

// before is the message that edits are held against. It is loaded when the first of them needs it.
type before struct {
	message  entity.Message
	load     getter // from where it is
	loaded   bool
	unmasked bool
}

// load loads the value, as far as it can be compared. A message that is gone is compared with nothing.
func (s *Server) load(ctx context.Context, b *before) error {
	if b.loaded {
		return nil
	}
	b.loaded = true
	m, err := b.load(ctx, b.message.ID, maxPayload)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	if err == nil {
		b.message = m
	}
	return nil
}

// showEdit is nil for a record that went as it was.
func (s *Server) showEdit(ctx context.Context, e *entity.Edit, b *before) (*editJSON, error) {
	if e == nil {
		return nil, nil
	}
	if err := s.load(ctx, b); err != nil {
		return nil, err
	}
	shown := &editJSON{
		TargetTopic: orNull(e.Topic), PayloadChanged: e.SetValue || e.Patch != nil, KeyChanged: e.SetKey,
		HeadersChanged: e.SetHeaders,
	}
	if e.SetHeaders {
		var hidden []bool
		if !b.unmasked {
			hidden = s.maskedHeaders(e.Headers)
		}
		shown.Headers = appendHeaders(nil, e.Headers, hidden)
	}
	if e.Patch != nil {
		shown.RedrivePatch = s.showPatch(e.Patch, b.unmasked)
	} else if e.SetValue {
		shown.PayloadPatch = s.showPatch(difference(b.message.Record, e.Value), b.unmasked)
	}
	return shown, nil
}

func (s *Server) showPatch(patch []byte, unmasked bool) json.RawMessage {
	if patch == nil || unmasked {
		return patch
	}
	return s.masks.Patch(slices.Clone(patch))
}

// difference is nil where there is nothing to compare.
func difference(was entity.Record, now []byte) []byte {
	old, _ := projectPayload(was, maxPayload)
	edited, _ := projectPayload(entity.Record{Value: now}, maxPayload)
	if old == nil || edited == nil {
		return nil
	}
	patch, err := payload.Diff(old, edited)
	if err != nil {
		return nil // what cannot be compared is still said to have changed
	}
	return patch
}
