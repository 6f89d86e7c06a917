package wire

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// RetryResult is the answer to a retry of one message.
type RetryResult struct {
	ID        uuid.UUID     `json:"id"`
	Status    entity.Status `json:"status"`
	Message   string        `json:"message"`
	Published bool          `json:"published"`
	Topic     *string       `json:"topic"`
	Partition *int32        `json:"partition"`
	Offset    *int64        `json:"offset"`
	Attempt   *uuid.UUID    `json:"dlq_redrive_id"`
	Edited    bool          `json:"edited"`
}

// NewRetryResult shows the result of an attempt.
func NewRetryResult(result entity.RetryResult) RetryResult {
	shown := RetryResult{ID: result.ID, Status: result.Status, Message: "message retry initiated", Published: result.Published}
	if result.Published {
		shown.Topic = OrNull(result.Topic)
		shown.Partition = sentTo(result.Topic, result.Partition)
		shown.Offset = sentTo(result.Topic, result.Offset)
		if result.Attempt != uuid.Nil {
			shown.Attempt = &result.Attempt
		}
	}
	return shown
}

// RetryAllResult is the answer to a request that retries a topic and waits for the end.
type RetryAllResult struct {
	Retried   int            `json:"retried"`
	Message   string         `json:"message"`
	RedriveID *uuid.UUID     `json:"redrive_id"`
	Selected  int            `json:"selected"`
	Failed    int            `json:"failed"`
	Dead      int            `json:"dead"`
	InDoubt   int            `json:"in_doubt"`
	Skipped   int            `json:"skipped"`
	Waiting   int            `json:"waiting"` // messages without a result; 0 unless the redrive was cancelled
	Reasons   map[string]int `json:"reasons"`
}

// NewRetryAllResult shows the results of a redrive that retried a topic and has ended.
func NewRetryAllResult(topic string, redrive entity.Redrive) RetryAllResult {
	counts := redrive.Counts
	return RetryAllResult{
		Retried: counts.Succeeded, Message: fmt.Sprintf("%d messages retried in topic %s", counts.Succeeded, topic),
		RedriveID: OrNull(redrive.ID), Selected: redrive.Selected, Failed: counts.Failed, Dead: counts.Dead,
		InDoubt: counts.InDoubt, Skipped: counts.Skipped, Waiting: counts.Waiting,
		Reasons: reasons(counts.Reasons),
	}
}

// Deleted is the answer to the deletion of an object.
type Deleted struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// Changed is the answer to a change of a message's status.
type Changed struct {
	ID         uuid.UUID     `json:"id"`
	Status     entity.Status `json:"status"`
	RetryCount int           `json:"retry_count"`
	MaxRetries int           `json:"max_retries"`
	Message    string        `json:"message"`
}

// Pagination says which page of a list an answer contains, and how many messages the whole list has.
type Pagination struct {
	TotalCount int64 `json:"total_count"`
	Page       int   `json:"page"`
	PageSize   int   `json:"page_size"`
	HasNext    bool  `json:"has_next"`
}

// Origin is the answer to setting the original topic of a message.
type Origin struct {
	ID            uuid.UUID         `json:"id"`
	OriginalTopic string            `json:"original_topic"`
	Confidence    entity.Confidence `json:"origin_confidence"`
}

// Restored is the answer to restoring a message from the archive.
type Restored struct {
	ID      uuid.UUID     `json:"id"`
	Status  entity.Status `json:"status"`
	Message string        `json:"message"`
}

// Erased is the answer to erasing a message of the archive.
type Erased struct {
	Success       bool    `json:"success"`
	Message       string  `json:"message"`
	RetainedUntil *string `json:"retained_until"` // time until which an object lock keeps the bytes; null: no object lock keeps them
	Pending       bool    `json:"pending"`        // the bytes may still be stored, and are then deleted later
}

// Session is the principal of a request and its grants.
type Session struct {
	Name    string  `json:"name"`
	Mode    string  `json:"mode"`
	Grants  []Grant `json:"grants"`
	Masking bool    `json:"masking"`
}

// Grant is a role on topics.
type Grant struct {
	Role   auth.Role `json:"role"`
	Topics []string  `json:"topics"`
}
