// Package unmask decides which masked values a request may see, search for or change, and records in the audit trail
// what was shown without masks.
package unmask

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const maxAudited = 1000

// Rules decide which values a request may see without masks.
type Rules struct {
	Masking wire.Masking
	Origins Origins
	Trail   request.Recorder
	Schemas Schemas // nil: nothing is decoded
}

// Schemas decodes keys and values that are encoded with the schemas of a registry.
type Schemas interface {
	// ReaderFor returns a decoder of keys and values for one answer to a caller who may see these topics; nil means all.
	ReaderFor(ctx context.Context, visible *entity.TopicPatterns) entity.PartReader
}

// Reader returns a decoder of keys and values for the answer to a request; nil when nothing is decoded.
func (u Rules) Reader(ctx context.Context) entity.PartReader {
	if u.Schemas == nil {
		return nil
	}
	return u.Schemas.ReaderFor(ctx, access.PrincipalFrom(ctx).Scope(auth.Viewer))
}

// Origins checks the original topics of messages that are displayed.
type Origins interface {
	// Recent returns a function that checks messages against a cached mapping. This mapping may be slightly old, which
	// does no harm where messages are only displayed.
	Recent(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)
}

// View returns how messages are shown to the principal. The audit trail records the use of the grant unmask before
// anything is shown.
func (u Rules) View(r *http.Request, unmask bool) (wire.View, error) {
	standing, err := u.Origins.Recent(r.Context())
	if err != nil {
		return wire.View{}, err
	}
	v := wire.View{Standing: standing, Schemas: u.Reader(r.Context())}
	if !unmask {
		return v, nil
	}
	who := access.Principal(r)
	if !who.Anywhere(auth.Unmask) {
		return wire.View{}, forbidden("unmask", "needs the grant unmask")
	}
	v.Unmasked = func(m *entity.Message) bool { return who.MayMessage(auth.Unmask, m) }
	return v, u.recordList(r)
}

// recordList records in the audit trail that a list is shown without masks.
func (u Rules) recordList(r *http.Request) error {
	question := r.Method + " " + r.URL.EscapedPath() + "?" + u.redactedQuery(r.URL.Query())
	return u.recordUnmasked(r, entity.AuditEntry{Kind: entity.KindList, LastError: question[:min(len(question), maxAudited)]})
}

// RecordMessage records in the audit trail that a message is shown without masks.
func (u Rules) RecordMessage(r *http.Request, m *entity.Message) error {
	return u.recordUnmasked(r, entity.AuditEntry{Kind: entity.KindMessage, ObjectID: m.ID, RetryCount: m.RetryCount})
}

func (u Rules) recordUnmasked(r *http.Request, entry entity.AuditEntry) (err error) {
	if u.Masking.Empty() {
		return nil
	}
	entry.Action = entity.ActionUnmask
	if entry.Cause, err = request.QueryCause(r); err != nil {
		return err
	}
	return request.RecordOnce(r.Context(), u.Trail, entry)
}

// One reports whether the request shows a message without masks. If so, it has added this to the audit trail before.
func (u Rules) One(r *http.Request, m *entity.Message) (bool, error) {
	unmask, err := request.Bool(r.URL.Query(), "unmask")
	if err != nil || !unmask {
		return false, err
	}
	if err := access.MayMessage(access.Principal(r), auth.Unmask, m); err != nil {
		return false, err
	}
	return true, u.RecordMessage(r, m)
}

// Narrow limits a filter to what the request may search. A comparison with a masked value would reveal the value. So it
// needs the grant unmask, and finds only messages of topics on which the principal has that grant. Only somebody who may
// see a masked key finds it.
func (u Rules) Narrow(r *http.Request, f *entity.Filter) error {
	who := access.Principal(r)
	name := u.maskedCondition(*f)
	switch {
	case name == "":
		f.Visible, f.HiddenKeys = who.Scope(auth.Viewer), u.hiddenKeys(*f, who)
	case !who.Anywhere(auth.Unmask):
		return forbidden(name, "names something that is masked: searching it needs the grant unmask")
	default:
		f.Visible, f.HiddenKeys = access.ScopeOfAll(who, auth.Viewer, auth.Unmask), f.Key != nil
	}
	return nil
}

// hiddenKeys reports whether a filter also finds masked keys, although its text does not show that the key is masked.
func (u Rules) hiddenKeys(f entity.Filter, who auth.Principal) bool {
	return f.Key != nil && u.Masking.CoversPath(payload.Path{}) && who.Everywhere(auth.Unmask)
}

// RefuseMasked returns an error when the filter compares something with a masked value. name is the name of the
// parameter, for the error.
func (u Rules) RefuseMasked(name string, f entity.Filter) error {
	if u.maskedCondition(f) == "" {
		return nil
	}
	return forbidden(name, "names something that is masked")
}

// maskedCondition returns the name of a parameter of the filter that is compared with a masked value; "" for none.
func (u Rules) maskedCondition(f entity.Filter) string {
	for name, text := range map[string]string{"error_class": f.ErrorClass, "consumer_group": f.ConsumerGroup} {
		if text != "" && u.Masking.Parameter(name) {
			return name
		}
	}
	for _, h := range f.Headers {
		if u.Masking.Header(h.Name) {
			return "header"
		}
	}
	if u.Masking.HidesKey(f.Key) {
		return "key"
	}
	for _, m := range f.Fields {
		if path, err := payload.ParsePath(m.Path); err != nil || u.Masking.CoversPath(path) {
			return "payload"
		}
	}
	return ""
}

// ErrorGroups reports whether the request may see the texts of error groups without masks. A text may come from any
// topic, so the grant is needed on all topics.
func (u Rules) ErrorGroups(r *http.Request) (unmasked bool, err error) {
	unmask, err := request.Bool(r.URL.Query(), "unmask")
	switch {
	case err != nil || !unmask:
		return !u.Masking.Derived.Fields().Group(), err
	case !access.Principal(r).Everywhere(auth.Unmask):
		return false, forbidden("unmask", "needs the grant unmask on all topics")
	}
	return true, u.recordList(r)
}

// forbidden returns the refusal of a masked value, which names the parameter.
func forbidden(field, reason string) error {
	return respond.Refused(respond.ErrForbidden, field+": "+reason, respond.Detail{Field: field, Reason: reason})
}

// NarrowRedrive limits a redrive whose selection or patch could reveal a masked value to the topics on which the
// principal has the grant unmask. It refuses such a redrive if there is no such topic.
func (u Rules) NarrowRedrive(p auth.Principal, order *repository.NewRedrive) error {
	field := u.maskedCondition(order.Selection.Filter)
	if field != "" {
		field = "filter." + field
	}
	order.Selection.HiddenKeys = order.Selection.Key != nil && field != "" || u.hiddenKeys(order.Selection.Filter, p)
	if order.Options.Patch != nil {
		patch, err := payload.CompilePatch(order.Options.Patch)
		if err != nil || u.Masking.CoversPatch(patch) {
			field = "patch"
		}
	}
	if field == "" {
		order.Options.KeepsMasked = order.Options.Patch != nil && u.Masking.CoversPath(payload.Path{}) && !p.Everywhere(auth.Unmask)
		return nil
	}
	if !p.Anywhere(auth.Unmask) {
		return forbidden(field, "names something that is masked: that needs the grant unmask")
	}
	order.Selection.Visible = access.InBoth(order.Selection.Visible, p.Scope(auth.Unmask))
	return nil
}

// redactedQuery returns a query without the cursor, and with mask texts for values of masked fields and headers.
func (u Rules) redactedQuery(query url.Values) string {
	shown := maps.Clone(query)
	shown["header"], shown["payload"] = slices.Clone(query["header"]), slices.Clone(query["payload"])
	for _, name := range []string{"error_class", "consumer_group"} {
		if u.Masking.Parameter(name) && shown.Has(name) {
			shown.Set(name, wire.MaskedText)
		}
	}
	for i, text := range shown["header"] {
		if name, _, valued := strings.Cut(text, "="); valued && u.Masking.Header(name) {
			shown["header"][i] = name + "=" + wire.MaskedText
		}
	}
	for i, text := range shown["payload"] {
		if match, ok := request.ParseFieldMatch(text); !ok || len(match.Values) > 0 {
			shown["payload"][i] = wire.FieldMatch(match, u.Masking)
		}
	}
	for _, name := range []string{"key", "key_base64"} {
		if shown.Has(name) && u.Masking.CoversPath(payload.Path{}) {
			shown.Set(name, wire.MaskedText)
		}
	}
	delete(shown, "cursor")
	return shown.Encode()
}
