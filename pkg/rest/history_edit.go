package rest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// editJSON describes how an attempt's record differed from its message.
type editJSON struct {
	TargetTopic    *string         `json:"target_topic"`
	PayloadChanged bool            `json:"payload_changed"`
	PayloadPatch   json.RawMessage `json:"payload_patch"` // null where one side is not JSON, or too large to compare
	KeyChanged     bool            `json:"key_changed"`
	HeadersChanged bool            `json:"headers_changed"`
	Headers        json.RawMessage `json:"headers"`
	RedrivePatch   json.RawMessage `json:"redrive_patch"`
}

// before is the message that edits are compared with. It is loaded when the first edit needs it.
type before struct {
	message  entity.Message
	load     getter // from the live table or the archive
	loaded   bool
	unmasked bool
}

// load loads the value, if it can be compared. For a message that no longer exists there is no comparison.
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

// showEdit returns nil for a record that was sent unchanged.
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

// difference returns nil where the values cannot be compared.
func difference(was entity.Record, now []byte) []byte {
	old, _ := projectPayload(was, maxPayload)
	edited, _ := projectPayload(entity.Record{Value: now}, maxPayload)
	if old == nil || edited == nil {
		return nil
	}
	patch, err := payload.Diff(old, edited)
	if err != nil {
		return nil // the answer still reports that the payload changed
	}
	return patch
}
