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
	p.value.Scalars(maxFields, func(path string, v payload.Value) {
		add(repository.FacetKey{Path: path}, repository.FacetKind(v.Kind), v.Identity())
	})
	for _, h := range m.Record.Headers[:min(len(m.Record.Headers), maxHeaders)] {
		if len(h.Value) <= maxHeaderValue && !w.masks.Header(h.Key) {
			addBytes(repository.FacetKey{Header: h.Key}, h.Value)
		}
	}
	if key := p.facetKey(); key != nil {
		addBytes(repository.FacetKey{Field: repository.FacetRecordKey}, key)
	}
	return f
}

// facetKey returns the key as facets show it: the text of a decoded scalar, and the JSON of any other decoded key. It
// returns nil when the message has no key, or when something in the key is hidden.
func (p parts) facetKey() []byte {
	if p.key.Hides() {
		return nil
	}
	key, _ := p.key.Shown()
	if p.decoded != nil {
		p.key.Values([]payload.Path{{}}, 1, func(_ int, v payload.Value) { key = []byte(v.Text) })
	}
	return key
}
