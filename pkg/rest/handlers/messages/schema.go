package messages

import (
	"context"
	"errors"
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// SchemaReader reads the schemas of messages.
type SchemaReader interface {
	// Compare returns the schema of a part and the latest version of that schema, as far as a caller may see them who
	// may see these topics; nil means all. ok is false for a part without a schema. The error is of kind entity.ErrNotFound or entity.ErrUnavailable.
	Compare(ctx context.Context, m *entity.Message, part entity.RecordPart, visible *entity.TopicPatterns) (c entity.SchemaComparison, ok bool, err error)
}

// shownReason lets the client see why a schema cannot be read, as a detail about the field.
func shownReason(err error, field string) error {
	for _, kind := range []error{entity.ErrNotFound, entity.ErrUnavailable} {
		if errors.Is(err, kind) {
			return respond.Refused(kind, err.Error(), respond.Detail{Field: field, Reason: err.Error()})
		}
	}
	return err
}

// SchemaTexts answers with the schema that a message was written with, and the latest version of that schema.
type SchemaTexts struct {
	Load    request.Getter
	Schemas SchemaReader // nil: no message has a schema
}

// Get sends the schemas of the value, or of the key with ?part=key. For bytes without a schema, the answer has status
// 204 and no content.
func (h SchemaTexts) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	part, err := request.Word(r.URL.Query(), "part", []string{string(entity.ValuePart), string(entity.KeyPart)})
	if err != nil {
		return err
	}
	if part == "" {
		part = string(entity.ValuePart)
	}
	m, err := h.Load(r.Context(), id, wire.MaxPayload)
	if err != nil {
		return err
	}
	var c entity.SchemaComparison
	ok := false
	if h.Schemas != nil {
		c, ok, err = h.Schemas.Compare(r.Context(), &m, entity.RecordPart(part), access.Principal(r).Scope(auth.Viewer))
	}
	if err != nil {
		return shownReason(err, "part")
	}
	if !ok { // the bytes have no schema
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	respond.JSON(w, http.StatusOK, wire.NewSchemaTexts(c))
	return nil
}
