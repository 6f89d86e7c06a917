package respond

import (
	"errors"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Detail names a part of the request and what is wrong with it.
type Detail struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Details is never nil, because clients iterate over it.
func Details(err error) []Detail {
	var (
		request     *Error
		refused     *entity.RefusedError
		publish     *entity.PublishError
		interrupted *entity.InterruptedError
		claimed     *entity.ClaimedError
		database    *repository.NeedsDatabaseError
	)
	switch {
	case errors.As(err, &request) && request.details != nil:
		return request.details
	case errors.As(err, &database):
		return []Detail{{"database", "is not configured"}}
	case errors.As(err, &refused):
		return []Detail{{"reason", refused.Reason}, {"class", string(refused.Class)}}
	case errors.As(err, &publish):
		return publishDetails(publish)
	case errors.As(err, &interrupted):
		return interruptedDetails(interrupted.Redrive)
	case errors.As(err, &claimed) && claimed.Unsettled:
		return []Detail{{"id", "mark it dead, or retry it with accept_duplicate"}}
	default:
		return append([]Detail{}, FieldDetails(err)...)
	}
}

func publishDetails(e *entity.PublishError) []Detail {
	list := []Detail{{"class", string(e.Class)}, {"status", e.Status.String()}}
	if !e.RetryAt.IsZero() {
		list = append(list, Detail{"retry_at", *wire.Stamp(e.RetryAt)})
	}
	return list
}

// interruptedDetails reports a redrive's progress.
func interruptedDetails(redrive entity.Redrive) []Detail {
	counts := redrive.Counts
	return []Detail{
		{"redrive_id", redrive.ID.String()},
		{"selected", strconv.Itoa(redrive.Selected)},
		{"resolved", strconv.Itoa(counts.Succeeded)},
		{"failed", strconv.Itoa(counts.Failed)},
		{"dead", strconv.Itoa(counts.Dead)},
		{"in_doubt", strconv.Itoa(counts.InDoubt)},
		{"skipped", strconv.Itoa(counts.Skipped)},
		{"waiting", strconv.Itoa(counts.Waiting)},
	}
}

// FieldDetails collects every entity.FieldError, also of errors that were joined.
func FieldDetails(err error) []Detail {
	switch e := err.(type) { //nolint:errorlint // this walks the chain itself
	case *entity.FieldError:
		return []Detail{{e.Field, e.Reason}}
	case interface{ Unwrap() error }:
		return FieldDetails(e.Unwrap())
	case interface{ Unwrap() []error }:
		var list []Detail
		for _, child := range e.Unwrap() {
			list = append(list, FieldDetails(child)...)
		}
		return list
	default:
		return nil
	}
}
