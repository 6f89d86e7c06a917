package opensearch

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Page selects a part of the found messages, sorted by created_at and id.
type Page struct {
	Ascending bool
	After     repository.Cursor // position of the last message of the previous part; the zero Cursor for the first part
	Limit     int
}

func (p Page) sort() []object {
	order := "desc"
	if p.Ascending {
		order = "asc"
	}
	return []object{{"created": order}, {"id": order}}
}

// body returns the body of a search for the part of the found messages that the Page selects.
func (p Page) body(q Query) object {
	body := object{
		"size": p.Limit, "_source": []string{"id", "created"}, "sort": p.sort(), "track_total_hits": false,
		"query": object{"bool": object{"filter": q.clauses()}},
	}
	if p.After != (repository.Cursor{}) {
		body["search_after"] = []any{p.After.CreatedAt.UnixMicro(), p.After.ID.String()}
	}
	return body
}

// Find returns a part of the messages whose documents match.
func (c *Client) Find(ctx context.Context, version int64, q Query, p Page) ([]repository.Cursor, error) {
	var found hits
	if err := c.search(ctx, c.searchPath(c.alias(version)), p.body(q), &found); err != nil {
		return nil, err
	}
	return found.cursors()
}

func (h *hits) cursors() ([]repository.Cursor, error) {
	ids, err := h.ids()
	cursors := make([]repository.Cursor, len(ids))
	for i, id := range ids {
		cursors[i] = repository.Cursor{CreatedAt: time.UnixMicro(h.Hits.Hits[i].Source.Created).UTC(), ID: id}
	}
	return cursors, err
}

// Count returns the number of documents that match.
func (c *Client) Count(ctx context.Context, version int64, q Query) (int64, error) {
	found, err := c.aggregate(ctx, version, q, object{})
	return found.Hits.Total.Value, err
}

// pitLife is the time for which OpenSearch keeps a point in time after its last use.
const pitLife = "5m"

// FindAll calls yield for all messages whose documents match at one point in time, some of them at once, in the order of
// p. It stops at the first error of yield.
func (c *Client) FindAll(ctx context.Context, version int64, q Query, p Page, yield func([]repository.Cursor) error) error {
	var opened struct {
		ID string `json:"pit_id"`
	}
	err := c.do(ctx, http.MethodPost, "/"+url.PathEscape(c.alias(version))+"/_search/point_in_time?keep_alive="+pitLife, nil, &opened)
	if missing(err) {
		return nil // no document was ever written
	}
	if err != nil {
		return err
	}
	pit := opened.ID
	defer func() {
		// It would expire by itself.
		_ = c.do(context.WithoutCancel(ctx), http.MethodDelete, "/_search/point_in_time", object{"pit_id": []string{pit}}, nil)
	}()
	for {
		body := p.body(q)
		body["pit"] = object{"id": pit, "keep_alive": pitLife}
		var found hits
		if err := c.search(ctx, "/_search?"+allResults, body, &found); err != nil {
			return err
		}
		if found.PIT != "" {
			pit = found.PIT
		}
		cursors, err := found.cursors()
		if err != nil || len(cursors) == 0 {
			return err
		}
		if err := yield(cursors); err != nil {
			return err
		}
		if len(cursors) < p.Limit {
			return nil
		}
		p.After = cursors[len(cursors)-1]
	}
}
