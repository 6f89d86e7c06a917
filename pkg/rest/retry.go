package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Redriver sends messages back to where they came from, and ends what attempts
// may own. An attempt that nobody settled yet is settled first; *entity.ClaimedError
// means that it is still at work, or that nobody can tell how it ended.
type Redriver interface {
	// Retry makes one attempt and waits for its end. Without success the error is
	// an *entity.PublishError, or the reason why no attempt was made.
	// acceptDuplicate lets a message be sent whose last attempt nobody can settle.
	Retry(ctx context.Context, id uuid.UUID, acceptDuplicate bool, actor string) (entity.RetryResult, error)

	// RetryAll retries everything in the topic that can be retried now. When ctx
	// ends it finishes what it began and answers *entity.InterruptedError.
	RetryAll(ctx context.Context, topic, actor string) (entity.RedriveReport, error)

	// GiveUp marks a message dead.
	GiveUp(ctx context.Context, id uuid.UUID, actor string) (entity.Message, error)

	// Delete removes a message for good.
	Delete(ctx context.Context, id uuid.UUID, actor string) error
}

type retryJSON struct {
	ID        uuid.UUID     `json:"id"`
	Status    entity.Status `json:"status"`
	Message   string        `json:"message"`
	Published bool          `json:"published"`
	Topic     *string       `json:"topic"`
	Partition *int32        `json:"partition"`
	Offset    *int64        `json:"offset"`
}

func (s *Server) retryMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	var acceptDuplicate bool
	if err := s.readBody(w, r, fields{"accept_duplicate": &acceptDuplicate}); err != nil {
		return err
	}
	result, err := s.redriver.Retry(r.Context(), id, acceptDuplicate, anonymous)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, showRetry(result))
	return nil
}

func showRetry(result entity.RetryResult) retryJSON {
	shown := retryJSON{ID: result.ID, Status: result.Status, Message: "message retry initiated", Published: result.Published}
	if result.Published {
		shown.Topic = orNull(result.Topic)
		shown.Partition = partitionOf(result.Topic, result.Partition)
		shown.Offset = offsetOf(result.Topic, result.Offset)
	}
	return shown
}

type retryAllJSON struct {
	Retried   int            `json:"retried"`
	Message   string         `json:"message"`
	RedriveID *uuid.UUID     `json:"redrive_id"`
	Selected  int            `json:"selected"`
	Failed    int            `json:"failed"`
	Dead      int            `json:"dead"`
	InDoubt   int            `json:"in_doubt"`
	Skipped   int            `json:"skipped"`
	Reasons   map[string]int `json:"reasons"`
}

func (s *Server) retryTopic(w http.ResponseWriter, r *http.Request) error {
	if err := s.readBody(w, r, fields{}); err != nil {
		return err
	}
	name := topic(r)
	var report entity.RedriveReport
	if possibleTopic(name) {
		var err error
		if report, err = s.redriver.RetryAll(r.Context(), name, anonymous); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, showReport(name, report))
	return nil
}

func showReport(topic string, report entity.RedriveReport) retryAllJSON {
	reasons := report.Reasons
	if reasons == nil {
		reasons = map[string]int{}
	}
	return retryAllJSON{
		Retried:   report.Resolved,
		Message:   fmt.Sprintf("%d messages retried in topic %s", report.Resolved, topic),
		RedriveID: orNull(report.ID),
		Selected:  report.Selected,
		Failed:    report.Failed,
		Dead:      report.Dead,
		InDoubt:   report.InDoubt,
		Skipped:   report.Skipped,
		Reasons:   reasons,
	}
}
