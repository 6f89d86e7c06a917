package request

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxFacets is the maximum number of facets of one request.
const maxFacets = 5

// ReadFacetKeys reads the facets of a request from the query parameter "by", which may be given several times.
func ReadFacetKeys(query url.Values, p *Problems) []repository.FacetKey {
	if p.Refuse(len(query["by"]) > maxFacets, "by", "must be given at most %d times", maxFacets) {
		return nil
	}
	var keys []repository.FacetKey
	for _, text := range query["by"] {
		key, reason := parseFacetKey(text)
		if p.Refuse(reason != "", "by", "%s", reason) {
			return nil
		}
		if p.Refuse(slices.Contains(keys, key), "by", "has %s twice", key) {
			return nil
		}
		keys = append(keys, key)
	}
	return keys
}

// parseFacetKey reads the key of a facet: a path in payloads, header:NAME, or the name of a field. If the text is none
// of these, reason says why.
func parseFacetKey(text string) (key repository.FacetKey, reason string) {
	text = strings.TrimSpace(text)
	name, ofHeader := strings.CutPrefix(text, repository.FacetHeader)
	switch {
	case strings.HasPrefix(text, "$"):
		path, err := payload.ParsePath(text)
		if err != nil {
			return key, "is not a path: " + err.Error()
		}
		return repository.FacetKey{Path: path.String()}, ""
	case ofHeader && (name == "" || strings.Contains(name, "=") || !PossibleText(name, MaxFilterText)):
		return key, "must name a header as in header:tenant, without ="
	case ofHeader:
		return repository.FacetKey{Header: name}, ""
	case slices.Contains(repository.FacetFields(), repository.FacetField(text)):
		return repository.FacetKey{Field: repository.FacetField(text)}, ""
	}
	return key, "must be a path such as $.customer.id, header:NAME, or " + strings.TrimPrefix(OneOf(repository.FacetFields()), "must be ")
}

// ReadPath reads a parameter that is a path in the record's JSON; "" when it is missing.
func ReadPath(query url.Values, name string, p *Problems) string {
	text, err := Text(query, name)
	p.Add(err)
	if err != nil || !query.Has(name) {
		return ""
	}
	path, err := payload.ParsePath(strings.TrimSpace(text))
	if p.Refuse(err != nil, name, "is not a path: %v", err) {
		return ""
	}
	return path.String()
}
