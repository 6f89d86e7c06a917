package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/avro"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/proto"
)

// Encode encodes a part of a message after an edit of its JSON. ok is false when the part has no schema. When the JSON
// is equal to that of the stored part and the schema stays the same, the result is the stored bytes. The error is an
// entity.FieldError of the given field, whose reason begins with the path of the value that does not fit the schema, or
// names the exceeded limit; or it has the kind entity.ErrUnavailable when the schema cannot be read now.
func (d *Decoder) Encode(
	ctx context.Context, m *entity.Message, kind entity.RecordPart, text []byte, to entity.EncodeTarget, field string,
) (e entity.EncodedPart, ok bool, err error) {
	p, ok := d.part(m, kind)
	if !ok {
		return e, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	e, err = p.encode(ctx, m, text, to)
	var invalid *codec.Error
	var over *codec.LimitError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		err = &entity.FieldError{Field: field, Reason: invalid.Error()}
	case errors.As(err, &over):
		err = &entity.FieldError{Field: field, Reason: over.Error()}
	}
	return e, true, err
}

func (p *part) encode(ctx context.Context, m *entity.Message, text []byte, to entity.EncodeTarget) (entity.EncodedPart, error) {
	own, err := p.schema(ctx)
	if missing(err) {
		return entity.EncodedPart{}, &codec.Error{Path: "$", Reason: unavailable(err, p)}
	}
	if err != nil {
		return entity.EncodedPart{}, &unavailableError{unavailable(err, p)}
	}
	if own.fault != nil {
		return entity.EncodedPart{}, &codec.Error{Path: "$", Reason: clip(own.fault.Error())}
	}
	indexes, data, err := p.message(own)
	if err != nil {
		return entity.EncodedPart{}, err
	}
	if own.avro != nil && len(data) > avro.MaxData {
		return entity.EncodedPart{}, &codec.LimitError{Kind: codec.TooLarge}
	}
	c, original := own, &proto.Original{Schema: own.proto, Indexes: indexes, Data: data}
	if to.Schema == entity.LatestSchema {
		if c, indexes, err = p.latest(ctx, m, own, indexes, to.Topic); err != nil {
			return entity.EncodedPart{}, err
		}
	}
	if c.id == own.id && p.unchanged(own, text) {
		return entity.EncodedPart{Data: bytesOf(&m.Record, p.kind)}, nil
	}
	encoded, err := c.encode(indexes, text, original, payload.MaxPatched)
	if err != nil {
		return entity.EncodedPart{}, err
	}
	return p.framed(c, own, indexes, encoded)
}

// message splits a Protobuf part into its message indexes, which name the message type, and the encoded message after
// them. For other formats, indexes is nil and data is the whole part.
func (p *part) message(c *compiled) (indexes []int, data []byte, err error) {
	if c.proto == nil {
		return nil, p.data, nil
	}
	if indexes, data, err = p.indexes(); err != nil {
		return nil, nil, &codec.Error{Path: "$", Reason: err.Error()}
	}
	return indexes, data, nil
}

// latest returns the latest schema of the subject to which producers to the topic register. For Protobuf it also
// returns the message indexes of the type in that schema that has the name of the part's type.
func (p *part) latest(ctx context.Context, m *entity.Message, own *compiled, indexes []int, topic string) (*compiled, []int, error) {
	if topic == "" {
		topic = m.OriginalTopic
	}
	subject := p.subject
	if subject == "" {
		subject = p.subjectFor(topic, own)
	}
	found, err := p.registry.latest(ctx, subject)
	switch {
	case errors.Is(err, errUnknown):
		return nil, nil, &codec.Error{Path: "$", Reason: "registry " + p.registry.cfg.Name + " has no subject " + clip(subject)}
	case missing(err):
		return nil, nil, &codec.Error{Path: "$", Reason: fmt.Sprintf("subject %s of registry %s: %v", clip(subject), p.registry.cfg.Name, err)}
	case err != nil:
		return nil, nil, &unavailableError{fmt.Sprintf("subject %s of registry %s: %v", clip(subject), p.registry.cfg.Name, err)}
	}
	c, err := p.registry.byID(ctx, found.ID)
	if err != nil {
		return nil, nil, &unavailableError{fmt.Sprintf("schema %d of registry %s: %v", found.ID, p.registry.cfg.Name, err)}
	}
	if c.fault != nil {
		return nil, nil, &codec.Error{Path: "$", Reason: clip(c.fault.Error())}
	}
	if c.format != own.format {
		return nil, nil, &codec.Error{Path: "$", Reason: fmt.Sprintf("the latest version of %s is of another format: %s", clip(subject), c.format)}
	}
	if c.proto != nil {
		if indexes = c.proto.Find(own.name(indexes)); indexes == nil {
			return nil, nil, &codec.Error{Path: "$", Reason: "the latest version of " + clip(subject) + " does not have this message"}
		}
	}
	if c.guid == "" {
		c = c.withGUID(found.GUID)
	}
	return c, indexes, nil
}

func (c *compiled) withGUID(guid string) *compiled {
	other := *c
	other.guid = guid
	return &other
}

// unchanged reports whether text is the same JSON as the decoded part.
func (p *part) unchanged(own *compiled, text []byte) bool {
	before, err := own.decode(p.frame, payload.MaxPatched)
	if err != nil {
		return false
	}
	if bytes.Equal(before, text) {
		return true
	}
	a, err := codec.Value(before)
	if err != nil {
		return false
	}
	b, err := codec.Value(text)
	return err == nil && reflect.DeepEqual(a, b)
}

// framed returns the encoded part with the name of its schema, in the way in which the stored part names its schema: in
// a prefix, in a header or not at all.
func (p *part) framed(c, own *compiled, indexes []int, encoded []byte) (entity.EncodedPart, error) {
	switch {
	case p.subject != "":
		return entity.EncodedPart{Data: encoded}, nil
	case p.header == "":
		return entity.EncodedPart{Data: append(prefix(c.id, indexes), encoded...)}, nil
	case c.id == own.id:
		return entity.EncodedPart{Data: encoded}, nil
	}
	guid, err := uuid.Parse(c.guid)
	if err != nil {
		return entity.EncodedPart{}, &codec.Error{Path: "$", Reason: "the registry does not name the GUID of the latest version, which header " + p.header + " needs"}
	}
	if len(p.rest) == 0 && len(indexes) == 1 && indexes[0] == 0 {
		indexes = nil
	}
	return entity.EncodedPart{Data: encoded, Header: &entity.Header{Key: p.header, Value: headerValue(guid, indexes)}}, nil
}

// unavailableError says that a schema cannot be read now. Its kind is entity.ErrUnavailable.
type unavailableError struct{ reason string }

// Error names the schema, and the reason.
func (e *unavailableError) Error() string { return e.reason }

// Unwrap makes the error's kind entity.ErrUnavailable.
func (e *unavailableError) Unwrap() error { return entity.ErrUnavailable }
