package fake

import (
	"bytes"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// edit is how an attempt's record differs from its message's.
type edit struct {
	entity.Edit
	sentHash int64
}

// keepEdit stores the edit of a claim with the attempt that it begins; nothing
// when nothing differs. What a patch of a redrive made of a value is not kept.
func (r *row) keepEdit(c repository.Claim) {
	if c.Edit.Empty() && (c.Edit == nil || c.Edit.Patch == nil) {
		return
	}
	if _, known := r.edits[c.ID]; known {
		return
	}
	if r.edits == nil {
		r.edits = map[uuid.UUID]edit{}
	}
	e := edit{Edit: *cloneEdit(c.Edit), sentHash: c.SentHash}
	if e.Patch != nil {
		e.Value = nil
	}
	r.edits[c.ID] = e
}

// editOf returns the edit of an attempt; nil when it had none.
func (r *row) editOf(attempt uuid.UUID) *entity.Edit {
	e, ok := r.edits[attempt]
	if !ok {
		return nil
	}
	return cloneEdit(&e.Edit)
}

func cloneEdit(e *entity.Edit) *entity.Edit {
	c := *e
	c.Value, c.Key, c.Patch = bytes.Clone(e.Value), bytes.Clone(e.Key), bytes.Clone(e.Patch)
	c.Headers = cloneHeaders(e.Headers)
	if len(c.Headers) == 0 {
		c.Headers = nil
	}
	return &c
}

// sentHash is the number of what an attempt sent; 0 for none.
func (r *row) sentHash(attempt uuid.UUID) int64 {
	if e, ok := r.edits[attempt]; ok {
		return e.sentHash
	}
	return r.hash
}

// sentSame reports whether an attempt sent the key and the value of m. Where a patch
// made the value, its number has to do.
func (r *row) sentSame(attempt uuid.UUID, m *entity.Message) bool {
	record := r.message.Record
	if e, ok := r.edits[attempt]; ok {
		record = e.Apply(record)
		if e.Patch != nil {
			record.Value = m.Record.Value
		}
	}
	return bytes.Equal(record.Key, m.Record.Key) && bytes.Equal(record.Value, m.Record.Value)
}
