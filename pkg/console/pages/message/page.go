package message

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Page is the page of a message, live or archived.
type Page struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
	// ApplicationFrames are prefixes of the application's own stack frames; empty: every frame that does not belong to
	// a known library is the application's.
	ApplicationFrames []string
	TraceURL          func(id string) string // address of a trace; "" for none
	NeedToken         bool                   // the API needs credentials
}

type page struct {
	*api.Message
	Archived    bool
	Base        string // address of the page
	Unmask      bool   // the page shows values without their masks, and the audit trail has an entry about that
	MayUnmask   bool   // the page hides values behind masks, and the viewer may request the page without masks
	Group       *api.ErrorGroup
	Stack       stack
	Origin      []fact
	Payload     payloadView
	Headers     []shownHeader
	MoreHeaders bool
	Trace       trace
	Past        []event
	Lineage     []ancestor
	Parent      string // where the message is whose replay came back as this one: live, archived, unknown; "": none
	Children    []api.Message
	Outlook     outcome
	Acts        acts
	Curl        []command
}

// Show shows a message, live or archived.
func (p *Page) Show(archived bool) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref := api.RefOf(r, archived)
		m, revealed, err := loadMessage(r, p.API, ref, request.Unmasks(r))
		if err != nil {
			return p.elsewhere(w, r, ref, err)
		}
		data, err := p.compose(r, ref, m, revealed)
		if err != nil {
			return err
		}
		return p.Renderer.Render(w, r, http.StatusOK, "message", view.Page{
			Title: "Message " + format.Short(m.ID), Nav: ref.List(), Modules: []string{"message"}, Data: data,
		})
	}
}

// elsewhere handles a message that was not found: if it was archived or restored meanwhile, it redirects to the
// message's new page.
func (p *Page) elsewhere(w http.ResponseWriter, r *http.Request, ref api.MessageRef, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		return err
	}
	other := api.MessageRef{ID: ref.ID, Archived: !ref.Archived}
	if _, _, missing := loadMessage(r, p.API, other, false); missing != nil {
		return err
	}
	return view.Redirect(w, r, other.URL())
}

func (p *Page) compose(r *http.Request, ref api.MessageRef, m *api.Message, revealed bool) (*page, error) {
	unmask, viewer := request.Unmasks(r), session.ViewerOf(r)
	data := &page{Message: m, Archived: ref.Archived, Base: ref.URL()}
	data.Outlook = outcomeOf(m, r.URL.Query().Get("seen"), p.Now())
	// The page of an archived message says how to restore it, which is necessary before a requeue.
	if ref.Archived && m.Status == "DEAD" {
		data.Outlook.Words = lastErrorWords(m)
	}
	if r.Header.Get("HX-Target") == "outcome" { // the browser requests only this part of the page
		return data, nil
	}
	data.Unmask = revealed || unmask && m.OnlyBytes() && viewer.MayReveal(m.ScopeTopic())
	data.MayUnmask = !unmask && len(m.Masked) > 0 && viewer.May("unmask", m.ScopeTopic())
	past, err := readHistory(r, p.API, ref, data.Unmask)
	if err != nil {
		return nil, err
	}
	data.Past, data.Lineage = pastOf(m, past), past.Lineage
	data.Parent = p.parentOf(r, m, past.Lineage)
	if m.Outcome == "returned" {
		data.Children = childrenOf(r, p.API, m.ID)
	}
	data.Group = p.groupOf(r, m)
	data.Stack = foldStack(m.StackTrace, p.ApplicationFrames)
	data.Origin = originOf(m)
	data.Headers = decodeHeaders(m)
	data.MoreHeaders = m.HeadersOmitted != "" || len(m.Headers) > maxHeaders
	data.Trace = traceOf(m.Headers, p.TraceURL)
	data.Payload = showPayload(r, p.API, ref, m)
	data.Acts = actsOf(m, viewer, r, ref.Archived)
	data.Curl = commands(r, ref, m, p.NeedToken)
	return data, nil
}

// groupOf returns the error group of a message, nil for none. If the API cannot return the group, the result has only a
// general title.
func (p *Page) groupOf(r *http.Request, m *api.Message) *api.ErrorGroup {
	if m.GroupID == "" {
		return nil
	}
	g, _ := p.API.ErrorGroup(r, m.GroupID)
	g.Title = cmp.Or(g.Title, "failures with the same cause")
	return &g
}

// parentOf returns the state of the message whose replay failed again as this message: live, archived or unknown; ""
// for a message that is no return. If the archive cannot be read, it returns live.
func (p *Page) parentOf(r *http.Request, m *api.Message, lineage []ancestor) string {
	if m.ParentID == "" {
		return ""
	}
	if slices.ContainsFunc(lineage, func(a ancestor) bool { return a.ID == m.ParentID }) {
		return "live"
	}
	err := p.API.Get(r, api.MessageRef{ID: m.ParentID, Archived: true}.Endpoint(), nil, nil)
	var refused *api.Error
	switch {
	case err == nil:
		return "archived"
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return "unknown" // the parent was deleted, or the viewer may not see it
	}
	return "live"
}

// KeyShown returns the key of the record.
func (p *page) KeyShown() shownBytes { return keyOf(p.Message) }

// KeySchemaLink returns the schema of the key; nil when it has none.
func (p *page) KeySchemaLink() *schemaLink {
	return schemaOf(api.MessageRef{ID: p.ID, Archived: p.Archived}, p.KeyEncoding(), p.KeySchema, "key")
}

// KeyText returns the key if it is text, so that it can be copied.
func (p *page) KeyText() string {
	if k := p.KeyShown(); !k.Hex && k.More == 0 {
		return k.Text
	}
	return ""
}

// CameBack returns how often this message and its known ancestors failed again after they were sent back; at least 1.
func (p *page) CameBack() int { return max(1, len(p.Lineage)) }

const longCause = 180 // characters of a cause that the heading shows; it cuts off the rest

// WholeError returns the error message when the heading does not show all of it, else "".
func (p *page) WholeError() string {
	if p.ErrorMessage == p.Cause && utf8.RuneCountInString(p.Cause) <= longCause {
		return ""
	}
	return p.ErrorMessage
}

// recordAt is the position of a record in its topic, in words, and as text to copy.
type recordAt struct{ Words, Text string }

// OriginalPosition returns where the record was in its original topic; nil when that is not known.
func (p *page) OriginalPosition() *recordAt {
	words := position(p.OrigPartition, p.OrigOffset)
	if words == "" {
		return nil
	}
	return &recordAt{words, cmp.Or(known(p.OrigOffset), known(p.OrigPartition))}
}

// Download sends the payload as a file, byte for byte.
func (p *Page) Download(archived bool) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref := api.RefOf(r, archived)
		// a link on another site must not cause a download: each unmasked download adds an audit entry
		if v := session.ViewerOf(r); v != nil && v.Masking && request.FromOtherSite(r) {
			return view.Redirect(w, r, ref.URL())
		}
		return p.API.Stream(w, r, ref.Endpoint("payload"), nil)
	}
}
