package messages

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Origins checks the original topics of messages against the configuration and the mapping. Its errors are those of
// reading the mapping.
type Origins interface {
	// Standing uses the current mapping. It is for records that are sent.
	Standing(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)
}

// maySource requires the role operator on the dead-letter topic of a message.
func maySource(r *http.Request, m *entity.Message) error {
	if m.Source.Topic == "" {
		return nil
	}
	where := "dead-letter topic " + respond.Clip(m.Source.Topic) + " too: nothing declares that its records belong to other topics"
	return access.Require(access.Principal(r).May(auth.Operator, m.Source.Topic), auth.Operator, where)
}

// SetOrigin sets the original topic of one message, which then counts as declared. It requires operator on that topic
// and on the dead-letter topic.
func (h Changes) SetOrigin(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	var topic request.Option[string]
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{"original_topic": &topic})
	if err != nil {
		return err
	}
	if err := checkOriginal(topic.Value, h.Dialects); err != nil {
		return err
	}
	if err := access.MayTopic(r, auth.Operator, topic.Value); err != nil {
		return err
	}
	m, err := h.Store.Get(r.Context(), id, 0)
	if err != nil {
		return err
	}
	if err := maySource(r, &m); err != nil {
		return err
	}
	standing, err := h.Origins.Standing(r.Context())
	if err != nil {
		return err
	}
	changed, err := h.Database.Change(r.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: []uuid.UUID{id}, OriginalTopic: topic.Value, OverHeader: standing(&m).Undeclared != "",
	}, cause)
	if err != nil {
		return err
	}
	if len(changed) == 0 {
		return h.whyNotMapped(r.Context(), id)
	}
	respond.JSON(w, http.StatusOK, wire.Origin{ID: id, OriginalTopic: topic.Value, Confidence: entity.FromOperator})
	return nil
}

// checkOriginal checks a topic as the target of a rule is checked: a dead-letter topic cannot be an original topic.
func checkOriginal(topic string, dialects Dialects) error {
	const field = "original_topic"
	if !entity.ValidTopic(topic) {
		return &entity.FieldError{Field: field, Reason: "must be the name of a topic: 1 to 249 of A-Z a-z 0-9 . _ -"}
	}
	if err := dialects.CheckRules([]entity.TopicRule{{Pattern: "*", Original: topic}}); err != nil {
		reason := err.Error()
		if list := respond.FieldDetails(err); len(list) > 0 {
			reason = list[0].Reason
		}
		return &entity.FieldError{Field: field, Reason: reason}
	}
	return nil
}

func (h Changes) whyNotMapped(ctx context.Context, id uuid.UUID) error {
	m, err := h.Store.Get(ctx, id, 0)
	switch {
	case err != nil:
		return err
	case m.Claimed():
		return &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
	case m.Origin.Confidence == entity.FromHeader:
		return respond.Refused(entity.ErrConflict, "the record's own header names its original topic: "+m.OriginalTopic)
	case m.Status == entity.Resolved:
		return respond.Refused(entity.ErrConflict, "the message is RESOLVED: where it belongs no longer matters")
	default:
		return errors.New("set origin: the message was changed meanwhile")
	}
}
