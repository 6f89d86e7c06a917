package schema

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Compare returns the schema of a part and the latest version of its subject, with the texts that the registry returns.
// ok is false when the part has no schema. The error is of kind entity.ErrNotFound when the registry has no such
// schema, and of kind entity.ErrUnavailable when it cannot be read now. A caller who may see only some topics gets the
// texts only if a subject of the schema belongs to these; nil means all topics.
func (d *Decoder) Compare(ctx context.Context, m *entity.Message, kind entity.RecordPart, visible *entity.TopicPatterns) (c entity.SchemaComparison, ok bool, err error) {
	p, ok := d.part(m, kind)
	if !ok {
		return c, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	own, err := p.schema(ctx)
	switch {
	case missing(err):
		return c, true, &notFoundError{unavailable(err, &p)}
	case err != nil:
		return c, true, &unavailableError{unavailable(err, &p)}
	}
	c.Format, c.Writer = own.format, own.text
	c.Schema = entity.SchemaRef{Registry: p.registry.cfg.Name, ID: own.id, GUID: own.guid}
	if own.fault != nil {
		c.Fault = clip(own.fault.Error())
	}
	err = d.complete(ctx, &p, m, own, &c.Schema, visible)
	if visible != nil && c.Schema.Subject == "" {
		c.Writer, c.Fault = "", ""
		c.Hidden = "none of its subjects belongs to the topics of the message that you may see, and only who may see all topics may see every schema"
		if err != nil {
			c.Hidden = "the registry does not say now to which subjects it belongs"
		}
	}
	if err != nil || c.Schema.Subject == "" {
		return c, true, nil //nolint:nilerr // the answer then leaves out the latest version
	}
	if latest, err := p.registry.latest(ctx, c.Schema.Subject); err == nil {
		c.Latest = latest.Schema.Schema
	}
	return c, true, nil
}

// notFoundError says that the registry does not have a schema. Its kind is entity.ErrNotFound.
type notFoundError struct{ reason string }

// Error names the schema.
func (e *notFoundError) Error() string { return e.reason }

// Unwrap makes the error's kind entity.ErrNotFound.
func (e *notFoundError) Unwrap() error { return entity.ErrNotFound }
