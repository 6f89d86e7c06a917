package message

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Options configure the page of a message.
type Options struct {
	ApplicationFrames []string               // prefixes of the application's own stack frames; empty: all of no known library
	TraceURL          func(id string) string // address of a trace; "" for none
	NeedToken         bool                   // the API needs credentials
}

// Page is the page of a message, live or archived.
type Page struct {
	api      api.Client
	renderer *view.Renderer
	now      func() time.Time
	options  Options
}

// New returns the page.
func New(client api.Client, renderer *view.Renderer, now func() time.Time, options Options) *Page {
	return &Page{client, renderer, now, options}
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
	m, revealed, err := loadMessage(r, p.api, ref, request.Unmasks(r))
	if err != nil {
		return p.elsewhere(w, r, ref, err)
	}
	data, err := p.compose(r, ref, m, revealed)
	if err != nil {
		return err
	}
	return p.renderer.Render(w, r, status, "message", view.Page{
		Title: "Message " + format.Short(m.ID), Nav: ref.List(), Modules: []string{"message"}, Problem: problem, Data: data,
	})
}

func masking(unmask bool) url.Values {
	if unmask {
		return url.Values{"unmask": {"true"}}
	}
	return nil
}

// loadMessage loads a message, unmasked only if it has masks: each unmasked read adds an entry to the audit trail.
// revealed reports whether it was read unmasked.
func loadMessage(r *http.Request, client api.Client, ref api.MessageRef, unmask bool) (m *api.Message, revealed bool, err error) {
	m = &api.Message{}
	if err := client.Get(r, ref.Endpoint(), nil, m); err != nil || !unmask || len(m.Masked) == 0 {
		return m, false, err
	}
	m = &api.Message{}
	return m, true, client.Get(r, ref.Endpoint(), masking(true), m)
}

// keepsBytes reports whether the payload is loaded only on request: bytes cannot be masked, and each load is audited.
func keepsBytes(m *api.Message, v *session.Viewer, unmask bool) bool {
	return !unmask && m.OnlyBytes() && v.MayReveal(m.ScopeTopic())
}

// elsewhere redirects to the archive when the message was archived, and back when it was restored.
func (p *Page) elsewhere(w http.ResponseWriter, r *http.Request, ref api.MessageRef, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || r.Method != http.MethodGet {
		return err
	}
	other := api.MessageRef{ID: ref.ID, Archived: !ref.Archived}
	if _, _, missing := loadMessage(r, p.api, other, false); missing != nil {
		return err
	}
	return view.Redirect(w, r, other.URL())
}

func (p *Page) compose(r *http.Request, ref api.MessageRef, m *api.Message, revealed bool) (*page, error) {
	unmask, viewer := request.Unmasks(r), session.ViewerOf(r)
	data := &page{Message: m, Archived: ref.Archived, Base: ref.URL()}
	data.Outlook = p.outcomeOf(m, r.URL.Query().Get("seen"))
	if r.Header.Get("HX-Target") == "outcome" { // only this part of the page is requested
		return data, nil
	}
	data.Unmask = revealed || unmask && m.OnlyBytes() && viewer.MayReveal(m.ScopeTopic())
	data.MayUnmask = !unmask && len(m.Masked) > 0 && viewer.May("unmask", m.ScopeTopic())
	if err := p.addHistory(r, ref, data); err != nil {
		return nil, err
	}
	data.Group = p.groupOf(r, m)
	data.Stack = foldStack(m.StackTrace, p.options.ApplicationFrames)
	data.Origin = originOf(m)
	data.Headers = decodeHeaders(m)
	data.MoreHeaders = m.HeadersOmitted != "" || len(m.Headers) > maxHeaders
	data.Trace = p.traceOf(m.Headers)
	data.Payload = p.showPayload(r, ref, m)
	data.Acts = actsOf(m, viewer, r, ref.Archived)
	data.Curl = p.commands(r, ref, m)
	return data, nil
}

// groupOf returns the error group of a message, nil for none. When it cannot be read, it has a general title.
func (p *Page) groupOf(r *http.Request, m *api.Message) *api.ErrorGroup {
	if m.GroupID == "" {
		return nil
	}
	g, _ := p.api.ErrorGroup(r, m.GroupID)
	g.Title = cmp.Or(g.Title, "failures with the same cause")
	return &g
}

func position(partition *int32, offset *int64) string {
	switch {
	case partition == nil:
		return ""
	case offset == nil:
		return fmt.Sprintf("partition %d", *partition)
	default:
		return fmt.Sprintf("partition %d, offset %d", *partition, *offset)
	}
}
