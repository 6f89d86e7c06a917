package memory

import (
	"bytes"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// whole, as the limit for the size of values, loads values of any size.
const whole = -1

// clone returns a copy of m that shares no bytes and no origin with m; other pointers, such as Share, are shared. In
// the copy, nil stays nil and empty stays empty, because a null key is not an empty key.
func clone(m entity.Message) entity.Message {
	m.Record.Key = bytes.Clone(m.Record.Key)
	m.Record.Value = bytes.Clone(m.Record.Value)
	m.Record.SHA256 = bytes.Clone(m.Record.SHA256)
	m.Record.Headers = cloneHeaders(m.Record.Headers)
	m.Origin.Partition = clonePointer(m.Origin.Partition)
	m.Origin.Offset = clonePointer(m.Origin.Offset)
	m.Failure.Attempts = clonePointer(m.Failure.Attempts)
	return m
}

func cloneHeaders(headers []entity.Header) []entity.Header {
	headers = slices.Clone(headers)
	for i := range headers {
		headers[i].Value = bytes.Clone(headers[i].Value)
	}
	return headers
}

// cloneEdit returns a deep copy of e, with nil for an empty list of headers. It returns nil when e is nil.
func cloneEdit(e *entity.Edit) *entity.Edit {
	if e == nil {
		return nil
	}
	c := *e
	c.Value, c.Key, c.Patch = bytes.Clone(e.Value), bytes.Clone(e.Key), bytes.Clone(e.Patch)
	c.Headers = cloneHeaders(e.Headers)
	if len(c.Headers) == 0 {
		c.Headers = nil
	}
	return &c
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// kept returns a copy of m as a database would store it: its times are truncated, the size of a stored value is set,
// and the stack trace, which is read from the headers and not stored, is empty.
func kept(m entity.Message) entity.Message {
	m = clone(m)
	m.CreatedAt = entity.TruncateTime(m.CreatedAt)
	m.UpdatedAt = entity.TruncateTime(m.UpdatedAt)
	m.LastRetryAt = entity.TruncateTime(m.LastRetryAt)
	m.NextAttemptAt = entity.TruncateTime(m.NextAttemptAt)
	m.Source.Timestamp = entity.TruncateTime(m.Source.Timestamp)
	m.Origin.Timestamp = entity.TruncateTime(m.Origin.Timestamp)
	m.Claim.ExpiresAt = entity.TruncateTime(m.Claim.ExpiresAt)
	m.Failure.StackTrace = ""
	if m.Record.State == entity.ValueStored || m.Record.State == entity.ValueFromPayload {
		m.Record.Size = int64(len(m.Record.Value))
	}
	return m
}

// Loaded returns a copy of the message. Its value is left out when it is longer than maxValue bytes; a negative
// maxValue means no limit.
func (r *Row) Loaded(maxValue int64) entity.Message {
	m := r.Message
	if maxValue >= 0 && int64(len(m.Record.Value)) > maxValue {
		m.Record.State, m.Record.Value = entity.ValueNotLoaded, nil
	}
	return clone(m)
}

// Shown returns the message as WithFirstHeaders does, but leaves out a key that is longer than repository.KeyLimit.
func (r *Row) Shown(maxValue int64) entity.Message {
	m := r.WithFirstHeaders(maxValue)
	LeaveOutKey(&m.Record, repository.KeyLimit)
	return m
}

// WithFirstHeaders returns the message as Loaded does, but only with the first headers, within repository.HeaderLimit
// and repository.HeaderBytesLimit.
func (r *Row) WithFirstHeaders(maxValue int64) entity.Message {
	m := r.Loaded(maxValue)
	n, bytes := 0, 0
	for ; n < len(m.Record.Headers) && n < repository.HeaderLimit; n++ {
		bytes += len(m.Record.Headers[n].Key) + len(m.Record.Headers[n].Value)
		if bytes > repository.HeaderBytesLimit {
			break
		}
	}
	m.Record.HeadersOmitted = n < len(m.Record.Headers)
	m.Record.Headers = m.Record.Headers[:n:n]
	return m
}

// LeaveOutKey removes the key of a record when it is longer than limit.
func LeaveOutKey(r *entity.Record, limit int64) {
	if n := int64(len(r.Key)); n > limit {
		r.Key, r.KeyOmitted = nil, n
	}
}

// PageBudget counts the bytes and headers that a page may still load.
type PageBudget struct {
	bytes   int64
	headers int
}

// NewPageBudget returns the budget of a page that has no messages yet.
func NewPageBudget() *PageBudget {
	return &PageBudget{bytes: repository.ListPageLimit, headers: repository.ListHeaderLimit}
}

// Listed returns the message for a page of a list. It leaves out parts that exceed the limits of a list, and parts for
// which the page has no bytes or headers left.
func (r *Row) Listed(budget *PageBudget) entity.Message {
	m := r.Message
	limit := int64(repository.ListValueLimit)
	key, value, headers := int64(len(m.Record.Key)), int64(len(m.Record.Value)), headerBytes(m.Record.Headers)
	budget.bytes -= int64(len(m.ErrorMessage))
	for _, size := range []int64{key, value, headers} {
		if size <= limit { // a part that is longer than the limit is left out, so it does not count
			budget.bytes -= size
		}
	}
	if value > limit || value > 0 && budget.bytes < 0 {
		m.Record.State, m.Record.Value = entity.ValueNotLoaded, nil
	}
	if key > limit || budget.bytes < 0 {
		LeaveOutKey(&m.Record, 0)
	}
	if n := len(m.Record.Headers); n > 0 {
		if headers <= limit {
			budget.headers -= min(n, repository.HeaderLimit)
		}
		if headers > limit || n > repository.HeaderLimit || budget.bytes < 0 || budget.headers < 0 {
			m.Record.HeadersOmitted, m.Record.Headers = true, nil
		}
	}
	return clone(m)
}

func headerBytes(headers []entity.Header) (n int64) {
	for _, h := range headers {
		n += int64(len(h.Key) + len(h.Value))
	}
	return n
}

// Bare returns the message without key, headers and value.
func (r *Row) Bare() entity.Message {
	m := r.Message
	m.Record.Key, m.Record.Headers = nil, nil
	if m.Record.Value != nil {
		m.Record.State, m.Record.Value = entity.ValueNotLoaded, nil
	}
	return clone(m)
}
