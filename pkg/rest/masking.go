package rest

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Masks replace masked values in payloads and headers. They are safe for concurrent use.
type Masks interface {
	// Empty reports whether nothing is masked.
	Empty() bool
	// Payload returns JSON with masked values replaced and the other bytes unchanged, and the paths of the replaced
	// values.
	Payload(value []byte) (masked []byte, names []string)
	// Header reports whether the values of headers of that name are masked.
	Header(name string) bool
	// CoversPath reports whether the value at the path, or a part of it, is masked.
	CoversPath(path payload.Path) bool
	// CoversPatch reports whether a patch reads or writes masked values.
	CoversPatch(patch *payload.Patch) bool
	// Patch returns a JSON Patch with its masked values replaced.
	Patch(patch []byte) []byte
}

// DerivedMasks report which fields were read from masked headers. They are safe for concurrent use.
type DerivedMasks interface {
	// Fields returns the fields that may come from a masked header in any message.
	Fields() entity.MaskedFields
	// Of returns the fields of a message that were read from a masked header.
	Of(m *entity.Message) entity.MaskedFields
}

const maxAudited = 1000

type noMasks struct{}

func (noMasks) Empty() bool                             { return true }
func (noMasks) Payload(value []byte) ([]byte, []string) { return value, nil }
func (noMasks) Header(string) bool                      { return false }
func (noMasks) CoversPath(payload.Path) bool            { return false }
func (noMasks) CoversPatch(*payload.Patch) bool         { return false }
func (noMasks) Patch(patch []byte) []byte               { return patch }
func (noMasks) Fields() entity.MaskedFields             { return entity.MaskedFields{} }
func (noMasks) Of(*entity.Message) entity.MaskedFields  { return entity.MaskedFields{} }

// viewOf returns how messages are shown to the principal. The audit trail records the use of the grant unmask before
// anything is shown.
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

// noteList records in the audit trail that a list is shown without masks.
func (s *Server) noteList(r *http.Request) error {
	question := r.Method + " " + r.URL.EscapedPath() + "?" + s.redactedQuery(r.URL.Query())
	return s.noteUnmasked(r, entity.AuditEntry{Kind: entity.KindList, LastError: question[:min(len(question), maxAudited)]})
}

// noteMessage records in the audit trail that a message is shown without masks.
func (s *Server) noteMessage(r *http.Request, m *entity.Message) error {
	return s.noteUnmasked(r, entity.AuditEntry{Kind: entity.KindMessage, ObjectID: m.ID, RetryCount: m.RetryCount})
}

func (s *Server) noteUnmasked(r *http.Request, entry entity.AuditEntry) (err error) {
	if s.masks.Empty() {
		return nil
	}
	entry.Action = entity.ActionUnmask
	if entry.Cause, err = queryCause(r); err != nil {
		return err
	}
	return s.recordOnce(r.Context(), entry)
}

// unmaskOne reports whether the request shows a message without masks, which is recorded first.
func (s *Server) unmaskOne(r *http.Request, m *entity.Message) (bool, error) {
	unmask, err := boolParameter(r.URL.Query(), "unmask")
	if err != nil || !unmask {
		return false, err
	}
	if err := mayMessage(principalOf(r), auth.Unmask, m); err != nil {
		return false, err
	}
	return true, s.noteMessage(r, m)
}

// searchable returns the topics in which a filter may be answered; nil for all. A comparison with a masked value
// would reveal the value: it needs the grant unmask, and finds only messages of topics with that grant. prefix goes
// before the names of parameters in errors.
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

// maskedCondition returns the name of the parameter that compares with a masked value; "" for none.
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

// maskedParameter reports whether a parameter is compared with text that may come from a masked header.
func (s *Server) maskedParameter(name string) bool {
	masked := s.derived.Fields()
	return name == "error_class" && masked.ErrorClass || name == "consumer_group" && masked.ConsumerGroup
}

// viewOfGroups reports whether masked texts of error groups are shown. A text may come from any topic, so the grant
// is needed on all topics.
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

// keptBack returns the refusal of a masked value, which names the parameter.
func keptBack(field, reason string) error {
	return refused(errForbidden, field+": "+reason, detail{field, reason})
}

// narrowMasked refuses a redrive that would reveal a masked value: by its selection, or by the messages to which its
// patch can be applied.
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
