package postgres

import (
	"context"
	"database/sql"
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
func (s *Store) eachRow(ctx context.Context, query string, args []any, total *int64, do func(*row) error) error {
	return s.withRows(ctx, query, args, func(rows *sql.Rows) error {
		return scanRows(rows, func(r *scannedRow) error {
			if total != nil {
				*total = r.total.Int64
			}
			return do(&r.row)
		})
	})
}

// scanRows calls do for each of rows, as eachRow does. It does not close them.
func scanRows(rows *sql.Rows, do func(*scannedRow) error) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	r, err := scannedRowFor(columns)
	if err != nil {
		return err
	}
	defer r.done()
	for rows.Next() {
		if err := r.scan(rows); err != nil {
			return err
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// place is where the column of that name belongs; nil when there is none.
func (r *scannedRow) place(column string) any {
	switch column {
	case "total":
		return (*int64Cell)(&r.total)
	case "cut":
		return (*boolCell)(&r.Cut)
	case "id":
		return (*idCell)(&r.ID)
	case "original_topic":
		return (*textCell)(&r.OriginalTopic)
	case "error_message":
		return (*textCell)(&r.ErrorMessage)
	case "retry_count":
		return (*int32Cell)(&r.RetryCount)
	case "max_retries":
		return (*int32Cell)(&r.MaxRetries)
	case "status":
		return (*textCell)(&r.Status)
	case "created_at":
		return (*timeCell)(&r.CreatedAt)
	case "updated_at":
		return (*timeCell)(&r.UpdatedAt)
	case "last_retry_at":
		return (*timeCell)(&r.LastRetryAt)
	case "dlq_topic":
		return (*textCell)(&r.DLQTopic)
	case "dlq_topic_id":
		return (*int32Cell)(&r.DLQTopicID)
	case "dlq_incarnation_id":
		return (*int32Cell)(&r.DLQIncarnation)
	case "dlq_partition":
		return (*int32Cell)(&r.DLQPartition)
	case "dlq_offset":
		return (*int64Cell)(&r.DLQOffset)
	case "dlq_timestamp":
		return (*timeCell)(&r.DLQTimestamp)
	case "dlq_timestamp_ms":
		return (*int64Cell)(&r.DLQTimestampMs)
	case "original_partition":
		return numberCell[int32]{&r.OriginalPartition}
	case "original_offset":
		return numberCell[int64]{&r.OriginalOffset}
	case "original_timestamp":
		return (*timeCell)(&r.OriginalTimestamp)
	case "origin_confidence":
		return (*textCell)(&r.OriginConfidence)
	case "consumer_group":
		return (*textCell)(&r.ConsumerGroup)
	case "consumer_attempts":
		return (*int32Cell)(&r.ConsumerAttempts)
	case "dialect":
		return (*textCell)(&r.Dialect)
	case "error_class":
		return (*textCell)(&r.ErrorClass)
	case "group_id":
		return (*idCell)(&r.Group)
	case "parent_id":
		return (*idCell)(&r.ParentID)
	case "root_id":
		return (*idCell)(&r.RootID)
	case "unconfirmed_return":
		return (*boolCell)(&r.UnconfirmedReturn)
	case "claim_id":
		return (*idCell)(&r.ClaimID)
	case "claim_expires_at":
		return (*timeCell)(&r.ClaimExpiresAt)
	case "claim_topic":
		return (*textCell)(&r.ClaimTopic)
	case "claim_topic_id":
		return (*textCell)(&r.ClaimTopicID)
	case "claim_partition":
		return (*int32Cell)(&r.ClaimPartition)
	case "claim_end_offset":
		return (*int64Cell)(&r.ClaimEndOffset)
	case "claim_redrive_id":
		return (*idCell)(&r.ClaimRedriveID)
	case "unsettled":
		return (*boolCell)(&r.Unsettled)
	case "next_attempt_at":
		return (*timeCell)(&r.NextAttemptAt)
	case "last_publish_error":
		return (*textCell)(&r.LastPublishError)
	case "last_publish_error_class":
		return (*textCell)(&r.LastPublishErrorClass)
	case "outcome":
		return (*textCell)(&r.Outcome)
	case "consumed_group":
		return (*textCell)(&r.ConsumedGroup)
	case "consumed_offset":
		return (*int64Cell)(&r.ConsumedOffset)
	case "consumed_seen_at":
		return (*timeCell)(&r.ConsumedSeenAt)
	case "key":
		return bytesCell{r, &r.Key}
	case "key_size":
		return (*int64Cell)(&r.KeySize)
	case "headers":
		return bytesCell{r, &r.Headers}
	case "value":
		return bytesCell{r, &r.Value}
	case "value_size":
		return (*int64Cell)(&r.ValueSize)
	case "omitted_sha256":
		return bytesCell{r, &r.OmittedSHA256}
	case "omitted_size":
		return (*int64Cell)(&r.OmittedSize)
	case "defect":
		return bytesCell{r, &r.Defect}
	case "payload_text":
		return bytesCell{r, &r.Payload}
	case "has_payload":
		return (*boolCell)(&r.HasPayload)
	case "has_headers":
		return (*boolCell)(&r.HasHeaders)
	}
	return nil
}
