package opensearch

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Sum returns which documents of a version OpenSearch has in a range.
func (c *Client) Sum(ctx context.Context, version int64, r repository.EngineRange) (repository.EngineSum, error) {
	var found struct {
		Hits struct {
			Total struct {
				Value int64 `json:"value"`
			} `json:"total"`
		} `json:"hits"`
		Aggregations struct {
			Sum struct {
				Value float64 `json:"value"`
			} `json:"sum"`
		} `json:"aggregations"`
	}
	err := c.search(ctx, c.searchPath(c.alias(version)), object{
		"size": 0, "track_total_hits": true, "query": createdClause(r.From, r.Before), "aggs": object{"sum": object{"sum": object{"field": "digest"}}},
	}, &found)
	return repository.EngineSum{Documents: found.Hits.Total.Value, Digests: int64(found.Aggregations.Sum.Value)}, err
}

// Documents returns the positions of the documents in a range, in the order of their ids after a given id.
func (c *Client) Documents(ctx context.Context, version int64, r repository.EngineRange, after uuid.UUID, limit int) ([]repository.Cursor, error) {
	var found hits
	err := c.search(ctx, c.searchPath(c.alias(version)), object{
		"size": limit, "_source": []string{"id", "created"}, "query": createdClause(r.From, r.Before), "sort": []object{{"id": "asc"}},
		"search_after": []any{after.String()}, "track_total_hits": false,
	}, &found)
	if err != nil {
		return nil, err
	}
	return found.cursors()
}
