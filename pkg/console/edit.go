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

// maxEdited is the largest payload that can be edited: the API takes no larger body.
const maxEdited = 1 << 20

type editPage struct {
	*message
	Base   string
	Unmask bool
	Can    act // Why: it cannot be sent, and why

	MayUnmask bool
	Draft     draft
	Fresh     []int  // empty rows
	WasJSON   bool   // the payload of the message is
	Fixed     string // why the payload cannot be edited; "" when it can

	Unsettled bool
	Check     *editCheck // nil: nobody asked for it
}

type editCheck struct {
	JSON      *jsonProblem // nil: it is
	IsJSON    bool
	Lines     []diffLine
	SpaceOnly bool // only spaces between the tokens of JSON differ
	Payload   bool // it differs
	Bytes     bool // it differs, and is no text to compare
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

// editOf loads the message that is edited, but for a value that has to be fetched.
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

// originalOf is the message as it is, to be changed. It notes why the value cannot be.
func (c *Console) originalOf(r *http.Request, p *editPage) draft {
	raw, fixed := c.editable(r, placeOf(r, false), p.message)
	p.Fixed = fixed
	return draftOf(p.message, raw)
}

// editable returns a payload that can be edited, or why it cannot. nil is a tombstone.
func (c *Console) editable(r *http.Request, at place, m *message) (raw []byte, why string) {
	switch {
	case m.hasPayload() != nil:
		return m.hasPayload(), ""
	case m.PayloadOmitted == "" && m.PayloadSize == nil:
		return nil, ""
	case elsewhere(m.PayloadOmitted):
		return nil, "The payload is not stored here, so it goes as it is."
	case m.PayloadSize != nil && *m.PayloadSize > maxEdited:
		return nil, "The payload has " + byteSize(*m.PayloadSize) + ": more than 1 MiB cannot be edited here, so it goes as it is."
	}
	if m.keepsBytes(viewerOf(r), unmasks(r)) {
		return nil, "The payload cannot be masked, so it is loaded only when you unmask it. It goes as it is."
	}
	raw, all, err := c.api.head(r, at.api("payload"), maxEdited+1)
	switch {
	case err != nil:
		return nil, "The payload cannot be had, so it goes as it is: " + wordsOf(err)
	case !all || len(raw) > maxEdited:
		return nil, "More than 1 MiB cannot be edited here, so the payload goes as it is."
	default:
		return append([]byte{}, raw...), "" // not nil when it is empty
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
		return &apiError{Status: http.StatusBadRequest, Message: "The form came without its field " + missing + ". Nothing was sent."}
	}
	p.Draft = readDraft(r, was)
	p.Draft.settle(was)
	if p.Fixed != "" {
		p.Draft.Payload = was.Payload
	}
	if p.Can.Why != "" && text(r, "do") != "send" { // one that was sent twice is told by the API that it was sent
		return c.renderEdit(w, r, http.StatusConflict, p, &failure{Title: titles[http.StatusConflict], Message: "It cannot be sent: " + p.Can.Why + "."})
	}
	edit, problems := p.Draft.order(was)
	if len(problems) > 0 {
		return c.renderEdit(w, r, http.StatusBadRequest, p, &failure{Title: titles[http.StatusBadRequest], Message: "What was typed cannot be sent.", Fields: problems})
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

// payloadHere holds the place of a JSON payload in an order. No other text looks like it: their quotes are escaped.
const payloadHere = "\x00payload"

// editBody is the body of a retry with an edit. A payload that is JSON goes into it as it was typed: an encoder would
// change how it is written, and base64 would leave room for a third less of it.
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

// lacks names a field that did not come, "" for none: it must not pass for a field that was emptied.
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

// notSent says why what was to be sent was not; nil when nobody wanted to.
func notSent(r *http.Request, seen bool, check *editCheck) *failure {
	switch {
	case text(r, "do") != "send":
		return nil
	case !seen:
		return &failure{Title: "Nothing was sent", Message: "This is not what was checked. Look at the difference below, then send it."}
	case check.Nothing:
		return &failure{Title: "Nothing was sent", Message: "Nothing was changed. Retry the message to send it as it is."}
	default:
		return &failure{Title: "Nothing was sent", Message: "The payload is not JSON any more. Mend it, or say that it is meant so."}
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

// headerLines has a line for each header. Headers whose name is no text go along only while no other header changes.
func (d draft) headerLines(lost bool) string {
	var lines []string
	for _, h := range d.Headers {
		switch h.As {
		case asRemove:
			continue
		case asLost:
			if lost {
				lines = append(lines, h.Name+": not kept, since its name is not text")
			}
		case asText:
			lines = append(lines, h.Name+": "+h.Text)
		case asBase64:
			lines = append(lines, h.Name+": base64 "+h.Text)
		case asKeep:
			lines = append(lines, h.Name+": as it is")
		default:
			lines = append(lines, h.Name+": null")
		}
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\n", `\n`)
	}
	return strings.Join(lines, "\n")
}

// editRefused shows the form again below the API's answer. Headers that it refuses as those of dead letters are taken
// out.
func (c *Console) editRefused(w http.ResponseWriter, r *http.Request, p *editPage, was draft, err error) error {
	var refused *apiError
	if errors.As(err, &refused) && refused.Status == http.StatusBadRequest && p.Draft.takeOut(refused.Details) {
		if err := c.alone(r, func() { p.Check = p.check(was, false) }); err != nil {
			return err
		}
		return c.renderEdit(w, r, http.StatusBadRequest, p, &failure{
			Title:   "Nothing was sent",
			Message: "Some headers mark dead letters, or are written anew with every attempt. They were taken out: look at the difference, then send it.",
		})
	}
	status, problem, err := problemOf(err)
	if err != nil {
		return err
	}
	c.tellAttempt(problem)
	return c.renderEdit(w, r, status, p, problem)
}

// takeOut removes the headers that the API refuses, and reports whether that was all that it said.
func (d *draft) takeOut(details []map[string]any) bool {
	var names []string
	for _, detail := range details {
		field, _ := detail["field"].(string)
		reason, _ := detail["reason"].(string)
		before, name, named := strings.Cut(reason, ": ")
		if !strings.HasSuffix(field, "].key") || !named || !strings.HasPrefix(before, "would mark") && !strings.HasPrefix(before, "is written anew") {
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
