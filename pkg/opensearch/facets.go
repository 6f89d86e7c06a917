package opensearch

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxDistinct is the number of different values up to which they are counted exactly.
const maxDistinct = 3000

// Facets counts the values of all documents that match.
func (c *Client) Facets(ctx context.Context, version int64, q Query, by []repository.FacetKey, limit int) (repository.Facets, error) {
	found, err := c.aggregate(ctx, version, q, aggregationsOf(by, func(f facet) object { return f.values(maxDistinct + 1) }))
	if err != nil {
		return repository.Facets{}, err
	}
	facets := repository.Facets{Counted: found.Hits.Total.Value, All: true, Facets: make([]repository.Facet, len(by))}
	again := object{}
	shown := make([][]bucket, len(by))
	for i, key := range by {
		f, name := facetOf(key), fmt.Sprint(i)
		values, present := f.split(found.Aggregations[name])
		facets.Facets[i] = repository.Facet{
			Missing: facets.Counted - present, Distinct: int64(len(values)), Exact: found.Aggregations[name].complete() && len(values) <= maxDistinct,
		}
		shown[i] = values[:min(limit, len(values))]
		if !facets.Facets[i].Exact {
			again["distinct"+name] = f.distinct()
			if f.prefix != "" {
				again["others"+name] = f.others()
			}
			if len(shown[i]) > 0 {
				again["values"+name] = f.these(shown[i])
			}
		}
	}
	if len(again) > 0 {
		more, err := c.again(ctx, version, q, by, again)
		if err != nil {
			return repository.Facets{}, err
		}
		for i := range by {
			name := fmt.Sprint(i)
			if estimate, ok := more["distinct"+name]; ok {
				facets.Facets[i].Distinct = max(estimate.Value, int64(len(shown[i])))
				shown[i] = more["values"+name].Buckets
			}
		}
	}
	for i, key := range by {
		for _, b := range shown[i] {
			v, err := facetOf(key).show(b)
			if err != nil {
				return repository.Facets{}, err
			}
			facets.Facets[i].Values = append(facets.Facets[i].Values, v)
		}
	}
	return facets, nil
}

// again returns the aggregations of facets that have too many values to count all of them. In a slot that also has
// values of other keys, the different values of one key are counted one by one, which takes several times as long.
func (c *Client) again(
	ctx context.Context, version int64, q Query, by []repository.FacetKey, aggregations object,
) (map[string]aggregation, error) {
	found, err := c.aggregate(ctx, version, q, aggregations)
	if err != nil {
		return nil, err
	}
	shared := object{}
	for i, key := range by {
		if name := fmt.Sprint(i); len(found.Aggregations["others"+name].Buckets) > 0 {
			shared["distinct"+name] = facetOf(key).distinctAmongOthers()
		} else if distinct, ok := found.Aggregations["distinct"+name]; ok && facetOf(key).prefix != "" {
			distinct.Value-- // the text which says that a message has a value
			found.Aggregations["distinct"+name] = distinct
		}
	}
	if len(shared) > 0 {
		more, err := c.aggregate(ctx, version, q, shared)
		if err != nil {
			return nil, err
		}
		maps.Copy(found.Aggregations, more.Aggregations)
	}
	return found.Aggregations, nil
}

type aggregated struct {
	Hits struct {
		Total struct {
			Value int64 `json:"value"`
		} `json:"total"`
	} `json:"hits"`
	Aggregations map[string]aggregation `json:"aggregations"`
}

type aggregation struct {
	Value   int64    `json:"value"`
	Others  int64    `json:"sum_other_doc_count"`
	Error   int64    `json:"doc_count_error_upper_bound"`
	Buckets []bucket `json:"buckets"`
}

// complete reports whether the buckets contain every value of the facet with its exact number of messages.
func (a aggregation) complete() bool { return a.Others == 0 && a.Error == 0 }

type bucket struct {
	Key      string `json:"key"`
	Messages int64  `json:"doc_count"`
}

func (c *Client) aggregate(ctx context.Context, version int64, q Query, aggregations object) (found aggregated, err error) {
	err = c.search(ctx, c.searchPath(c.alias(version)), object{
		"size": 0, "track_total_hits": true, "query": object{"bool": object{"filter": q.clauses()}}, "aggs": aggregations,
	}, &found)
	return found, err
}

func aggregationsOf(by []repository.FacetKey, aggregate func(facet) object) object {
	all := object{}
	for i, key := range by {
		all[fmt.Sprint(i)] = aggregate(facetOf(key))
	}
	return all
}

// facet says which field of a document has the values of a facet, and with which prefix these values begin in the
// field.
type facet struct {
	field  string
	prefix string // values of the facet begin with this text in the field; "": the field has only values of this facet
}

func facetOf(key repository.FacetKey) facet {
	if field, ok := facetFields[key.Field]; ok {
		return facet{field: field}
	}
	name := key.String()
	return facet{"values." + slotOf(name), name + separator}
}

var facetFields = map[repository.FacetField]string{
	repository.FacetTopic: "topic", repository.FacetErrorClass: "error_class", repository.FacetConsumerGroup: "consumer_group",
	repository.FacetDialect: "dialect", repository.FacetErrorGroup: "group",
}

// values counts the values.
func (f facet) values(size int) object {
	terms := object{"field": f.field, "size": size, "shard_size": 2 * size, "order": []object{{"_count": "desc"}, {"_key": "asc"}}}
	if f.prefix != "" {
		terms["include"] = f.own()
	}
	return object{"terms": terms}
}

// own returns the regular expression of the facet's values in its slot.
func (f facet) own() string { return quoteRegexp(f.prefix) + ".*" }

// others finds a value of another facet in the same slot.
func (f facet) others() object {
	return object{"terms": object{"field": f.field, "size": 1, "exclude": f.own()}}
}

// these returns the aggregation that counts exactly the messages of each of these buckets' values.
func (f facet) these(buckets []bucket) object {
	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = b.Key
	}
	return object{"terms": object{
		"field": f.field, "size": len(keys), "include": keys, "order": []object{{"_count": "desc"}, {"_key": "asc"}},
	}}
}

// precision is the number of different values up to which OpenSearch counts them nearly exactly; it permits no more.
const precision = 40_000

// distinct returns the aggregation that estimates the number of different values in the facet's field.
func (f facet) distinct() object {
	return object{"cardinality": object{"field": f.field, "precision_threshold": precision}}
}

// distinctAmongOthers returns the aggregation that estimates the number of different values of the facet in a slot that
// also has values of other keys.
func (f facet) distinctAmongOthers() object {
	return object{"cardinality": object{"precision_threshold": precision, "script": object{
		"source": "def found = []; if (!doc.containsKey(params.f)) { return found; } for (v in doc[params.f]) { if (v.length() > params.p.length() && v.startsWith(params.p)) { found.add(v); } } return found;",
		"params": object{"f": f.field, "p": f.prefix},
	}}}
}

// split returns the values in an answer, and how many messages have a value of the facet.
func (f facet) split(a aggregation) (values []bucket, present int64) {
	for _, b := range a.Buckets {
		switch {
		case f.prefix == "" && b.Key == "": // an unknown topic
		case f.prefix == "":
			values, present = append(values, b), present+b.Messages
		case b.Key == f.prefix:
			present = b.Messages
		default:
			values = append(values, b)
		}
	}
	if f.prefix == "" {
		present += a.Others // each message has at most one value of this field, so the messages of all values can be added up
	}
	return values, present
}

func (f facet) show(b bucket) (repository.FacetValue, error) {
	v := repository.FacetValue{Kind: repository.StringValue, Text: b.Key, Messages: b.Messages}
	if f.prefix == "" {
		return v, nil
	}
	rest := strings.TrimPrefix(b.Key, f.prefix)
	for kind, letter := range kindLetters {
		if text, ok := strings.CutPrefix(rest, letter); ok {
			v.Kind, v.Text = repository.FacetKind(kind), text
		}
	}
	switch v.Kind {
	case repository.NumberValue:
		v.Text = plainNumber(v.Text)
		return v, nil
	case repository.StringValue, repository.BooleanValue, repository.NullValue:
		return v, nil
	case repository.BytesValue:
	}
	text, err := base64.StdEncoding.DecodeString(v.Text)
	v.Text = string(text)
	return v, err
}

// maxPlain is the exponent up to which a number is shown without one.
const maxPlain = 20

// plainNumber writes a number without an exponent, unless that would be long. The parameter is in the canonical form of
// payload.Scalar: digits without a decimal point, and an exponent.
func plainNumber(canonical string) string {
	digits, power, _ := strings.Cut(canonical, "e")
	exponent, err := strconv.Atoi(power)
	if err != nil || exponent > maxPlain || exponent < -maxPlain {
		return canonical
	}
	sign := ""
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	if exponent >= 0 {
		return sign + digits + strings.Repeat("0", exponent)
	}
	if missing := 1 - exponent - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) + exponent
	return sign + digits[:point] + "." + digits[point:]
}
