package rest

import (
	"errors"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// detail is one fact about an error that programs can read.
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
	)
	switch {
	case errors.As(err, &request) && request.details != nil:
		return request.details
	case errors.As(err, &refused):
		return []detail{{"reason", refused.Reason}, {"class", string(refused.Class)}}
	case errors.As(err, &publish):
		return publishDetails(publish)
	case errors.As(err, &interrupted):
		return []detail{{"redrive_id", interrupted.Report.ID.String()}}
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

// fieldDetails collects every entity.FieldError, also of errors that were
// joined.
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
