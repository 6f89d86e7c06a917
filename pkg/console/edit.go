package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// maxEdited is the largest payload in bytes that can be edited: the API accepts no larger body.
const maxEdited = 1 << 20

type editPage struct {
	*message
	Base   string
	Unmask bool
	Can    act // Why: the reason for which it cannot be sent

	MayUnmask bool
	Draft     draft
	Fresh     []int  // empty rows to add headers in
	WasJSON   bool   // the payload of the stored message is JSON
	Fixed     string // the reason for which the payload cannot be edited; "" when it can

	Unsettled bool
	Check     *editCheck // nil: no check was requested
}

type editCheck struct {
	JSON      *jsonProblem // nil: it is JSON
	IsJSON    bool
	Lines     []diffLine
	SpaceOnly bool // only the space between JSON tokens differs
	Payload   bool // the payload differs
	Bytes     bool // the payload differs, and cannot be compared as text
	Key       bool
	Topic     string
	Headers   []diffLine
	Nothing   bool // nothing differs
	Mark      string
	Sendable  bool
}

func (c *Console) showEdit(w http.ResponseWriter, r *http.Request) error {
	p, err := c.editOf(r)
	if err != nil {
		return err
	}
	p.Draft = c.originalOf(r, p)
	return c.renderEdit(w, r, http.StatusOK, p, nil)
}

// editOf loads the message to edit, without a payload that has to be fetched separately.
func (c *Console) editOf(r *http.Request) (*editPage, error) {
	at, unmask := placeOf(r, false), unmasks(r)
	m, err := c.loadMessage(r, at, unmask)
	if err != nil {
		return nil, err
	}
	v := viewerOf(r)
	p := &editPage{
		message: m, Base: at.page(), Unmask: unmask, Can: actsOf(m, v, r, false).Edit, Unsettled: m.unsettled(),
		WasJSON: m.hasPayload() != nil,
	}
	p.MayUnmask = !unmask && (len(m.Masked) > 0 && v.May("unmask", m.Where()) || m.keepsBytes(v, unmask))
	return p, nil
}

// originalOf returns the message as a draft, unchanged. It sets p.Fixed when the payload cannot be edited.
func (c *Console) originalOf(r *http.Request, p *editPage) draft {
	raw, fixed := c.editable(r, placeOf(r, false), p.message)
	p.Fixed = fixed
	return draftOf(p.message, raw)
}

// editable returns a payload that can be edited, nil for a tombstone, or the reason for which it cannot.
func (c *Console) editable(r *http.Request, at place, m *message) (raw []byte, why string) {
	switch {
	case m.hasPayload() != nil:
		return m.hasPayload(), ""
	case m.PayloadOmitted == "" && m.PayloadSize == nil:
		return nil, ""
	case elsewhere(m.PayloadOmitted):
		return nil, "The payload is not stored here, so it is sent unchanged."
	case m.PayloadSize != nil && *m.PayloadSize > maxEdited:
		return nil, "The payload has " + byteSize(*m.PayloadSize) + ": more than 1 MiB cannot be edited here, so it is sent unchanged."
	}
	if m.keepsBytes(viewerOf(r), unmasks(r)) {
		return nil, "The payload cannot be masked, so it is loaded only when you unmask it. It is sent unchanged."
	}
	raw, all, err := c.api.head(r, at.api("payload"), maxEdited+1)
	switch {
	case err != nil:
		return nil, "The payload cannot be loaded, so it is sent unchanged: " + wordsOf(err)
	case !all || len(raw) > maxEdited:
		return nil, "More than 1 MiB cannot be edited here, so the payload is sent unchanged."
	default:
		return append([]byte{}, raw...), "" // an empty payload must not become nil
	}
}

func (c *Console) takeEdit(w http.ResponseWriter, r *http.Request) error {
	p, err := c.editOf(r)
	if err != nil {
		return err
	}
	if why := mayNotEdit(p.message, viewerOf(r)); why != "" {
		return &apiError{Status: http.StatusForbidden, Message: "To edit and retry this message " + why + "."}
	}
	was := c.originalOf(r, p)
	if missing := lacks(r, p.Fixed == ""); missing != "" {
		return &apiError{Status: http.StatusBadRequest, Message: "The form lacks the field " + missing + ". Nothing was sent."}
	}
	p.Draft = readDraft(r, was)
	p.Draft.settle(was)
	if p.Fixed != "" {
		p.Draft.Payload = was.Payload
	}
	if p.Can.Why != "" && text(r, "do") != "send" { // for a form that was sent twice, the API answers that it was sent
		return c.renderEdit(w, r, http.StatusConflict, p, &failure{Title: titles[http.StatusConflict], Message: "It cannot be sent: " + p.Can.Why + "."})
	}
	edit, problems := p.Draft.order(was)
	if len(problems) > 0 {
		return c.renderEdit(w, r, http.StatusBadRequest, p, &failure{Title: titles[http.StatusBadRequest], Message: "The form has invalid values.", Fields: problems})
	}
	if err := c.alone(r, func() { p.Check = p.check(was, len(edit) == 0) }); err != nil {
		return err
	}
	seen := text(r, "checked") == p.Check.Mark
	if text(r, "do") != "send" || !seen || !p.Check.Sendable {
		return c.renderEdit(w, r, http.StatusOK, p, notSent(r, seen, p.Check))
	}
	body := reasoned(r)
	body["edit"] = edit
	if p.Draft.Duplicate {
		body["accept_duplicate"] = true
	}
	raw, err := editBody(body, p.Draft.json(was))
	if err != nil {
		return err
	}
	if err := c.api.send(r, http.MethodPost, placeOf(r, false).api("retry"), raw, nil); err != nil {
		return c.editRefused(w, r, p, was, err)
	}
	return seeDone(w, r, "edited", p.Base)
}

// payloadHere marks where a JSON payload goes in a request. No other text looks like it: its quotes would be escaped.
const payloadHere = "\x00payload"

// editBody returns the request body of a retry with an edit. A payload that is JSON is inserted as it was typed: an
// encoder would change its formatting, and base64 would leave room for a third less.
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

// lacks returns the name of a missing field, or "": a missing field must not be taken for an emptied one.
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

// notSent says why the edit was not sent; nil when the form did not ask to send it.
func notSent(r *http.Request, seen bool, check *editCheck) *failure {
	switch {
	case text(r, "do") != "send":
		return nil
	case !seen:
		return &failure{Title: "Nothing was sent", Message: "This is not what was checked. Review the difference below, then send it."}
	case check.Nothing:
		return &failure{Title: "Nothing was sent", Message: "Nothing was changed. Retry the message to send it unchanged."}
	default:
		return &failure{Title: "Nothing was sent", Message: "The payload is no longer JSON. Correct it, or tick the box to send it anyway."}
	}
}

func (p *editPage) check(was draft, nothing bool) *editCheck {
	d := p.Draft
	k := &editCheck{Mark: d.checked(), Nothing: nothing, Payload: d.payloadChanged(was), Key: d.Key != was.Key}
	if d.Topic != p.OriginalTopic {
		k.Topic = d.Topic
	}
	if d.Payload.As == asText {
		k.JSON = checkJSON(d.Payload.Text)
		k.IsJSON = k.JSON == nil
	}
	if k.Payload && d.Payload.As == asText && was.Payload.As != asBase64 {
		k.Lines, k.SpaceOnly = differenceOf(oneBreak(was.Payload.Text), d.Payload.Text)
	} else {
		k.Bytes = k.Payload
	}
	if d.headersChanged(was) {
		k.Headers = textDifference(was.headerLines(true), d.headerLines(false))
	}
	k.Sendable = !nothing && (!k.Payload || !p.WasJSON || k.JSON == nil || d.NotJSON)
	return k
}

// headerLines returns one line per header. Headers whose name is not text are sent only while no other header changes.
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

// editRefused shows the form again below the API's answer. Headers that the API rejects as dead-letter headers are
// removed from the draft.
func (c *Console) editRefused(w http.ResponseWriter, r *http.Request, p *editPage, was draft, err error) error {
	var refused *apiError
	if errors.As(err, &refused) && refused.Status == http.StatusBadRequest && p.Draft.takeOut(refused.Details) {
		if err := c.alone(r, func() { p.Check = p.check(was, false) }); err != nil {
			return err
		}
		return c.renderEdit(w, r, http.StatusBadRequest, p, &failure{
			Title:   "Nothing was sent",
			Message: "Some headers mark dead letters, or are written by every attempt. They were removed: review the difference, then send it.",
		})
	}
	status, problem, err := problemOf(err)
	if err != nil {
		return err
	}
	c.tellAttempt(problem)
	return c.renderEdit(w, r, status, p, problem)
}

// takeOut removes the headers that the API rejects, and reports whether the API reported nothing else.
func (d *draft) takeOut(details []map[string]any) bool {
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
	for i, h := range d.Headers {
		if slices.Contains(names, h.Name) {
			d.Headers[i].As = asRemove
		}
	}
	return len(names) > 0
}

func (c *Console) renderEdit(w http.ResponseWriter, r *http.Request, status int, p *editPage, problem *failure) error {
	p.Fresh = make([]int, freshRows)
	return c.render(w, r, status, "edit", page{Title: "Edit and retry " + short(p.ID), Nav: "/messages", Problem: problem, Data: p})
}
