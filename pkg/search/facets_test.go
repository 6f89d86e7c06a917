package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// storeOf is a FacetStore that exports the given messages, and records the query.
type storeOf struct {
	messages []entity.Message
	q        repository.ExportQuery
	err      error
}

func (s *storeOf) Export(_ context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	s.q = q
	for i := range s.messages[:min(q.Limit, len(s.messages))] {
		if err := yield(&s.messages[i]); err != nil {
			return err
		}
	}
	return s.err
}

func withValues(values ...string) *storeOf {
	s := &storeOf{}
	for _, value := range values {
		s.messages = append(s.messages, entity.Message{ID: uuid.New(), Record: entity.Record{Value: []byte(value)}})
	}
	return s
}

func byPath(paths ...string) []repository.FacetKey {
	return check.Each(paths, func(path string) repository.FacetKey { return repository.FacetKey{Path: path} })
}

func counted(t *testing.T, c *FacetCounter, q repository.FacetQuery) repository.Facets {
	t.Helper()
	q.Limit = max(q.Limit, 10)
	return check.Must(c.Facets(t.Context(), q))(t)
}

func TestFacets_AddUpNumbersExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		messages   int64
		values     []string
	}{
		{"Decimals", "0.3", 2, []string{`{"n":0.1}`, `{"n":0.2}`}},
		{"ManyDigits", "10000000000000000000000000000.01", 2, []string{`{"n":1e28}`, `{"n":0.01}`}},
		{"Negative", "-1.5", 2, []string{`{"n":-2}`, `{"n":0.5}`}},
		{"Strings", "41250", 1, []string{`{"n":"41250.00"}`, `{"n":"41,250"}`, `{"n":"NaN"}`, `{"n":""}`, `{"n":"0x10"}`, `{"n":"true"}`}},
		{"NoNumbers", "0", 0, []string{`{"n":true}`, `{"n":null}`, `{"n":{}}`, `{"n":[1]}`, `{}`, ``}},
		{"HugeExponents", "1", 1, []string{`{"n":1e999999999}`, `{"n":1e-999999999}`, `{"n":1}`}},
		{"LongNumbers", "1", 1, []string{`{"n":` + strings.Repeat("9", 101) + `}`, `{"n":1}`}},
		{"Elements", "6", 2, []string{`{"n":1,"n":2}`, `{"n":3}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := counted(t, NewFacetCounter(withValues(c.values...), nil, nil), repository.FacetQuery{Sum: "$.n"})
			check.Equal(t, got.Sum, repository.FacetSum{Sum: c.want, Messages: c.messages}, "sum")
		})
	}
}

func TestFacets_StopAtTheirLimits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4} {
		c := NewFacetCounter(withValues(make([]string, n)...), nil, nil)
		c.most = 3
		got := counted(t, c, repository.FacetQuery{By: byPath("$.a")})
		check.True(t, got.Counted == 3 && got.All == (n == 3), "of %d messages %d were counted, all: %t", n, got.Counted, got.All)
	}

	c, calls := NewFacetCounter(withValues(make([]string, 10)...), nil, nil), 0
	c.now = func() time.Time { // after four messages, facetTime has passed
		calls++
		return time.Unix(0, 0).Add(time.Duration(calls) * facetTime / 5)
	}
	got := counted(t, c, repository.FacetQuery{})
	check.True(t, got.Counted == 5 && !got.All, "%d messages were counted, all: %t, want 5", got.Counted, got.All)

	failing := &storeOf{err: errors.New("down")}
	_, err := NewFacetCounter(failing, nil, nil).Facets(t.Context(), repository.FacetQuery{})
	check.Is(t, err, failing.err, "error of the store")
}

// When a facet has too many values, the number of different values is an estimate. The counts of the values that are
// kept stay exact.
func TestFacets_EstimateTooManyValues(t *testing.T) {
	t.Parallel()
	const messages, kept = 200_000, 1000
	s := &storeOf{messages: make([]entity.Message, messages)}
	for i := range s.messages {
		s.messages[i].Record.Value = fmt.Appendf(nil, `{"id":"%08d","often":%d}`, i, i%7)
	}
	c := NewFacetCounter(s, nil, nil)
	c.most, c.memory = messages, kept*(valueOverhead+8)
	c.now = func() time.Time { return time.Time{} }
	got := counted(t, c, repository.FacetQuery{By: byPath("$.often", "$.id")})
	ids := got.Facets[1]
	check.True(t, !ids.Exact, "an estimate is called exact")
	check.True(t, math.Abs(float64(ids.Distinct)/messages-1) < 0.05, "%d values are estimated, want %d within ten standard errors", ids.Distinct, messages)
	check.True(t, len(ids.Values) == 10 && ids.Values[0].Messages == 1 && ids.Missing == 0, "values: %+v", ids.Values)
	check.True(t, got.Facets[0].Exact && got.Facets[0].Distinct == 7 && got.Facets[0].Values[0].Messages == (messages+6)/7, "the other facet: %+v", got.Facets[0])
}

// With the default memory, a facet by unique values, with a sum, is exact for as many messages as a FacetCounter
// counts.
func TestFacets_AreExactForUniqueValues(t *testing.T) {
	t.Parallel()
	s := &storeOf{messages: make([]entity.Message, repository.MaxFacetMessages)}
	for i := range s.messages {
		s.messages[i].Record.Value = fmt.Appendf(nil, `{"id":"%s","total":1}`, uuid.New())
	}
	c := NewFacetCounter(s, nil, nil)
	c.now = func() time.Time { return time.Time{} }
	got := counted(t, c, repository.FacetQuery{By: byPath("$.id"), Sum: "$.total"})
	check.True(t, got.All && got.Facets[0].Exact && got.Facets[0].Distinct == repository.MaxFacetMessages, "%d values, exact: %t", got.Facets[0].Distinct, got.Facets[0].Exact)
}

// Facets count values that have a schema in decoded form. They do not count values that the search index does not have.
func TestFacets_CountWhatTheIndexHas(t *testing.T) {
	t.Parallel()
	s := withValues("avro", `{"a":"plain"}`, "unreadable", `{"a":"from SQL"}`, `[`+strings.Repeat("0,", maxFields)+`{"a":1}]`)
	s.messages[3].Record.State = entity.ValueFromPayload
	for i := range s.messages {
		s.messages[i].Record.Key = []byte("avro")
	}
	c := NewFacetCounter(s, decoderOf(map[string]entity.Decoded{
		"avro":       {Format: entity.Avro, JSON: []byte(`"k"`)},
		"unreadable": {Format: entity.UnknownFormat, Omitted: entity.SchemaUnavailable},
	}), nil)
	got := counted(t, c, repository.FacetQuery{By: append(byPath("$", "$.a", "$[*].a"), repository.FacetKey{Field: repository.FacetRecordKey})})
	for i, want := range []string{"k 1, missing 4", "plain 1, missing 4", "missing 5", "k 5, missing 0"} {
		text := ""
		for _, v := range got.Facets[i].Values {
			text += fmt.Sprintf("%s %d, ", v.Text, v.Messages)
		}
		check.Equal(t, text+fmt.Sprint("missing ", got.Facets[i].Missing), want, "facet %d", i)
	}
	check.Equal(t, *s.q.Parts, repository.RecordParts{Key: true, Value: true, Headers: true}, "parts")
}

// A decoded key is masked like a payload. A key that cannot be decoded counts as masked, because it may contain a
// masked value.
func TestFacets_HideMaskedKeys(t *testing.T) {
	t.Parallel()
	s := &storeOf{}
	for _, key := range []string{"secret", "harmless", "unreadable", "plain"} {
		s.messages = append(s.messages, entity.Message{Record: entity.Record{Key: []byte(key)}})
	}
	decoder := decoderOf(map[string]entity.Decoded{
		"secret":     {Format: entity.Avro, JSON: []byte(`{"card":"4111"}`)},
		"harmless":   {Format: entity.Avro, JSON: []byte(`{"id":1}`)},
		"unreadable": {Format: entity.UnknownFormat, Omitted: entity.SchemaUnavailable},
	})
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.card"}}))(t)
	for _, c := range []struct {
		masks *payload.Masks
		want  string
	}{{masks, "plain {\"id\":1} "}, {nil, "plain unreadable {\"card\":\"4111\"} {\"id\":1} "}} {
		got := counted(t, NewFacetCounter(s, decoder, c.masks), repository.FacetQuery{By: []repository.FacetKey{{Field: repository.FacetRecordKey}}})
		text := ""
		for _, v := range got.Facets[0].Values {
			text += v.Text + " "
		}
		check.Equal(t, text, c.want, "keys")
	}
}

type decoderOf map[string]entity.Decoded

func (d decoderOf) Reader(context.Context) entity.PartReader { return decodingReader{d} }
func (d decoderOf) Version() uint64                          { return 1 }

type decodingReader struct{ decoderOf }

func (d decodingReader) Decode(m *entity.Message, part entity.RecordPart, _ int) entity.Decoded {
	if part == entity.KeyPart {
		return d.decoderOf[string(m.Record.Key)]
	}
	return d.decoderOf[string(m.Record.Value)]
}

func (d decodingReader) Complete(*entity.Message, entity.RecordPart, *entity.Decoded) {}

// A FacetCounter reads only the parts of records that the facets need.
func TestFacets_ReadNoMoreThanTheyNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q    repository.FacetQuery
		want repository.RecordParts
	}{
		{repository.FacetQuery{By: []repository.FacetKey{{Field: repository.FacetStatus}}}, repository.RecordParts{}},
		{repository.FacetQuery{By: []repository.FacetKey{{Header: "a"}}}, repository.RecordParts{Headers: true}},
		{repository.FacetQuery{By: byPath("$.a")}, repository.RecordParts{Value: true}},
		{repository.FacetQuery{Sum: "$.a"}, repository.RecordParts{Value: true}},
		{repository.FacetQuery{By: []repository.FacetKey{{Field: repository.FacetRecordKey}}}, repository.RecordParts{Key: true}},
	} {
		s := withValues()
		counted(t, NewFacetCounter(s, nil, nil), c.q)
		check.Equal(t, *s.q.Parts, c.want, "parts for %+v", c.q)
	}
}
