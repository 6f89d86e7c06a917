package opensearch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

// alias returns the name of the alias of all indexes of a version.
func (c *Client) alias(version int64) string {
	return fmt.Sprintf("%s-%016x", c.prefix, uint64(version))
} //nolint:gosec // any 64 bits

// index returns the name of the index of a day.
func (c *Client) index(version int64, day time.Time) string {
	return c.alias(version) + "-" + DayOf(day).Format(time.DateOnly)
}

// The first and the last index have the documents of all earlier and of all later times.
var (
	earliestDay = time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	latestDay   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// DayOf returns the day of the index that has the document of a message.
func DayOf(createdAt time.Time) time.Time {
	switch day := createdAt.UTC().Truncate(24 * time.Hour); {
	case day.Before(earliestDay):
		return earliestDay
	case day.After(latestDay):
		return latestDay
	default:
		return day
	}
}

type object = map[string]any

// mapping says how documents are indexed. A field that it does not name is not indexed, except the slots of values.
func mapping() object {
	keyword := object{"type": "keyword"}
	return object{
		"dynamic":           false,
		"dynamic_templates": []object{{"slots": object{"path_match": "values.*", "mapping": object{"type": "keyword", "index": false}}}},
		"properties": object{
			"id": keyword, "created": object{"type": "long"}, "digest": object{"type": "integer", "index": false},
			"topic": keyword, "dlq_topic": keyword, "error_class": keyword, "consumer_group": keyword, "dialect": keyword, "group": keyword,
			"archived": object{"type": "boolean"},
			"text":     object{"type": "wildcard"},
			"terms":    object{"type": "keyword", "doc_values": false, "norms": false},
			"values":   object{"type": "object", "dynamic": true},
		},
	}
}

// prepare writes the template from which OpenSearch makes the indexes of a version.
func (c *Client) prepare(ctx context.Context, version int64) error {
	c.mu.Lock()
	known := c.templates[version]
	c.mu.Unlock()
	if known {
		return nil
	}
	err := c.do(ctx, http.MethodPut, "/_index_template/"+c.alias(version), object{
		"index_patterns": []string{c.alias(version) + "-*"},
		"priority":       500,
		"template": object{
			"settings": object{"index": object{
				"max_regex_length": 10_000,
				// In the order of most lists, so that a search for a common word ends with the first page of each segment.
				"sort.field": []string{"created", "id"}, "sort.order": []string{"desc", "desc"},
			}},
			"mappings": mapping(),
			"aliases":  object{c.alias(version): object{}},
		},
	}, nil)
	if err == nil {
		c.mu.Lock()
		c.templates[version] = true
		c.mu.Unlock()
	}
	return err
}

// Forget makes the next write of documents prepare OpenSearch again, in case an operator has removed the template.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.templates)
}

// searchPath returns the path of a search in an index or alias that may not exist. When an index does not answer, the
// search fails: results without the documents of this index would be incomplete.
func (c *Client) searchPath(index string) string {
	return "/" + url.PathEscape(index) + "/_search?ignore_unavailable=true&allow_no_indices=true&" + allResults
}

const allResults = "allow_partial_search_results=false"

// Clear deletes all documents of a version.
func (c *Client) Clear(ctx context.Context, version int64) error {
	return c.deleteIndexes(ctx, func(alias string, _ time.Time, _ bool) bool { return alias == c.alias(version) })
}

// Tidy deletes the indexes of days before a time that have no documents and, with others, the indexes and templates of
// all other versions.
func (c *Client) Tidy(ctx context.Context, version int64, others bool, before time.Time) error {
	old := map[string]bool{}
	err := c.deleteIndexes(ctx, func(alias string, day time.Time, empty bool) bool {
		if alias != c.alias(version) {
			old[alias] = true
			return others
		}
		return empty && day.Before(before)
	})
	if err != nil || !others {
		return err
	}
	for name := range old {
		if err := c.delete(ctx, "/_index_template/"+name); err != nil {
			return err
		}
	}
	return nil
}

// deleteIndexes deletes those indexes for which the function chosen returns true. It calls chosen with the alias and the
// day of each index, and whether it has no documents.
func (c *Client) deleteIndexes(ctx context.Context, chosen func(alias string, day time.Time, empty bool) bool) error {
	var indexes []struct {
		Name      string `json:"index"`
		Documents string `json:"docs.count"`
	}
	path := "/_cat/indices/" + url.PathEscape(c.prefix+"-*") + "?format=json&h=index,docs.count"
	if err := c.do(ctx, http.MethodGet, path, nil, &indexes); err != nil {
		return err
	}
	own := regexp.MustCompile(`^(` + regexp.QuoteMeta(c.prefix) + `-[0-9a-f]{16})-(\d{4}-\d\d-\d\d)$`)
	for _, index := range indexes {
		match := own.FindStringSubmatch(index.Name)
		if match == nil {
			continue
		}
		day, err := time.Parse(time.DateOnly, match[2])
		if err != nil || !chosen(match[1], day, index.Documents == "0") {
			continue
		}
		if err := c.delete(ctx, "/"+url.PathEscape(index.Name)); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object that may not exist.
func (c *Client) delete(ctx context.Context, path string) error {
	err := c.do(ctx, http.MethodDelete, path, nil, nil)
	if missing(err) {
		return nil
	}
	return err
}
