package message

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Page is the page of a message, live or archived.
type Page struct {
	API               api.Client
	Renderer          *view.Renderer
	Now               func() time.Time
	ApplicationFrames []string               // prefixes of the application's own stack frames; empty: all of no known library
	TraceURL          func(id string) string // address of a trace; "" for none
	NeedToken         bool                   // the API needs credentials
}

type page struct {
	*api.Message
	Archived    bool
	Base        string // address of the page
	Unmask      bool   // masked values are shown, and the audit trail has an entry about it
	MayUnmask   bool   // the viewer may unmask
	Group       *api.ErrorGroup
	Stack       stack
	Origin      []fact
	Payload     payloadView
	Headers     []shownHeader
	MoreHeaders bool
	Trace       trace
	Past        []event
	Lineage     []ancestor
	Children    []api.Message
	Outlook     outcome
	Acts        acts
	Curl        []command
}

// Show shows a message of the live ones or of the archive.
func (p *Page) Show(archived bool) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return p.show(w, r, api.RefOf(r, archived), http.StatusOK, nil)
	}
}

func (p *Page) show(w http.ResponseWriter, r *http.Request, ref api.MessageRef, status int, problem *view.Problem) error {
	m, revealed, err := loadMessage(r, p.API, ref, request.Unmasks(r))
	if err != nil {
		return p.elsewhere(w, r, ref, err)
	}
	data, err := p.compose(r, ref, m, revealed)
	if err != nil {
		return err
	}
	return p.Renderer.Render(w, r, status, "message", view.Page{
		Title: "Message " + format.Short(m.ID), Nav: ref.List(), Modules: []string{"message"}, Problem: problem, Data: data,
	})
}

// elsewhere redirects to the archive when the message was archived, and back when it was restored.
func (p *Page) elsewhere(w http.ResponseWriter, r *http.Request, ref api.MessageRef, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || r.Method != http.MethodGet {
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
	if r.Header.Get("HX-Target") == "outcome" { // only this part of the page is requested
		return data, nil
	}
	data.Unmask = revealed || unmask && m.OnlyBytes() && viewer.MayReveal(m.ScopeTopic())
	data.MayUnmask = !unmask && len(m.Masked) > 0 && viewer.May("unmask", m.ScopeTopic())
	past, err := readHistory(r, p.API, ref, data.Unmask)
	if err != nil {
		return nil, err
	}
	data.Past, data.Lineage = pastOf(m, past), past.Lineage
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

// groupOf returns the error group of a message, nil for none. When it cannot be read, it has a general title.
func (p *Page) groupOf(r *http.Request, m *api.Message) *api.ErrorGroup {
	if m.GroupID == "" {
		return nil
	}
	g, _ := p.API.ErrorGroup(r, m.GroupID)
	g.Title = cmp.Or(g.Title, "failures with the same cause")
	return &g
}

// KeyShown returns the key of the record.
func (p *page) KeyShown() shownBytes { return keyOf(p.Message) }

// Download sends the payload as it is.
func (p *Page) Download(archived bool) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref := api.RefOf(r, archived)
		if v := session.ViewerOf(r); v != nil && v.Masking && request.FromOtherSite(r) { // each unmasked download is audited
			return view.Redirect(w, r, ref.URL())
		}
		return p.API.Stream(w, r, ref.Endpoint("payload"), nil)
	}
}
