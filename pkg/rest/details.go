package rest

import (
	"errors"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

type detail struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// details is never nil, because clients iterate over it.
func details(err error) []detail {
	var (
		request     *requestError
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
		return []detail{{"database", "is not configured"}}
	case errors.As(err, &refused):
		return []detail{{"reason", refused.Reason}, {"class", string(refused.Class)}}
	case errors.As(err, &publish):
		return publishDetails(publish)
	case errors.As(err, &interrupted):
		return interruptedDetails(interrupted.Redrive)
	case errors.As(err, &claimed) && claimed.Unsettled:
		return []detail{{"id", "mark it dead, or retry it with accept_duplicate"}}
	default:
		return append([]detail{}, fieldDetails(err)...)
	}
}

func publishDetails(e *entity.PublishError) []detail {
	list := []detail{{"class", string(e.Class)}, {"status", e.Status.String()}}
	if !e.RetryAt.IsZero() {
		list = append(list, detail{"retry_at", *stamp(e.RetryAt)})
	}
	return list
}

// interruptedDetails reports a redrive's progress.
func interruptedDetails(redrive entity.Redrive) []detail {
	counts := redrive.Counts
	return []detail{
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

// fieldDetails collects every entity.FieldError, also of errors that were joined.
func fieldDetails(err error) []detail {
	switch e := err.(type) { //nolint:errorlint // this walks the chain itself
	case *entity.FieldError:
		return []detail{{e.Field, e.Reason}}
	case interface{ Unwrap() error }:
		return fieldDetails(e.Unwrap())
	case interface{ Unwrap() []error }:
		var list []detail
		for _, child := range e.Unwrap() {
			list = append(list, fieldDetails(child)...)
		}
		return list
	default:
		return nil
	}
}
