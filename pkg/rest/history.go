package rest

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

type historyJSON struct {
	ID       uuid.UUID     `json:"id"`
	Attempts []attemptJSON `json:"attempts"`
}

type attemptJSON struct {
	Number     int                `json:"number"`
	RedriveID  uuid.UUID          `json:"redrive_id"` // as the record's header dlq-redrive-id has it
	Actor      *string            `json:"actor"`
	StartedAt  *string            `json:"started_at"`
	EndedAt    *string            `json:"ended_at"`
	From       entity.Status      `json:"from_status"`
	To         entity.Status      `json:"to_status"`
	ErrorClass *entity.ErrorClass `json:"error_class"`
	Error      *string            `json:"error"`
	Topic      *string            `json:"topic"`
	Partition  *int32             `json:"partition"`
	Offset     *int64             `json:"offset"`
}

// getHistory asks for the message first, since a message that nobody retried
// and one that does not exist have the same history.
func (s *Server) getHistory(w http.ResponseWriter, r *http.Request) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	if _, err := s.store.Get(r.Context(), id, 0); err != nil {
		return err
	}
	attempts, err := s.store.History(r.Context(), id)
	if err != nil {
		return err
	}
	list := make([]attemptJSON, 0, len(attempts))
	for _, a := range attempts {
		list = append(list, showAttempt(a))
	}
	writeJSON(w, http.StatusOK, historyJSON{id, list})
	return nil
}

func showAttempt(a entity.Attempt) attemptJSON {
	return attemptJSON{
		Number:     a.Number,
		RedriveID:  a.ID,
		Actor:      orNull(a.Actor),
		StartedAt:  stamp(a.StartedAt),
		EndedAt:    stamp(a.EndedAt),
		From:       a.From,
		To:         a.To,
		ErrorClass: orNull(a.Class),
		Error:      orNull(a.Error),
		Topic:      orNull(a.Topic),
		Partition:  partitionOf(a.Topic, a.Partition),
		Offset:     offsetOf(a.Topic, a.Offset),
	}
}

// partitionOf is null where nothing was sent anywhere: 0 is a partition.
func partitionOf(topic string, partition int32) *int32 {
	if topic == "" || partition < 0 {
		return nil
	}
	return &partition
}

// offsetOf is null also where a record was sent and its offset is not known.
func offsetOf(topic string, offset int64) *int64 {
	if topic == "" || offset < 0 {
		return nil
	}
	return &offset
}
