package postgres

import (
	"context"
	"database/sql"
	"fmt"
)

// maxPrepared is how many statements stay prepared. Those that have a page's size in
// their text could be very many, and each takes memory of every connection.
const maxPrepared = 160

// eachRow runs a prepared query and calls do for each of its rows, which is good
// until do returns; what it holds of bytes may be kept. total, if it is not nil,
// gets the column of that name first.
//
// A page has some fifty columns, and to find the place of each by reflection, row
// after row, costs more than to read them.
func (s *Store) eachRow(ctx context.Context, query string, args []any, total *int64, do func(*row) error) (err error) {
	defer func() {
		if denied(err) {
			s.dropConnections()
		}
	}()
	rows, err := s.query(ctx, query, args)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err tells
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var r row
	places, err := r.places(columns, total)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if err := do(&r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// query keeps the statement prepared as long as there are not too many.
func (s *Store) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	s.mu.Lock()
	full := len(s.prepared) >= maxPrepared && s.prepared[query] == nil
	s.mu.Unlock()
	if full {
		st, err := s.db.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		defer func() { _ = st.Close() }()    // once its rows are closed
		return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
	}
	st, err := s.stmt(ctx, query) //nolint:sqlclosecheck // it is kept for the next time
	if err != nil {
		return nil, err
	}
	return st.Stmt.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
}

// places are where the columns of a query belong.
func (r *row) places(columns []string, total *int64) ([]any, error) {
	places := make([]any, len(columns))
	for i, name := range columns {
		if places[i] = r.place(name); places[i] == nil && name == "total" && total != nil {
			places[i] = total
		}
		if places[i] == nil {
			return nil, fmt.Errorf("a message has no place for column %s", name)
		}
	}
	return places, nil
}

// place is where the column of that name belongs; nil when there is none.
func (r *row) place(column string) any {
	switch column {
	case "id":
		return &r.ID
	case "original_topic":
		return &r.OriginalTopic
	case "error_message":
		return &r.ErrorMessage
	case "retry_count":
		return &r.RetryCount
	case "max_retries":
		return &r.MaxRetries
	case "status":
		return &r.Status
	case "created_at":
		return &r.CreatedAt
	case "updated_at":
		return &r.UpdatedAt
	case "last_retry_at":
		return &r.LastRetryAt
	case "dlq_topic":
		return &r.DLQTopic
	case "dlq_topic_id":
		return &r.DLQTopicID
	case "dlq_incarnation_id":
		return &r.DLQIncarnation
	case "dlq_partition":
		return &r.DLQPartition
	case "dlq_offset":
		return &r.DLQOffset
	case "dlq_timestamp":
		return &r.DLQTimestamp
	case "original_partition":
		return &r.OriginalPartition
	case "original_offset":
		return &r.OriginalOffset
	case "original_timestamp":
		return &r.OriginalTimestamp
	case "origin_confidence":
		return &r.OriginConfidence
	case "consumer_group":
		return &r.ConsumerGroup
	case "consumer_attempts":
		return &r.ConsumerAttempts
	case "dialect":
		return &r.Dialect
	case "error_class":
		return &r.ErrorClass
	case "group_id":
		return &r.Group
	case "parent_id":
		return &r.ParentID
	case "root_id":
		return &r.RootID
	case "claim_id":
		return &r.ClaimID
	case "claim_expires_at":
		return &r.ClaimExpiresAt
	case "claim_topic":
		return &r.ClaimTopic
	case "claim_topic_id":
		return &r.ClaimTopicID
	case "claim_partition":
		return &r.ClaimPartition
	case "claim_end_offset":
		return &r.ClaimEndOffset
	case "claim_redrive_id":
		return &r.ClaimRedriveID
	case "unsettled":
		return &r.Unsettled
	case "next_attempt_at":
		return &r.NextAttemptAt
	case "last_publish_error":
		return &r.LastPublishError
	case "last_publish_error_class":
		return &r.LastPublishErrorClass
	case "outcome":
		return &r.Outcome
	case "consumed_group":
		return &r.ConsumedGroup
	case "consumed_offset":
		return &r.ConsumedOffset
	case "consumed_seen_at":
		return &r.ConsumedSeenAt
	case "key":
		return &r.Key
	case "headers":
		return &r.Headers
	case "value":
		return &r.Value
	case "value_size":
		return &r.ValueSize
	case "omitted_sha256":
		return &r.OmittedSHA256
	case "omitted_size":
		return &r.OmittedSize
	case "payload_text":
		return &r.Payload
	case "has_payload":
		return &r.HasPayload
	case "has_headers":
		return &r.HasHeaders
	}
	return nil
}
