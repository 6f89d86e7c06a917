package codec

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Expected is the number of messages for which the reader of a page allocates memory in advance. The number is small,
// so that a request for a large page allocates little memory when the topic has few messages.
const Expected = 64

// ShownPage counts the headers of all messages on a page, because a page may show only a limited number of headers.
type ShownPage struct{ headers int }

// Message returns the message of a row of the page. When the message's headers exceed the limit of a message or of the
// page, it leaves them all out.
func (p *ShownPage) Message(ctx context.Context, r *Row) (entity.Message, error) {
	m, err := r.MessageToShow()
	if err != nil {
		return m, err
	}
	p.BoundHeaders(&m.Record)
	return m, repository.ReserveMemory(ctx, repository.SizeInMemory(&m))
}

// BoundHeaders removes all headers of a record when they exceed the limit of a message or of the page.
func (p *ShownPage) BoundHeaders(r *entity.Record) {
	p.headers += len(r.Headers)
	if len(r.Headers) > 0 && (r.HeadersOmitted || p.headers > repository.ListHeaderLimit) {
		r.Headers, r.HeadersOmitted = nil, true
	}
}

// OneQuery returns the query for the message $1 with its bytes. A key longer than keyLimit bytes and a value longer
// than $2 bytes are left out; of the headers, the query reads only the first bytes, which viewFirst needs.
func OneQuery(from Source, keyLimit int) string {
	return `
	SELECT ` + StateColumns + `, ` + FirstByteColumns("$2::bigint", keyLimit) + `, ` + ConsumptionColumns + `
	FROM ` + from.View + ` m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + ConsumptionOf + `
	WHERE ` + from.Has("$1")
}

// ListedSize returns the SQL expression for the number of bytes of the error message, key, headers and value that a
// page loads for the message with the alias m. A key, headers or a value longer than the limit are not loaded, so their
// bytes do not count.
func ListedSize(limit string) string {
	return ListedSizeWithout(limit) + `
			+ CASE WHEN coalesce(octet_length(m.value), pg_column_size(m.payload)) <= ` + limit + `
			       THEN coalesce(octet_length(m.value), pg_column_size(m.payload)) ELSE 0 END`
}

// ListedSizeWithout returns the same expression as ListedSize, but for a page without values.
func ListedSizeWithout(limit string) string {
	return `
			octet_length(m.error_message)
			+ CASE WHEN octet_length(m.key) <= ` + limit + ` THEN octet_length(m.key) ELSE 0 END
			+ CASE WHEN octet_length(m.headers) <= ` + limit + ` THEN octet_length(m.headers) ELSE 0 END`
}
