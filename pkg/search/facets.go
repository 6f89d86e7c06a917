package search

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// facetTime is the time after which a FacetCounter reads no more messages.
const facetTime = 5 * time.Second

// FacetStore reads the messages that match a filter.
type FacetStore interface {
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
}

// FacetCounter counts the values of the newest messages that match a filter, by reading their records. It counts only
// values that the search index also has, so a search for a counted value finds the counted messages.
type FacetCounter struct {
	store   FacetStore
	schemas Schemas // nil when nothing is decoded
	masks   *payload.Masks
	now     func() time.Time
	most    int // maximum number of messages to count
	memory  int // maximum size in memory of the values that are kept, in bytes; see facetValues
}

// NewFacetCounter returns a FacetCounter. schemas decodes keys and values that have a schema; when it is nil, nothing
// is decoded. Values and keys in which masks hide something are not counted. The caller must refuse facets by masked
// headers and paths.
func NewFacetCounter(store FacetStore, schemas Schemas, masks *payload.Masks) *FacetCounter {
	return &FacetCounter{
		store: store, schemas: schemas, masks: masks, now: time.Now, most: repository.MaxFacetMessages, memory: repository.FacetMemory * 3 / 4,
	}
}

var errEnoughMessages = errors.New("enough messages were counted")

// Facets counts the values of the messages that match. It stops after repository.MaxFacetMessages messages, or when
// facetTime has passed.
func (c *FacetCounter) Facets(ctx context.Context, q repository.FacetQuery) (repository.Facets, error) {
	read, err := newFacetReader(q, c.memory)
	if err != nil {
		return repository.Facets{}, err
	}
	read.masks = c.masks
	if err := repository.ReserveMemory(ctx, repository.FacetMemory); err != nil {
		return repository.Facets{}, err
	}
	if c.schemas != nil {
		read.decoder = c.schemas.Reader(ctx)
	}
	parts := read.parts()
	deadline := c.now().Add(facetTime)
	err = c.store.Export(ctx, repository.ExportQuery{
		Filter: q.Filter, Limit: c.most + 1, MaxValue: maxValue, Parts: &parts, OneSnapshot: true,
	}, func(m *entity.Message) error {
		if read.messages == int64(c.most) || c.now().After(deadline) {
			return errEnoughMessages
		}
		read.message(m)
		return nil
	})
	if err != nil && !errors.Is(err, errEnoughMessages) {
		return repository.Facets{}, err
	}
	found := repository.Facets{Counted: read.messages, All: err == nil, Sum: read.sum.show()}
	for _, f := range read.facets {
		found.Facets = append(found.Facets, f.show(q.Limit))
	}
	return found, nil
}

// facetReader reads the values of one message after the other.
type facetReader struct {
	by      []repository.FacetKey
	facets  []*facetValues // one for each key in the field by, in the same order
	decoder entity.PartReader
	masks   *payload.Masks
	paths   []payload.Path
	at      []int // for each element of paths, the index of its facet; -1 for the path whose numbers are added up
	summing bool

	messages int64
	sum      facetSum
	number   amount // sum of the numbers in the message that is being read
}

func newFacetReader(q repository.FacetQuery, memory int) (*facetReader, error) {
	r := &facetReader{by: q.By, summing: q.Sum != "", sum: facetSum{asked: q.Sum != ""}}
	shared := &memory
	add := func(text string, at int) error {
		p, err := payload.ParsePath(text)
		r.paths, r.at = append(r.paths, p), append(r.at, at)
		return err
	}
	for i, key := range q.By {
		r.facets = append(r.facets, newFacetValues(shared, r.summing))
		if key.Path == "" {
			continue
		}
		if err := add(key.Path, i); err != nil {
			return nil, err
		}
	}
	if !r.summing {
		return r, nil
	}
	return r, add(q.Sum, -1)
}

// parts says which parts of records the facets need. To decode keys or values, the headers are needed as well, because
// a header may name the schema.
func (r *facetReader) parts() repository.RecordParts {
	p := repository.RecordParts{Value: len(r.paths) > 0}
	for _, key := range r.by {
		p.Key = p.Key || key.Field == repository.FacetRecordKey
		p.Headers = p.Headers || key.Header != ""
	}
	p.Headers = p.Headers || r.decoder != nil && (p.Key || p.Value)
	return p
}

// message counts a message.
func (r *facetReader) message(m *entity.Message) {
	r.messages++
	r.number = amount{}
	if len(r.paths) > 0 {
		r.payload(m)
	}
	for i, key := range r.by {
		switch {
		case key.Header != "":
			r.headers(m, r.facets[i], key.Header)
		case key.Field == repository.FacetRecordKey:
			r.key(m, r.facets[i])
		case key.Field != "":
			if text := fieldOf(m, key.Field); text != "" {
				r.facets[i].add(repository.StringValue, text, text)
			}
		}
		r.facets[i].end(r.number)
	}
	r.sum.add(r.number)
}

func (r *facetReader) payload(m *entity.Message) {
	if stored(&m.Record) == nil {
		return
	}
	value := r.masks.ReadPart(&m.Record, entity.ValuePart, entity.DecodePart(r.decoder, m, entity.ValuePart, maxValue))
	value.Values(r.paths, maxFields, func(path int, v payload.Value) {
		if at := r.at[path]; at >= 0 {
			r.facets[at].add(repository.FacetKind(v.Kind), v.Identity(), v.Text)
		} else {
			r.number.addText(v)
		}
	})
}

func (r *facetReader) headers(m *entity.Message, f *facetValues, name string) {
	for _, h := range m.Record.Headers[:min(len(m.Record.Headers), maxHeaders)] {
		if h.Key == name && len(h.Value) <= maxHeaderValue {
			f.addBytes(h.Value)
		}
	}
}

func (r *facetReader) key(m *entity.Message, f *facetValues) {
	d := entity.DecodePart(r.decoder, m, entity.KeyPart, maxHeaderValue)
	p := parts{key: r.masks.ReadPart(&m.Record, entity.KeyPart, d), decoded: d.JSON}
	if key := p.facetKey(); key != nil {
		f.addBytes(key)
	}
}

func fieldOf(m *entity.Message, field repository.FacetField) string {
	switch field {
	case repository.FacetTopic:
		return m.OriginalTopic
	case repository.FacetStatus:
		return string(m.Status)
	case repository.FacetErrorClass:
		return m.Failure.Class
	case repository.FacetConsumerGroup:
		return m.Failure.ConsumerGroup
	case repository.FacetDialect:
		return m.Failure.Dialect
	case repository.FacetErrorGroup:
		if m.Group != uuid.Nil {
			return m.Group.String()
		}
	case repository.FacetRecordKey: // read from the record
	}
	return ""
}

// addBytes counts the bytes of a key, or of a header's value, as a value of the facet.
func (f *facetValues) addBytes(b []byte) {
	kind := repository.StringValue
	if !utf8.Valid(b) {
		kind = repository.BytesValue
	}
	text := string(b)
	f.add(kind, text, text)
}

// addText adds v to the sum if v is a JSON number, or a JSON string that contains a number.
func (a *amount) addText(v payload.Value) {
	text := v.Text
	switch v.Kind {
	case payload.NumberKind:
	case payload.StringKind:
		if form := payload.Scan([]byte(text)); !form.Valid || text == "" || !strings.ContainsRune("-0123456789", rune(text[0])) {
			return
		}
	default:
		return
	}
	a.add(text)
}
