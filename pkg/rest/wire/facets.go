package wire

import (
	"encoding/base64"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Facets is the answer to a request for facets: the values of the messages that match a filter.
type Facets struct {
	AsOf    *string        `json:"as_of"`
	Filter  map[string]any `json:"filter"`
	Matched Count          `json:"matched"`
	Counted int64          `json:"counted"`
	Exact   bool           `json:"exact"` // whether all messages that match were counted
	Sum     *FacetSum      `json:"sum"`
	Facets  []Facet        `json:"facets"`
}

// FacetSum is the sum of the numbers that messages have at a path of their payloads.
type FacetSum struct {
	Path     string `json:"path"`
	Sum      string `json:"sum"`
	Messages int64  `json:"messages"`
}

// Facet contains the most frequent values of one facet key, with the number of messages of each.
type Facet struct {
	By       string        `json:"by"`
	Distinct FacetDistinct `json:"distinct"`
	Missing  int64         `json:"missing"`
	Values   []FacetValue  `json:"values"`
}

// FacetDistinct is the number of different values of a facet, which may be an estimate.
type FacetDistinct struct {
	Values int64 `json:"values"`
	Exact  bool  `json:"exact"`
}

// FacetValue is a value with the filter that selects its messages; the filter is nil when no filter can select these
// messages.
type FacetValue struct {
	Value    string               `json:"value"`
	Kind     repository.FacetKind `json:"kind"`
	Messages int64                `json:"messages"`
	Sum      *string              `json:"sum"`
	Filter   map[string]any       `json:"filter"`
}

// NewFacetSum returns a sum for the answer; nil when the request asked for no sum.
func NewFacetSum(path string, s repository.FacetSum) *FacetSum {
	if path == "" {
		return nil
	}
	return &FacetSum{path, s.Sum, s.Messages}
}

// NewFacet returns a facet for the answer. The function filter returns the filter that selects the messages with a
// value.
func NewFacet(key repository.FacetKey, f repository.Facet, filter func(repository.FacetValue) map[string]any) Facet {
	shown := Facet{By: key.String(), Distinct: FacetDistinct{f.Distinct, f.Exact}, Missing: f.Missing}
	shown.Values = Each(f.Values, func(v repository.FacetValue) FacetValue {
		one := FacetValue{Value: cutValue(csvBytes([]byte(v.Text))), Kind: v.Kind, Messages: v.Messages, Filter: filter(v)}
		if v.Sum.Messages > 0 {
			one.Sum = &v.Sum.Sum
		}
		return one
	})
	return shown
}

// maxFacetText is the number of characters after which a shown value is cut.
const maxFacetText = 1000

func cutValue(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxFacetText {
			return text[:i] + "…"
		}
	}
	return text
}

// FacetCondition returns the name and the value of the filter parameter that selects the messages with a facet value;
// ok is false when no parameter does.
func FacetCondition(key repository.FacetKey, v repository.FacetValue) (name, value string, ok bool) {
	bytes := v.Kind == repository.BytesValue
	switch {
	case key.Path != "":
		scalar := payload.Value{Kind: payload.Kind(v.Kind), Text: v.Text}.Canonical()
		return "payload", key.Path + "==" + scalar, true
	case key.Header != "":
		return "header", key.Header + "=" + v.Text, !bytes
	case key.Field == repository.FacetRecordKey && bytes:
		return "key_base64", base64.StdEncoding.EncodeToString([]byte(v.Text)), true
	}
	return string(key.Field), v.Text, true
}

// CSV returns the facets as a table, with a row for each value and one for the messages without a value.
func (f Facets) CSV() []byte {
	out := []byte("by,value,kind,messages,sum\n")
	row := func(cells ...string) {
		for i, cell := range cells {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendCell(out, cell)
		}
		out = append(out, '\n')
	}
	for _, facet := range f.Facets {
		for _, v := range facet.Values {
			sum := ""
			if v.Sum != nil {
				sum = *v.Sum
			}
			row(facet.By, v.Value, string(v.Kind), strconv.FormatInt(v.Messages, 10), sum)
		}
		row(facet.By, "", "missing", strconv.FormatInt(facet.Missing, 10), "")
	}
	return out
}
