package rest

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Masks say what is masked: values in payloads, and headers. They are safe for
// concurrent use.
type Masks interface {
	// Empty reports whether nothing is.
	Empty() bool
	// Payload returns JSON with what is masked replaced, the rest as it was, and the
	// paths of what was replaced.
	Payload(value []byte) (masked []byte, names []string)
	// Header reports whether the values of headers of that name are masked.
	Header(name string) bool
	// CoversPath reports whether what stands at the path, or part of it, is masked.
	CoversPath(path payload.Path) bool
	// CoversPatch reports whether a patch reads or writes what is masked.
	CoversPatch(patch *payload.Patch) bool
	// Patch returns a JSON Patch without the values that are masked.
	Patch(patch []byte) []byte
}

// DerivedMasks say what was read from masked headers. They are safe for concurrent use.
type DerivedMasks interface {
	// Fields are the fields that may be, of any message.
	Fields() entity.MaskedFields
	// Of are those of a message that were.
	Of(m *entity.Message) entity.MaskedFields
}

// maxAudited bounds what the audit trail keeps of a question.
const maxAudited = 1000

// noMasks masks nothing.
type noMasks struct{}

func (noMasks) Empty() bool                             { return true }
func (noMasks) Payload(value []byte) ([]byte, []string) { return value, nil }
func (noMasks) Header(string) bool                      { return false }
func (noMasks) CoversPath(payload.Path) bool            { return false }
func (noMasks) CoversPatch(*payload.Patch) bool         { return false }
func (noMasks) Patch(patch []byte) []byte               { return patch }
func (noMasks) Fields() entity.MaskedFields             { return entity.MaskedFields{} }
func (noMasks) Of(*entity.Message) entity.MaskedFields  { return entity.MaskedFields{} }

// viewOf judges the origins of what is shown, and says what of the
// masked whoever asks gets to see. Looking behind the masks is noted before anything
// is shown.
func (s *Server) viewOf(r *http.Request, unmask bool) (view, error) {
	standing, err := s.origins.Recent(r.Context())
	if err != nil {
		return view{}, err
	}
	v := view{standing: standing}
	if !unmask {
		return v, nil
	}
	who := principalOf(r)
	if !who.Anywhere(auth.Unmask) {
		return view{}, keptBack("unmask", "needs the grant unmask")
	}
	v.unmasked = func(m *entity.Message) bool { return who.MayMessage(auth.Unmask, m) }
	return v, s.noteList(r)
}

// noteList notes that somebody looks at a list without masks.
func (s *Server) noteList(r *http.Request) error {
	question := r.Method + " " + r.URL.EscapedPath() + "?" + s.redactedQuery(r.URL.Query())
	return s.noteUnmasked(r, entity.AuditEntry{Kind: entity.KindList, LastError: question[:min(len(question), maxAudited)]})
}

// noteMessage notes that somebody looks at a message without masks.
func (s *Server) noteMessage(r *http.Request, m *entity.Message) error {
	return s.noteUnmasked(r, entity.AuditEntry{Kind: entity.KindMessage, ObjectID: m.ID, RetryCount: m.RetryCount})
}

func (s *Server) noteUnmasked(r *http.Request, entry entity.AuditEntry) error {
	if s.masks.Empty() {
		return nil
	}
	reason, err := textParameter(r.URL.Query(), "reason")
	if err != nil {
		return err
	}
	entry.Action = entity.ActionUnmask
	if entry.Cause, err = causeOf(r, reason); err != nil {
		return err
	}
	return s.recordOnce(r.Context(), entry)
}

// searchable returns the topics in which a filter may be answered; nil for all. A
// comparison with what is masked would tell what stands there: it needs the grant
// to see it, and finds only messages for which it is given. prefix stands before
// the names of parameters.
func (s *Server) searchable(r *http.Request, f entity.Filter, prefix string) (*entity.TopicPatterns, error) {
	name := s.maskedCondition(f)
	if name == "" {
		return principalOf(r).Scope(auth.Viewer), nil
	}
	who := principalOf(r)
	if !who.Anywhere(auth.Unmask) {
		return nil, keptBack(prefix+name, "names something that is masked: searching it needs the grant unmask")
	}
	return scopeOfAll(who, auth.Viewer, auth.Unmask), nil
}

// maskedCondition names the parameter that asks for something masked; "" when
// none does.
func (s *Server) maskedCondition(f entity.Filter) string {
	for name, text := range map[string]string{"error_class": f.ErrorClass, "consumer_group": f.ConsumerGroup} {
		if text != "" && s.maskedParameter(name) {
			return name
		}
	}
	for _, h := range f.Headers {
		if s.masks.Header(h.Name) {
			return "header"
		}
	}
	for _, m := range f.Fields {
		if path, err := payload.ParsePath(m.Path); err != nil || s.masks.CoversPath(path) {
			return "payload"
		}
	}
	return ""
}

// maskedParameter reports whether a parameter is compared with text that may come from
// a masked header.
func (s *Server) maskedParameter(name string) bool {
	masked := s.derived.Fields()
	return name == "error_class" && masked.ErrorClass || name == "consumer_group" && masked.ConsumerGroup
}

// viewOfGroups says whether whoever asks sees the masked texts of error groups. A text
// may come from any topic, so the grant is needed on all of them.
func (s *Server) viewOfGroups(r *http.Request) (unmasked bool, err error) {
	unmask, err := boolParameter(r.URL.Query(), "unmask")
	switch {
	case err != nil || !unmask:
		return !s.derived.Fields().Group(), err
	case !principalOf(r).Everywhere(auth.Unmask):
		return false, keptBack("unmask", "needs the grant unmask on all topics")
	}
	return true, s.noteList(r)
}

// keptBack refuses what somebody must not learn, and names the parameter that asks
// for it.
func keptBack(field, reason string) error {
	return &requestError{kind: errForbidden, text: field + ": " + reason, details: []detail{{field, reason}}}
}

// narrowMasked refuses a redrive that would tell what is masked: by what it
// selects, or by where its patch fits.
func (s *Server) narrowMasked(p auth.Principal, order *repository.NewRedrive) error {
	field := s.maskedCondition(order.Selection.Filter)
	if field != "" {
		field = "filter." + field
	}
	if order.Options.Patch != nil {
		patch, err := payload.CompilePatch(order.Options.Patch)
		if err != nil || s.masks.CoversPatch(patch) {
			field = "patch"
		}
	}
	if field == "" {
		return nil
	}
	if !p.Anywhere(auth.Unmask) {
		return keptBack(field, "names something that is masked: that needs the grant unmask")
	}
	order.Selection.Visible = inBoth(order.Selection.Visible, p.Scope(auth.Unmask))
	return nil
}
