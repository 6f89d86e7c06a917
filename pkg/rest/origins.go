package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Origins checks the original topics of messages against the configuration and the mapping. Its errors are those of
// reading the mapping.
type Origins interface {
	// Standing uses the current mapping. It is for records that are sent.
	Standing(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)
	// Recent uses a cached mapping that may be slightly old, without a read. It is for display.
	Recent(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)
}

// WithOrigins sets the check of original topics. Without it no origin is undeclared.
func WithOrigins(origins Origins) Option { return func(s *Server) { s.origins = origins } }

type allDeclared struct{}

func (allDeclared) Standing(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return func(*entity.Message) entity.OriginStanding {
		return entity.OriginStanding{Declaration: entity.Declared}
	}, nil
}

func (a allDeclared) Recent(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return a.Standing(ctx)
}

// mayRetry requires operator on the dead-letter topic too where only the record's headers name the original topic.
// Otherwise a producer of one dead-letter topic could make operators of any topic send records to that topic.
func (s *Server) mayRetry(r *http.Request, id uuid.UUID) error {
	p := principalOf(r)
	if p.Everywhere(auth.Operator) {
		return nil
	}
	m, err := s.messageToRetry(r, id)
	if err != nil {
		return err
	}
	standing, err := s.origins.Standing(r.Context())
	if err != nil || m.OriginalTopic == "" || standing(m).Declared() {
		return err
	}
	return s.maySource(r, m)
}

// maySource requires the role operator on the dead-letter topic of a message.
func (s *Server) maySource(r *http.Request, m *entity.Message) error {
	if m.Source.Topic == "" {
		return nil
	}
	where := "dead-letter topic " + clip(m.Source.Topic) + " too: nothing declares that its records belong to other topics"
	return unless(principalOf(r).May(auth.Operator, m.Source.Topic), auth.Operator, where)
}

// mayPointer requires viewer on the topic of the record that a pointer names.
func (s *Server) mayPointer(r *http.Request, m *entity.Message) error {
	if !s.dialects.IsPointer(m) || principalOf(r).Everywhere(auth.Viewer) {
		return nil
	}
	return s.mayTopic(r, auth.Viewer, m.OriginalTopic)
}

// recordPointer records the read of the record that a pointer names, before it is shown.
func (s *Server) recordPointer(r *http.Request, m *entity.Message) error {
	if s.fetcher == nil || !s.dialects.IsPointer(m) {
		return nil
	}
	cause, err := queryCause(r)
	if err != nil {
		return err
	}
	return s.recordOnce(r.Context(), entity.PointerRead(m, cause))
}

type originJSON struct {
	ID            uuid.UUID         `json:"id"`
	OriginalTopic string            `json:"original_topic"`
	Confidence    entity.Confidence `json:"origin_confidence"`
}

// setOrigin sets the original topic of one message, which then counts as declared. It requires operator on that topic
// and on the dead-letter topic.
func (s *Server) setOrigin(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "message")
	if err != nil {
		return err
	}
	var topic option[string]
	cause, err := s.readChange(w, r, fields{"original_topic": &topic})
	if err != nil {
		return err
	}
	if err := s.checkOriginal(topic.value); err != nil {
		return err
	}
	if err := s.mayTopic(r, auth.Operator, topic.value); err != nil {
		return err
	}
	m, err := s.store.Get(r.Context(), id, 0)
	if err != nil {
		return err
	}
	if err := s.maySource(r, &m); err != nil {
		return err
	}
	standing, err := s.origins.Standing(r.Context())
	if err != nil {
		return err
	}
	changed, err := s.db.Change(r.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: []uuid.UUID{id}, OriginalTopic: topic.value, OverHeader: standing(&m).Undeclared != "",
	}, cause)
	if err != nil {
		return err
	}
	if len(changed) == 0 {
		return s.whyNotMapped(r.Context(), id)
	}
	writeJSON(w, http.StatusOK, originJSON{id, topic.value, entity.FromOperator})
	return nil
}

// checkOriginal checks a topic as the target of a rule is checked: a dead-letter topic cannot be an original topic.
func (s *Server) checkOriginal(topic string) error {
	const field = "original_topic"
	if !entity.ValidTopic(topic) {
		return &entity.FieldError{Field: field, Reason: "must be the name of a topic: 1 to 249 of A-Z a-z 0-9 . _ -"}
	}
	if err := s.dialects.CheckRules([]entity.TopicRule{{Pattern: "*", Original: topic}}); err != nil {
		reason := err.Error()
		if list := fieldDetails(err); len(list) > 0 {
			reason = list[0].Reason
		}
		return &entity.FieldError{Field: field, Reason: reason}
	}
	return nil
}

func (s *Server) whyNotMapped(ctx context.Context, id uuid.UUID) error {
	m, err := s.store.Get(ctx, id, 0)
	switch {
	case err != nil:
		return err
	case m.Claimed():
		return &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
	case m.Origin.Confidence == entity.FromHeader:
		return refused(entity.ErrConflict, "the record's own header names its original topic: "+m.OriginalTopic)
	case m.Status == entity.Resolved:
		return refused(entity.ErrConflict, "the message is RESOLVED: where it belongs no longer matters")
	default:
		return errors.New("set origin: the message was changed meanwhile")
	}
}
