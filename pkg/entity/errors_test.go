package entity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

var anID = uuid.MustParse("018f0000-0000-7000-8000-000000000001")

// TestErrors checks that an error matches its own kind and no other kind, and that its text stays the same, because
// clients read the text.
func TestErrors(t *testing.T) {
	t.Parallel()
	kinds := map[string]error{
		"ErrNotFound": entity.ErrNotFound, "ErrInvalid": entity.ErrInvalid, "ErrConflict": entity.ErrConflict,
		"ErrUnavailable": entity.ErrUnavailable, "ErrPublish": entity.ErrPublish,
	}
	cases := []struct {
		err        error
		kind, text string
	}{
		{&entity.NotFoundError{ID: anID}, "ErrNotFound", "dlq message not found: 018f0000-0000-7000-8000-000000000001"},
		{&entity.FieldError{Field: "page", Reason: "must be positive"}, "ErrInvalid", "page: must be positive"},
		{&entity.TransitionError{From: entity.Resolved, To: entity.Dead}, "ErrConflict", "message cannot move from RESOLVED to DEAD"},
		{&entity.NotRetryableError{Status: entity.Dead, RetryCount: 3, MaxRetries: 3}, "ErrConflict", "message is not retryable: status=DEAD, retry_count=3/3"},
		{&entity.ClaimedError{ID: anID}, "ErrConflict", "message is claimed by a running retry: 018f0000-0000-7000-8000-000000000001"},
		{&entity.RefusedError{Class: entity.LoopRefused, Reason: "orders.dlq.v1 is a dead-letter topic"}, "ErrConflict", "orders.dlq.v1 is a dead-letter topic"},
		{&entity.PublishError{ID: anID, Class: entity.NetworkTimeout, Reason: "no answer in 5s"}, "ErrPublish", "publish failed: NETWORK_TIMEOUT: no answer in 5s"},
		{&entity.InterruptedError{Redrive: entity.Redrive{ID: anID}, Err: context.Canceled}, "ErrUnavailable", "redrive 018f0000-0000-7000-8000-000000000001 is not over: context canceled"},
		{&entity.RedriveStateError{ID: anID, From: entity.RedriveFinished, To: entity.RedrivePaused}, "ErrConflict", "redrive 018f0000-0000-7000-8000-000000000001 is finished and cannot become paused"},
		{&entity.RedriveNotFoundError{ID: anID}, "ErrNotFound", "redrive not found: 018f0000-0000-7000-8000-000000000001"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%T", c.err), func(t *testing.T) {
			t.Parallel()
			if got := c.err.Error(); got != c.text {
				t.Errorf("Error() = %q, want %q", got, c.text)
			}
			wrapped := fmt.Errorf("retry message: %w", c.err)
			for name, kind := range kinds {
				if got, want := errors.Is(wrapped, kind), name == c.kind; got != want {
					t.Errorf("errors.Is(wrapped, %s) = %v, want %v", name, got, want)
				}
			}
		})
	}

	t.Run("InterruptedKeepsItsCause", func(t *testing.T) {
		t.Parallel()
		err := &entity.InterruptedError{Err: fmt.Errorf("drain: %w", context.Canceled)}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("errors.Is(%v, context.Canceled) = false, want true", err)
		}
	})
}
