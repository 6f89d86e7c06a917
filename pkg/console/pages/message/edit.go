package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Edit is the form that changes a message before it is sent.
type Edit struct {
	api         api.Client
	renderer    *view.Renderer
	now         func() time.Time
	comparisons chan struct{} // semaphore that limits the comparisons that run at once
}

// maxComparisons limits how many comparisons of large texts run at once; further comparisons wait.
const maxComparisons = 2

// NewEdit returns the form.
func NewEdit(client api.Client, renderer *view.Renderer, now func() time.Time) *Edit {
	return &Edit{client, renderer, now, make(chan struct{}, maxComparisons)}
}

type editPage struct {
	*api.Message
	Base   string
	Unmask bool
	Can    act // Can.Why is the reason for which the edit cannot be sent

	MayUnmask bool
	Draft     draft
	Fresh     []int  // empty rows in which the user can add headers
	WasJSON   bool   // the payload of the stored message is JSON
	Fixed     string // the reason for which the payload cannot be edited; "" when it can
	Encoded   bool   // the payload or the key is edited as JSON and encoded with a schema
	Schema    *schemaLink
	KeySchema *schemaLink

	Unsettled bool
	Check     *editCheck // nil: the user has not requested a check

	open bool // a header was refused, so the form shows its part for headers unfolded
}

// HeadersOpen reports whether the headers are shown unfolded, because they were changed or refused, or because some of
// them cannot be written in an edit.
func (p *editPage) HeadersOpen() bool {
	return p.Check != nil && len(p.Check.Headers) > 0 || p.Draft.Lost() > 0 || p.open
}

type editCheck struct {
	JSON      *jsonProblem // nil: the payload is JSON, or is not given as text
	IsJSON    bool
	Lines     []diff.Line
	SpaceOnly bool // the payloads differ only in the space between JSON tokens
	Payload   bool // the payload differs
	Bytes     bool // the payload differs, but the old or the new one is no text, so Lines is empty
	Key       bool
	Topic     string
	Headers   []diff.Line
	Nothing   bool // the edit changes nothing
	Mark      string
	Sendable  bool
}

// Show shows the form.
func (e *Edit) Show(w http.ResponseWriter, r *http.Request) error {
	p, err := e.load(r)
	if err != nil {
		return err
	}
	was := e.originalOf(r, p)
	p.Draft, p.Fresh = was, make([]int, freshRows)
	shown := view.Page{Title: "Edit and retry " + format.Short(p.ID), Nav: link.Messages, Modules: []string{"edit"}, Data: p}
	if missing := lacks(r, p.Fixed == ""); view.DraftOf(r).Sent() && missing != "" {
		shown.Problem = view.NewProblem(http.StatusBadRequest, "The form lacks the field "+missing+". Nothing was sent.")
	} else if missing == "" {
		p.read(r, was)
		edit, problems := p.Draft.order(was)
		if len(problems) > 0 {
			shown.Problem = view.NewProblem(http.StatusBadRequest, "The form has invalid values.", problems...)
			p.open = slices.ContainsFunc(problems, func(f view.FieldProblem) bool { return strings.HasPrefix(f.Field, "header ") })
		} else if p.Can.Why != "" {
			shown.Problem = cmp.Or(view.DraftOf(r).Refused(), view.NewProblem(http.StatusConflict, "It cannot be sent: "+p.Can.Why+"."))
		} else if err := e.compare(r, p, was, len(edit) == 0); err != nil {
			return err
		}
	}
	return e.renderer.Render(w, r, http.StatusOK, "edit", shown)
}

// read sets the page's draft to the values of the submitted form. If the payload cannot be edited, the draft gets the
// payload of the draft was.
func (p *editPage) read(r *http.Request, was draft) {
	p.Draft = readDraft(r, was)
	p.Draft.settle(was)
	if p.Fixed != "" {
		p.Draft.Payload = was.Payload
	}
}

// load loads the message to edit, but not a payload that the answer of the API leaves out.
func (e *Edit) load(r *http.Request) (*editPage, error) {
	ref, unmask := api.RefOf(r, false), request.Unmasks(r)
	m, _, err := loadMessage(r, e.api, ref, unmask)
	if err != nil {
		return nil, err
	}
	v := session.ViewerOf(r)
	p := &editPage{
		Message: m, Base: ref.URL(), Unmask: unmask, Can: actsOf(m, v, r, false).Edit, Unsettled: m.Unsettled(),
		WasJSON: m.JSONPayload() != nil,
	}
	if m.JSONPayload() != nil {
		p.Schema = schemaOf(ref, m.PayloadEncoding(), m.PayloadSchema, "value")
	}
	if m.DecodedKey() != nil {
		p.KeySchema = schemaOf(ref, m.KeyEncoding(), m.KeySchema, "key")
	}
	p.Encoded = p.Schema != nil || p.KeySchema != nil
	p.MayUnmask = !unmask && (len(m.Masked) > 0 && v.May("unmask", m.ScopeTopic()) || keepsBytes(m, v, unmask))
	return p, nil
}

// originalOf returns a draft that changes nothing of the message. It sets p.Fixed when the payload cannot be edited.
func (e *Edit) originalOf(r *http.Request, p *editPage) draft {
	raw, fixed := e.editable(r, api.RefOf(r, false), p.Message)
	p.Fixed = fixed
	return draftOf(p.Message, raw)
}

// editable returns the payload if it can be edited, nil for a tombstone, or else the reason for which it cannot be
// edited.
func (e *Edit) editable(r *http.Request, ref api.MessageRef, m *api.Message) (raw []byte, why string) {
	switch {
	case m.JSONPayload() != nil:
		return m.JSONPayload(), ""
	case m.PayloadOmitted == "" && m.PayloadSize == nil:
		return nil, ""
	case m.InKafka():
		return nil, "The payload is not stored here, so it is sent unchanged."
	case m.PayloadSize != nil && *m.PayloadSize > maxEdited:
		return nil, "The payload has " + format.Bytes(*m.PayloadSize) + ": more than 1 MiB cannot be edited here, so it is sent unchanged."
	}
	if keepsBytes(m, session.ViewerOf(r), request.Unmasks(r)) {
		return nil, "The payload cannot be masked, so it is loaded only when you unmask it. It is sent unchanged."
	}
	raw, all, err := e.api.Head(r, ref.Endpoint("payload"), maxEdited+1)
	switch {
	case err != nil:
		return nil, "The payload cannot be loaded, so it is sent unchanged: " + wordsOf(err)
	case !all || len(raw) > maxEdited:
		return nil, "More than 1 MiB cannot be edited here, so the payload is sent unchanged."
	default:
		return append([]byte{}, raw...), "" // an empty payload must not become nil, which means null
	}
}

// Send sends the edited message when it was checked, and shows the difference otherwise.
func (e *Edit) Send(w http.ResponseWriter, r *http.Request) error {
	if request.Text(r, "do") != "send" {
		return e.renderer.ShowAgain(w, r, nil)
	}
	p, err := e.load(r)
	if err != nil {
		return err
	}
	if why := deniedEdit(p.Message, session.ViewerOf(r)); why != "" {
		return &api.Error{Status: http.StatusForbidden, Message: "To edit and retry this message " + why + "."}
	}
	was := e.originalOf(r, p)
	if missing := lacks(r, p.Fixed == ""); missing != "" {
		return &api.Error{Status: http.StatusBadRequest, Message: "The form lacks the field " + missing + ". Nothing was sent."}
	}
	p.read(r, was)
	edit, problems := p.Draft.order(was)
	if len(problems) > 0 {
		return e.renderer.ShowAgain(w, r, nil)
	}
	if err := e.compare(r, p, was, len(edit) == 0); err != nil {
		return err
	}
	seen := request.Text(r, "checked") == p.Check.Mark
	if !seen || !p.Check.Sendable {
		return e.renderer.ShowAgain(w, r, notSent(seen, p.Check))
	}
	body := request.Body(r)
	body["edit"] = edit
	if p.Draft.Duplicate {
		body["accept_duplicate"] = true
	}
	if p.Draft.Envelope {
		body["accept_envelope"] = true
	}
	raw, err := editBody(body, p.Draft.json(was))
	if err != nil {
		return err
	}
	if err := e.api.Send(r, http.MethodPost, api.RefOf(r, false).Endpoint("retry"), raw, nil); err != nil {
		return e.refused(w, r, err)
	}
	return view.RedirectDone(w, r, "edited", p.Base)
}

// editBody returns the request body of a retry with an edit. It inserts a JSON payload as the user typed it, because an
// encoder would change its formatting. It does not use base64, which is a third longer, because then only a smaller
// payload would fit into the request.
func editBody(order map[string]any, payload string) ([]byte, error) {
	raw, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("write an edit: %w", err)
	}
	if payload != "" {
		raw = bytes.Replace(raw, []byte(`"payload":"\u0000payload"`), []byte(`"payload":`+payload), 1)
	}
	return raw, nil
}

// lacks returns the name of a field that the form lacks, or "". A form with a missing field is refused: it must not be
// read as if the user had emptied the field.
func lacks(r *http.Request, payload bool) string {
	names := []string{"topic", "record_key", "key_as", "header_name", "header_as", "header_value", "header_own"}
	if payload {
		names = append(names, "payload", "payload_as")
	}
	for _, name := range names {
		if !r.PostForm.Has(name) {
			return name
		}
	}
	return ""
}

// notSent returns the problem that says why the edit was not sent. The parameter seen means that the user has seen the
// check of this edit.
func notSent(seen bool, check *editCheck) *view.Problem {
	switch {
	case !seen:
		return &view.Problem{Title: "Nothing was sent", Message: "This is not what was checked. Review the difference below, then send it."}
	case check.Nothing:
		return &view.Problem{Title: "Nothing was sent", Message: "Nothing was changed. Retry the message to send it unchanged."}
	default:
		return &view.Problem{Title: "Nothing was sent", Message: "The payload is no longer JSON. Correct it, or tick the box to send it anyway."}
	}
}

// compare checks the draft of a page. Because it needs much memory, it waits while maxComparisons other comparisons
// run.
func (e *Edit) compare(r *http.Request, p *editPage, was draft, nothing bool) error {
	select {
	case e.comparisons <- struct{}{}:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	defer func() { <-e.comparisons }()
	p.Check = p.check(was, nothing)
	return nil
}

func (p *editPage) check(was draft, nothing bool) *editCheck {
	d := p.Draft
	k := &editCheck{Mark: d.checked(), Nothing: nothing, Payload: d.payloadChanged(was), Key: d.Key != was.Key}
	if d.Topic != p.OriginalTopic {
		k.Topic = d.Topic
	}
	if d.Payload.written() {
		k.JSON = checkJSON(d.Payload.Text)
		k.IsJSON = k.JSON == nil
	}
	if k.Payload && d.Payload.written() && was.Payload.As != asBase64 {
		k.Lines, k.SpaceOnly = diff.Texts(oneBreak(was.Payload.Text), d.Payload.Text)
	} else {
		k.Bytes = k.Payload
	}
	if d.headersChanged(was) {
		k.Headers = diff.Lines(was.headerLines(true), d.headerLines(false))
	}
	k.Sendable = !nothing && (!k.Payload || !p.WasJSON || k.JSON == nil || d.NotJSON)
	return k
}

// headerLines returns one line per header that is sent. When the parameter lost is true, it also returns a line for
// each header that is not sent because its name is not text: such headers are sent only while no other header changes.
func (d draft) headerLines(lost bool) string {
	var lines []string
	for _, h := range d.Headers {
		switch h.As {
		case asRemove:
			continue
		case asLost:
			if lost {
				lines = append(lines, h.Name+": not sent, because its name is not text")
			}
		case asText:
			lines = append(lines, h.Name+": "+h.Text)
		case asBase64:
			lines = append(lines, h.Name+": base64 "+h.Text)
		case asKeep:
			lines = append(lines, h.Name+": unchanged")
		default:
			lines = append(lines, h.Name+": null")
		}
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\n", `\n`)
	}
	return strings.Join(lines, "\n")
}

// refused shows the form again, with the API's error above it. If the API rejects only headers that mark dead letters
// or that every attempt writes, refused removes them from the form.
func (e *Edit) refused(w http.ResponseWriter, r *http.Request, err error) error {
	var answer *api.Error
	if errors.As(err, &answer) && answer.Status == http.StatusBadRequest && removeRejected(r.PostForm, answer.Details) {
		return e.renderer.ShowAgain(w, r, &view.Problem{
			Title:   "Nothing was sent",
			Message: "Some headers mark dead letters, or are written by every attempt. They were removed: review the difference, then send it.",
		})
	}
	return view.Answered(err, func(problem *view.Problem) error {
		explainAttempt(problem, e.now())
		return e.renderer.ShowAgain(w, r, problem)
	})
}

// removeRejected removes from the form the headers that the API rejects, because they mark dead letters or every
// attempt writes them. If there are other problems, it removes none and returns false.
func removeRejected(form url.Values, details []map[string]any) bool {
	var names []string
	for _, detail := range details {
		field, _ := detail["field"].(string)
		reason, _ := detail["reason"].(string)
		before, name, named := strings.Cut(reason, ": ")
		if !strings.HasSuffix(field, "].key") || !named || !strings.HasPrefix(before, "would mark") && !strings.HasPrefix(before, "is written ") {
			return false
		}
		names = append(names, name)
	}
	for i, name := range form["header_name"] {
		if slices.Contains(names, name) && i < len(form["header_as"]) {
			form["header_as"][i] = asRemove
		}
	}
	return len(names) > 0
}
