package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// Schemas decodes and encodes payloads that have a schema in a registry.
type Schemas interface {
	// Reader returns a reader for one batch.
	Reader(ctx context.Context) entity.PartReader
	// Encode encodes a payload after a patch. The error is of kind entity.ErrUnavailable while a schema cannot be read.
	Encode(ctx context.Context, m *entity.Message, part entity.RecordPart, text []byte, to entity.EncodeTarget, field string) (entity.EncodedPart, bool, error)
}

// Reasons for which a patch cannot be applied to a message.
var (
	errTombstone  = errors.New("the value is null, not JSON")
	errMasked     = errors.New("the patch reads or changes something that is masked: that needs the grant unmask")
	errNotCarried = errors.New("the message does not carry its value, which is fetched when it is sent")
)

// patcher applies a redrive's patch to the payloads of messages. It decodes payloads that have a schema before, and
// encodes them afterwards.
type patcher struct {
	patch   *payload.Patch
	raw     []byte
	schema  entity.SchemaChoice
	schemas Schemas        // nil: no payload has a schema
	masks   *payload.Masks // what the patch must not touch; nil: nothing
	fault   error          // why the patch is invalid and cannot be applied to any message; nil: it is valid
}

// compilePatch compiles the patch in the options of a redrive; it returns nil when they contain no patch.
func compilePatch(o entity.RedriveOptions, cfg Config) (*patcher, error) {
	if o.Patch == nil {
		return nil, nil
	}
	p, err := payload.CompilePatch(o.Patch)
	if err != nil {
		return nil, fmt.Errorf("compile the patch: %w", err)
	}
	compiled := &patcher{patch: p, raw: o.Patch, schema: o.Schema, schemas: cfg.Schemas}
	if o.KeepsMasked {
		compiled.masks = cfg.Masks
	}
	return compiled, nil
}

// patched is a payload before and after the patch, as JSON; After is nil when the patch cannot be applied.
type patched struct {
	Before, After []byte
	Names         entity.Names
	Edit          *entity.Edit
}

// reader returns the reader of schemas for a batch; nil when p has no schemas.
func (p *patcher) reader(ctx context.Context) entity.PartReader {
	if p.schemas == nil {
		return nil
	}
	return p.schemas.Reader(ctx)
}

// apply applies the patch to a message that is sent to topic; "" means its original topic. The error is of kind
// entity.ErrUnavailable while a schema cannot be read; all other errors mean that the patch cannot be applied.
func (p *patcher) apply(ctx context.Context, reader entity.PartReader, m *entity.Message, topic string) (done patched, err error) {
	carried := m.Record.State == entity.ValueStored || m.Record.State == entity.ValueFromPayload
	switch {
	case p.fault != nil:
		return done, p.fault
	case !carried || deadletter.IsPointer(m.Record):
		return done, errNotCarried
	case m.Record.Value == nil:
		return done, errTombstone
	}
	done.Before = m.Record.Value
	decoded := entity.DecodePart(reader, m, entity.ValuePart, payload.MaxPatched)
	if p.masks != nil && !decoded.Temporary && p.masks.ReadPart(&m.Record, entity.ValuePart, decoded).Touches(p.patch) {
		return done, errMasked
	}
	switch {
	case decoded.Format == entity.NoFormat:
		after, err := p.patch.Apply(done.Before)
		done.After, done.Edit = after, &entity.Edit{SetValue: true, Value: after, Patch: p.raw}
		return done, err //nolint:wrapcheck // the error names the operation
	case decoded.Temporary:
		return patched{}, fmt.Errorf("%w: %s", entity.ErrUnavailable, decoded.Reason)
	case decoded.JSON == nil:
		return patched{}, errors.New("the payload cannot be decoded: " + decoded.Reason)
	}
	done.Before, done.Names = decoded.JSON, decoded.Names
	after, err := p.patch.Apply(decoded.JSON)
	if err != nil {
		return done, err //nolint:wrapcheck // the error names the operation
	}
	encoded, _, err := p.schemas.Encode(ctx, m, entity.ValuePart, after, entity.EncodeTarget{Topic: topic, Schema: p.schema}, "payload")
	if err != nil {
		return done, err //nolint:wrapcheck // the error names the field
	}
	done.After, done.Edit = after, &entity.Edit{SetValue: true, Value: encoded.Data, Patch: p.raw}
	done.Edit.ReplaceHeader(m.Record, encoded.Header)
	return done, nil
}

// reasonOf returns the reason why a patch cannot be applied.
func reasonOf(err error) string {
	var invalid *entity.FieldError
	if errors.As(err, &invalid) {
		return invalid.Reason
	}
	return err.Error()
}

// clone returns a copy with its own bytes and without the edit, because the bytes of p belong to a message whose memory
// is used again.
func (p patched) clone() patched {
	return patched{Before: bytes.Clone(p.Before), After: bytes.Clone(p.After), Names: p.Names}
}
