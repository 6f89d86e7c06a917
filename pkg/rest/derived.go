package rest

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// derivedJSON says where a value was learnt.
type derivedJSON struct {
	Source     entity.DerivedFrom `json:"source"`
	Dialect    *string            `json:"dialect"`
	Header     *string            `json:"header"`
	Occurrence *int               `json:"occurrence"`
	Confidence entity.Certainty   `json:"confidence"`
}

type hopJSON struct {
	Dialect   *string `json:"dialect"`
	Topic     *string `json:"topic"`
	Partition *int32  `json:"partition"`
	Offset    *int64  `json:"offset"`
}

// explanationJSON is what a single message has beside what it has in lists.
type explanationJSON struct {
	Derived map[string]derivedJSON `json:"derived"`
	Hops    []hopJSON              `json:"hops"`
}

func showExplanation(e entity.Explanation) explanationJSON {
	shown := explanationJSON{Derived: map[string]derivedJSON{}, Hops: []hopJSON{}}
	for field, d := range e.Fields() {
		if d.Source == "" {
			d = entity.NotDerived()
		}
		one := derivedJSON{Source: d.Source, Dialect: orNull(d.Dialect), Header: orNull(d.Header), Confidence: d.Confidence}
		if d.Header != "" {
			one.Occurrence = &d.Occurrence
		}
		shown.Derived[field] = one
	}
	for _, h := range e.Hops {
		shown.Hops = append(shown.Hops, hopJSON{orNull(h.Dialect), orNull(h.Topic), h.Partition, h.Offset})
	}
	return shown
}

// writeMessage sends one message with everything that is known of it.
func (s *Server) writeMessage(w http.ResponseWriter, r *http.Request, m *entity.Message, archived bool) error {
	v := view{limit: maxPayload, archived: archived}
	unmask, err := boolParameter(r.URL.Query(), "unmask")
	if err != nil {
		return err
	}
	if unmask {
		if err := s.mayMessage(r, auth.Unmask, m); err != nil {
			return err
		}
		if err := s.noteMessage(r, m); err != nil {
			return err
		}
		v.unmasked = func(*entity.Message) bool { return true }
	}
	body := s.appendMessage(nil, m, v)
	body = append(body[:len(body)-1], ',')
	body = append(body, encode(showExplanation(s.explain(*m)))[1:]...)
	writeBody(w, http.StatusOK, "application/json", body)
	return nil
}
