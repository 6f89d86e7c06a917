package codec

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Expected is for how many messages of a page memory is reserved in advance, so that a request for a large page of
// a small topic reserves no more.
const Expected = 64

// ShownPage counts the headers of a page.
type ShownPage struct{ headers int }

// Message returns the message of a row of the page. Its headers are left out unless all of them are within the
// limits.
func (p *ShownPage) Message(ctx context.Context, r *Row) (entity.Message, error) {
	m, err := r.MessageToShow()
	if err != nil {
		return m, err
	}
	p.BoundHeaders(&m.Record)
	return m, repository.ReserveMemory(ctx, repository.SizeInMemory(&m))
}

// BoundHeaders removes the headers of a record if they are over the limits.
func (p *ShownPage) BoundHeaders(r *entity.Record) {
	p.headers += len(r.Headers)
	if len(r.Headers) > 0 && (r.HeadersOmitted || p.headers > repository.ListHeaderLimit) {
		r.Headers, r.HeadersOmitted = nil, true
	}
}

// OneQuery reads one message with its bytes and a key of at most keyLimit bytes.
func OneQuery(from Source, keyLimit int) string {
	return `
	SELECT ` + StateColumns + `, ` + FirstByteColumns("$2::bigint", keyLimit) + `, ` + ConsumptionColumns + `
	FROM ` + from.View + ` m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + ConsumptionOf + `
	WHERE ` + from.Has("$1")
}

// ListedSize returns the SQL expression for how many bytes of m a page loads: a part that is too large by itself
// does not count.
func ListedSize(limit string) string {
	return ListedSizeWithout(limit) + `
			+ CASE WHEN coalesce(octet_length(m.value), pg_column_size(m.payload)) <= ` + limit + `
			       THEN coalesce(octet_length(m.value), pg_column_size(m.payload)) ELSE 0 END`
}

// ListedSizeWithout is ListedSize without the value.
func ListedSizeWithout(limit string) string {
	return `
			octet_length(m.error_message)
			+ CASE WHEN octet_length(m.key) <= ` + limit + ` THEN octet_length(m.key) ELSE 0 END
			+ CASE WHEN octet_length(m.headers) <= ` + limit + ` THEN octet_length(m.headers) ELSE 0 END`
}
