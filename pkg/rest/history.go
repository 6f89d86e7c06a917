package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// maxLineage is how many ancestors of a message are read. A lineage has at most as many messages as attempts are
// allowed, which are few.
const maxLineage = 50

type historyJSON struct {
	ID uuid.UUID `json:"id"`
	pastJSON
	Lineage []ancestorJSON `json:"lineage"`
}

// pastJSON lists attempts and changes, oldest first.
type pastJSON struct {
	Attempts []attemptJSON `json:"attempts"`
	Changes  []changeJSON  `json:"changes"`
}

type attemptJSON struct {
	Number        int                `json:"number"`
	RedriveID     uuid.UUID          `json:"redrive_id"`      // the value of the record's header dlq-redrive-id
	BulkRedriveID *uuid.UUID         `json:"bulk_redrive_id"` // id of the object under /redrives
	RetryCount    int                `json:"retry_count"`
	Actor         *string            `json:"actor"`
	StartedAt     *string            `json:"started_at"`
	EndedAt       *string            `json:"ended_at"`
	From          entity.Status      `json:"from_status"`
	To            entity.Status      `json:"to_status"`
	ErrorClass    *entity.ErrorClass `json:"error_class"`
	Error         *string            `json:"error"`
	Topic         *string            `json:"topic"`
	Partition     *int32             `json:"partition"`
	Offset        *int64             `json:"offset"`
	Edit          *editJSON          `json:"edit"`
}

// ancestorJSON is a message whose replay failed again and led to the requested message.
type ancestorJSON struct {
	ID         uuid.UUID       `json:"id"`
	ParentID   *uuid.UUID      `json:"parent_id"`
	Status     entity.Status   `json:"status"`
	Outcome    *entity.Outcome `json:"outcome"`
	RetryCount int             `json:"retry_count"`
	CreatedAt  *string         `json:"created_at"`
	pastJSON
}

// getHistory loads the message first: a message that was never retried and one that does not exist both have an empty
// history.
func (s *Server) getHistory(archived bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error { return s.sendHistory(w, r, s.getter(archived)) }
}

func (s *Server) sendHistory(w http.ResponseWriter, r *http.Request, load getter) error {
	id, err := idOf(r, "message")
	if err != nil {
		return err
	}
	m, err := load(r.Context(), id, 0)
	if err != nil {
		return err
	}
	unmask, err := s.unmaskOne(r, &m)
	if err != nil {
		return err
	}
	shown := historyJSON{ID: id}
	if shown.pastJSON, err = s.pastOf(r.Context(), m, load, unmask); err != nil {
		return err
	}
	if shown.Lineage, err = s.lineageOf(r.Context(), m, unmask); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, shown)
	return nil
}

func (s *Server) pastOf(ctx context.Context, m entity.Message, load getter, unmask bool) (past pastJSON, err error) {
	attempts, err := s.store.History(ctx, m.ID)
	if err != nil {
		return past, err
	}
	was := before{message: m, load: load, unmasked: unmask && principalFrom(ctx).MayMessage(auth.Unmask, &m)}
	past.Attempts = each(attempts, showAttempt)
	for i, a := range attempts {
		if past.Attempts[i].Edit, err = s.showEdit(ctx, a.Edit, &was); err != nil {
			return past, err
		}
	}
	past.Changes, err = s.changesOf(ctx, m.ID)
	return past, err
}

// lineageOf returns the ancestors of a message, its parent first, up to the first one that no longer exists.
func (s *Server) lineageOf(ctx context.Context, m entity.Message, unmask bool) ([]ancestorJSON, error) {
	list := []ancestorJSON{}
	for m.Parent != uuid.Nil && len(list) < maxLineage {
		var err error
		if m, err = s.store.Get(ctx, m.Parent, 0); errors.Is(err, entity.ErrNotFound) {
			break // deleted, or archived
		}
		if err != nil {
			return nil, err
		}
		if !principalFrom(ctx).MayMessage(auth.Viewer, &m) {
			break
		}
		shown := ancestorJSON{
			ID: m.ID, ParentID: orNull(m.Parent), Status: m.Status, Outcome: orNull(m.Outcome),
			RetryCount: m.RetryCount, CreatedAt: stamp(m.CreatedAt),
		}
		if shown.pastJSON, err = s.pastOf(ctx, m, s.store.Get, unmask); err != nil {
			return nil, err
		}
		list = append(list, shown)
	}
	return list, nil
}

func showAttempt(a entity.Attempt) attemptJSON {
	return attemptJSON{
		Number: a.Number, RedriveID: a.ID, BulkRedriveID: orNull(a.RedriveID), RetryCount: a.RetryCount,
		Actor: orNull(a.Actor), StartedAt: stamp(a.StartedAt), EndedAt: stamp(a.EndedAt), From: a.From, To: a.To,
		ErrorClass: orNull(a.Class), Error: orNull(a.Error), Topic: orNull(a.Topic),
		Partition: sentTo(a.Topic, a.Partition), Offset: sentTo(a.Topic, a.Offset),
	}
}

// sentTo returns a partition or an offset; nil where nothing was sent or the offset is unknown, because 0 is a valid
// value.
func sentTo[T int32 | int64](topic string, n T) *T {
	if topic == "" || n < 0 {
		return nil
	}
	return &n
}
