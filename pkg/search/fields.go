package search

import (
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// WithFields makes the worker add to each document the fields and values that facets count. It is for a search engine
// that counts facets by itself.
func WithFields() Option { return func(w *Worker) { w.fields = true } }

// fieldsOf returns the fields and values of a message that facets count, without masked ones. They are the same values
// that a FacetCounter counts.
func (w *Worker) fieldsOf(m *entity.Message, p parts) *entity.DocumentFields {
	f := &entity.DocumentFields{Dialect: m.Failure.Dialect}
	hidden := w.hidden(m)
	if !hidden.ErrorClass {
		f.ErrorClass = m.Failure.Class
	}
	if !hidden.ConsumerGroup {
		f.ConsumerGroup = m.Failure.ConsumerGroup
	}
	add := func(key repository.FacetKey, kind repository.FacetKind, value string) {
		f.Values = append(f.Values, entity.DocumentValue{Key: key.String(), Kind: string(kind), Value: value})
	}
	addBytes := func(key repository.FacetKey, value []byte) {
		kind := repository.StringValue
		if !utf8.Valid(value) {
			kind = repository.BytesValue
		}
		add(key, kind, string(value))
	}
	payload.Scalars(p.value, w.masks, maxFields, func(path string, v payload.Value) {
		add(repository.FacetKey{Path: path}, repository.FacetKind(v.Kind), v.Identity())
	})
	for _, h := range m.Record.Headers[:min(len(m.Record.Headers), maxHeaders)] {
		if len(h.Value) <= maxHeaderValue && !w.masks.Header(h.Key) {
			addBytes(repository.FacetKey{Header: h.Key}, h.Value)
		}
	}
	if key := w.keyOf(m, p); key != nil {
		addBytes(repository.FacetKey{Field: repository.FacetRecordKey}, key)
	}
	return f
}

// keyOf returns the key as facets show it. It returns nil when the message has no key, or when the key contains a
// masked value or may contain one.
func (w *Worker) keyOf(m *entity.Message, p parts) []byte {
	if p.keySchema && hidesKey(w.masks, p.key) {
		return nil
	}
	if p.key == nil {
		return m.Record.Key
	}
	return scalarKey(p.key)
}

// scalarKey returns a decoded key as facets show it: the text of a scalar, and the JSON of any other key.
func scalarKey(decoded []byte) []byte {
	payload.Values(decoded, []payload.Path{{}}, 1, func(_ int, v payload.Value) { decoded = []byte(v.Text) })
	return decoded
}

// hidesKey reports whether a key with a schema has a masked value, or may have one because it cannot be decoded.
func hidesKey(masks *payload.Masks, decoded []byte) bool {
	if !masks.CoversPath(payload.Path{}) {
		return false
	}
	_, names := masks.Payload(decoded)
	return decoded == nil || len(names) > 0
}
