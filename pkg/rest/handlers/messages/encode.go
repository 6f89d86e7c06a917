package messages

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
)

// Encoder encodes edited parts of messages that have a schema in a registry.
type Encoder interface {
	// Encode encodes text, the edited JSON of one part of a message, with the part's schema; ok is false for a part
	// without a schema. The error is an *entity.FieldError that names the field, or of kind entity.ErrUnavailable when
	// the schema cannot be read now.
	Encode(ctx context.Context, m *entity.Message, part entity.RecordPart, text []byte, to entity.EncodeTarget, field string) (e entity.EncodedPart, ok bool, err error)
}

// encode replaces the payload and the key of an edit, which the request gives as JSON, by encoded bytes where the
// message has schemas for them.
func (h Retries) encode(ctx context.Context, edit *entity.Edit, order *editOrder, m *entity.Message) error {
	choice, _ := request.SchemaChoice(order.schema)
	to := entity.EncodeTarget{Topic: edit.Topic, Schema: choice}
	if to.Topic == "" && choice != "" && h.Redirects != nil && m.OriginalTopic != "" {
		targets, err := h.Redirects.RedirectTargets(ctx, []string{m.OriginalTopic})
		if err != nil {
			return err
		}
		to.Topic = targets[m.OriginalTopic]
	}
	if order.payload != nil {
		encoded, ok, err := h.encodePart(ctx, m, entity.ValuePart, order.payload, to, "edit.payload")
		if err != nil {
			return err
		}
		if ok {
			edit.Value = encoded.Data
			edit.ReplaceHeader(m.Record, encoded.Header)
		} else if choice != "" {
			return &entity.FieldError{Field: "edit.schema", Reason: "the payload has no schema"}
		}
	}
	if order.keyJSON == nil {
		return nil
	}
	encoded, ok, err := h.encodePart(ctx, m, entity.KeyPart, order.keyJSON, to, "edit.key_json")
	if err != nil {
		return err
	}
	if !ok {
		return &entity.FieldError{Field: "edit.key_json", Reason: "the key has no schema: give key or key_base64"}
	}
	edit.Key = encoded.Data
	edit.ReplaceHeader(m.Record, encoded.Header)
	return nil
}

func (h Retries) encodePart(
	ctx context.Context, m *entity.Message, part entity.RecordPart, text []byte, to entity.EncodeTarget, field string,
) (entity.EncodedPart, bool, error) {
	if h.Encoder == nil {
		return entity.EncodedPart{}, false, nil
	}
	encoded, ok, err := h.Encoder.Encode(ctx, m, part, text, to, field)
	if err != nil {
		return encoded, ok, shownReason(err, field)
	}
	return encoded, ok, nil
}
