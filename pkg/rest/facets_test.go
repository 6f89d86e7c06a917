package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
	index "github.com/dlq-manager/dlq-manager/pkg/search"
)

const facetsPath = "/api/v1/messages/facets?"

// orders returns messages of the topic orders.created.v1, one minute apart, with these payloads.
func orders(payloads ...string) []entity.Message {
	var all []entity.Message
	for i, payload := range payloads {
		all = append(all, message(uuid.UUID{15: byte(i + 1)}, withValue(payload), func(m *entity.Message) {
			m.OriginalTopic, m.CreatedAt = "orders.created.v1", noon.Add(-time.Duration(i+1)*time.Minute)
			m.Failure.Class = "Timeout"
			m.Record.Headers = []entity.Header{{Key: "tenant", Value: fmt.Append(nil, "t", i%2)}}
		}))
	}
	return all
}

func (f *fixture) facets(t *testing.T, query string, headers ...string) wire.Facets {
	t.Helper()
	w := f.do("GET", facetsPath+query, "", headers...)
	check.Require(t, w.Code == 200, "%s = %d %s", query, w.Code, w.Body)
	var got wire.Facets
	check.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	return got
}

func facetText(f wire.Facet) string {
	text := fmt.Sprintf("%s: %d distinct, %d missing", f.By, f.Distinct.Values, f.Missing)
	for _, v := range f.Values {
		text += fmt.Sprintf("; %s %s %d", v.Kind, v.Value, v.Messages)
		if v.Sum != nil {
			text += " " + *v.Sum
		}
	}
	return text
}

func TestFacets(t *testing.T) {
	t.Parallel()
	f := newFixture(orders(
		`{"customer":"a","total":12.10,"items":[{"sku":1},{"sku":1.0},{"sku":2}]}`,
		`{"customer":"b","total":"0.2"}`, `{"customer":"a","total":1e1}`, `{"customer":7,"total":null}`, `no JSON`,
	)...)
	f.index(nil)
	f.open()
	got := f.facets(t, "by=$.customer&by=$.items[*].sku&by=header:tenant&by=status&sum=$.total&topic=orders.*")
	for i, want := range []string{
		"$.customer: 3 distinct, 1 missing; string a 2 22.1; number 7 1; string b 1 0.2",
		"$.items[*].sku: 2 distinct, 4 missing; number 1 1 12.1; number 2 1 12.1",
		"header:tenant: 2 distinct, 0 missing; string t0 3 22.1; string t1 2 0.2",
		"status: 1 distinct, 0 missing; string PENDING 5 22.3",
	} {
		check.Equal(t, facetText(got.Facets[i]), want, "facet %d", i)
	}
	check.True(t, got.Exact && got.Counted == 5 && got.Matched == wire.Count{Messages: 5, Exact: true}, "counted: %+v", got)
	check.Equal(t, *got.Sum, wire.FacetSum{Path: "$.total", Sum: "22.3", Messages: 3}, "sum")
}

// The filter of each value selects the messages that were counted with this value, in searches and in redrives.
func TestFacets_FiltersSelectWhatWasCounted(t *testing.T) {
	t.Parallel()
	all := orders(`{"id":42,"n":"x"}`, `{"id":"42"}`, `{"id":42.0}`, `{"id":null}`, `{"id":true,"n":"x"}`, `{"id":"a \"quoted\" ' text\u0000"}`, `{}`)
	all[3].Record.Key, all[4].Record.Key = []byte{0xff, 0}, []byte{}
	f := newFixture(all...)
	f.index(nil)
	f.open()
	late := message(uuid.UUID{15: 99}, withValue(`{"id":42}`), func(m *entity.Message) { m.OriginalTopic, m.CreatedAt = "orders.created.v1", now })
	got := f.facets(t, "by=$.id&by=header:tenant&by=key&by=topic&by=error_class&topic=*")
	f.memory.Insert(late)
	f.index(nil)
	values := 0
	for i, facet := range got.Facets {
		for _, v := range facet.Values {
			if facet.By == "topic" {
				check.True(t, v.Filter == nil, "a value of topic has the filter %v besides a condition on topics", v.Filter)
				continue
			}
			values++
			query := url.Values{"count": {"exact"}}
			for name, value := range v.Filter {
				if list, ok := value.([]any); ok {
					for _, one := range list {
						query.Add(name, fmt.Sprint(one))
					}
				} else {
					query.Set(name, fmt.Sprint(value))
				}
			}
			found := f.search(t, "/api/v1/messages?"+query.Encode())
			check.True(t, len(found.Messages) == int(v.Messages), "facet %d: %d messages match %v, want %d", i, len(found.Messages), v.Filter, v.Messages)
			preview := f.do("POST", "/api/v1/redrives", fmt.Sprintf(`{"dry_run":true,"filter":%s}`, wire.Encode(v.Filter)))
			check.True(t, strings.Contains(preview.Body.String(), fmt.Sprintf(`"selected":%d,`, v.Messages)), "a redrive by %v: %s, want %d", v.Filter, preview.Body, v.Messages)
		}
	}
	check.Equal(t, values, 5+2+3+1, "values")
}

// An answer about facets stays small: long values are cut, and long filters are not repeated for each value.
func TestFacets_AnswersAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(orders(fmt.Sprintf(`{"a":%q}`, strings.Repeat("é", 1001)), `{"a":"short"}`)...)
	f.index(nil)
	f.open()
	for _, v := range f.facets(t, "by=$.a").Facets[0].Values {
		long := v.Value == strings.Repeat("é", 1000)+"…"
		check.True(t, long || v.Value == "short", "value %s", v.Value)
		check.True(t, (v.Filter == nil) == long, "%.20s has the filter %v", v.Value, v.Filter)
	}
	got := f.facets(t, "by=$.a&id="+strings.Repeat(idGone.String()+",", 60)+uuid.UUID{15: 2}.String())
	check.True(t, got.Counted == 1 && len(got.Filter["id"].([]any)) == 61, "with a long filter: %+v", got)
	check.True(t, got.Facets[0].Values[0].Filter == nil, "a long filter is repeated")
}

// An answer about facets names the moment up to which it counts messages; if it needs the search index, the index is
// complete up to there. A request that needs the index is refused when the index is late.
func TestFacets_CountUpToAMoment(t *testing.T) {
	t.Parallel()
	f := newFixture(orders(`{"a":1}`, `{"a":1}`)...)
	f.index(nil)
	until := noon.Add(-90 * time.Second)
	store, _ := lateStore(f.memory, &until)
	f.over(store).open()
	check.Equal(t, f.facets(t, "by=status").Counted, 2, "messages counted without the index")
	w := f.do("GET", facetsPath+"by=$.a", "")
	check.True(t, w.Code == 503 && strings.Contains(w.Body.String(), "the search index is late"), "with a late index: %d %s", w.Code, w.Body)
	until = now.Add(-30*time.Second - 500*time.Microsecond)
	got := f.facets(t, "by=$.a")
	check.Equal(t, *got.AsOf, "2026-02-20T10:29:33.999+00:00", "as_of")
	check.Equal(t, got.Filter["created_before"].(string), *got.AsOf, "created_before")
	got = f.facets(t, "by=$.a&created_before=2026-02-20T10:28:30Z")
	check.True(t, got.Counted == 1 && got.Filter["created_before"] == "2026-02-20T10:28:30Z", "with an earlier end: %+v", got)
}

func TestFacets_OfMaskedValuesAreForbidden(t *testing.T) {
	t.Parallel()
	f := maskedFixture(t).open()
	for _, c := range []struct {
		query, who string
		code       int
	}{
		{"by=$.card.number", "ana", 403},
		{"by=$.card.number", "root", 403},
		{"by=$.card", "root", 403},
		{"by=$", "root", 403},
		{"sum=$.card.number", "root", 403},
		{"by=header:AUTHORIZATION", "root", 403},
		{"by=$.note&payload=$.card.number%3D1", "ana", 403},
		{"by=$.note&payload=$.card.number%3D1", "root", 200},
		{"by=$.note&by=header:tenant", "ana", 200},
	} {
		w := f.do("GET", facetsPath+c.query, "", "Authorization", "Bearer "+c.who)
		check.True(t, w.Code == c.code, "%s for %s = %d %s, want %d", c.query, c.who, w.Code, w.Body, c.code)
		check.True(t, !strings.Contains(w.Body.String(), secretCard), "%s for %s shows the secret", c.query, c.who)
	}
}

// A field that is derived from a masked header is masked too, so its facets are forbidden.
func TestFacets_OfFieldsOfMaskedHeadersAreForbidden(t *testing.T) {
	t.Parallel()
	masks := maskOf("class", "group")
	f := newFixture(secretMessage()).with(WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}))
	f.index(masks)
	f.open()
	for _, field := range []string{"error_class", "consumer_group"} {
		w := f.do("GET", facetsPath+"by="+field, "")
		check.True(t, w.Code == 403, "by=%s = %d, want 403", field, w.Code)
	}
}

// Messages of topics that the caller may not see are neither counted nor included in an estimate.
func TestFacets_CountOnlyVisibleTopics(t *testing.T) {
	t.Parallel()
	all := orders(`{"a":1}`, `{"a":2}`, `{"a":1}`)
	all[1].OriginalTopic = "payments.created.v1"
	f := newFixture(all...)
	f.guarded(person("ana", "orders.*", auth.Viewer))
	f.index(nil)
	engine := &limitedEngine{}
	f.open()
	got := f.facets(t, "by=$.a&by=topic", "Authorization", "Bearer ana")
	check.Equal(t, facetText(got.Facets[0]), "$.a: 1 distinct, 0 missing; number 1 2", "facet")
	check.Equal(t, facetText(got.Facets[1]), "topic: 1 distinct, 0 missing; string orders.created.v1 2", "facet")

	f.with(WithFacets(engine)).open()
	got = f.facets(t, "by=status", "Authorization", "Bearer ana")
	check.True(t, !got.Exact && got.Matched == wire.Count{Messages: 1, AtLeast: true}, "of more than were counted: %+v", got.Matched)
	check.True(t, engine.q.Filter.Visible != nil, "the engine got no topics")
}

// limitedEngine is a FacetEngine that counts one message and stops, even when more messages match.
type limitedEngine struct {
	q      repository.FacetQuery
	before time.Time
}

func (e *limitedEngine) Facets(_ context.Context, q repository.FacetQuery) (repository.Facets, error) {
	e.q = q
	return repository.Facets{Counted: 1, All: !e.before.IsZero(), Before: e.before, Facets: make([]repository.Facet, len(q.By))}, nil
}

// When only messages until some time were counted, the answer and its filters have that time.
func TestFacets_NameTheTimeOfTheIndex(t *testing.T) {
	t.Parallel()
	before := time.Date(2026, 3, 4, 5, 6, 7, 123_000_000, time.UTC)
	f := newFixture(orders(`{}`)...).with(WithFacets(&limitedEngine{before: before})).open()
	got := f.facets(t, "by=status")
	want := *wire.Stamp(before)
	check.True(t, *got.AsOf == want && got.Filter["created_before"] == want && got.Exact, "as of %s, filter %v, want %s", *got.AsOf, got.Filter, want)
}

// When not all messages were counted, the answer contains the number of all matching messages, and is not marked
// exact.
func TestFacets_SayHowManyMatch(t *testing.T) {
	t.Parallel()
	f := newFixture(orders(`{}`, `{}`, `{}`)...).with(WithFacets(&limitedEngine{})).open()
	got := f.facets(t, "by=status")
	check.True(t, !got.Exact && got.Counted == 1 && got.Matched == wire.Count{Messages: 3, Exact: true}, "%+v", got)
}

func TestFacets_BadRequests(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	for query, want := range map[string]string{
		"by=customer":                      "by: must be a path such as",
		"by=":                              "by: must be a path such as",
		"by=header:":                       "by: must name a header",
		"by=header:a%3Db":                  "by: must name a header",
		"by=$..a":                          "by: is not a path: recursive descent",
		"by=status&by=status":              "by: has status twice",
		"by=a&by=b&by=c&by=d&by=e&by=f":    "by: must be given at most 5 times",
		"by=status&sum=total":              "sum: is not a path",
		"sum=$.a&sum=$.b":                  "sum: given more than once",
		"by=status&limit=1001":             "limit: must be a whole number from 1 to 1000",
		"by=status&format=xml":             "format: must be one of json, csv",
		"by=status&payload=$.a%3D%3Dplain": "payload: must be a path",
	} {
		w := f.do("GET", facetsPath+query, "")
		check.True(t, w.Code == 400 && strings.Contains(w.Body.String(), want), "%s = %d %s, want 400 with %s", query, w.Code, w.Body, want)
	}
}

func TestFacets_AsCSV(t *testing.T) {
	t.Parallel()
	f := newFixture(orders(`{"a":"=1+1","n":2}`, `{"a":"x, y"}`, `{}`)...)
	f.index(nil)
	f.open()
	w := f.do("GET", facetsPath+"by=$.a&sum=$.n&format=csv", "")
	check.Equal(t, w.Body.String(), "by,value,kind,messages,sum\n$.a,\"'=1+1\",string,1,2\n$.a,\"x, y\",string,1,\n$.a,,missing,1,\n", "table")
	check.Equal(t, w.Header().Get("Content-Type"), "text/csv; charset=utf-8; header=present", "content type")
}

// A request for facets reserves memory before it reads messages. It works with the smallest buffer that the
// configuration allows.
func TestFacets_ReserveMemory(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.cfg.BufferBytes = minBuffer
	store, held := hook(f.memory), int64(0)
	store.export = func(context.Context, repository.ExportQuery, func(*entity.Message) error) error {
		held, _ = f.server.limits.bytes.Held()
		return nil
	}
	f.with(WithFacets(index.NewFacetCounter(store, nil, nil))).open()
	f.facets(t, "by=status")
	check.True(t, held >= repository.FacetMemory, "%d bytes were reserved, want %d", held, repository.FacetMemory)
	nothingHeld(t, f.server)
}
