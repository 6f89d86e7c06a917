package groups

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Compare compares two messages, mostly of one error group.
type Compare struct {
	api         api.Client
	renderer    *view.Renderer
	comparisons chan struct{} // semaphore that limits the comparisons that run at once
}

const (
	maxComparisons = 2         // comparisons of large texts that run at once; further comparisons wait
	maxCompared    = 256 << 10 // largest payload in bytes that is compared if it is not JSON; a larger one is not compared
	maxHeaderLine  = 200       // characters of a header value that are shown; the middle of a longer value is compared by its hash
)

// NewCompare returns the page.
func NewCompare(client api.Client, renderer *view.Renderer) *Compare {
	return &Compare{client, renderer, make(chan struct{}, maxComparisons)}
}

type comparison struct {
	ID, URL string // id and address of the error group
	A, B    string // ids of the messages, as typed
	Sides   []side // the two messages; empty until the address names two messages that can be read

	Same      bool // the payloads are equal
	SpaceOnly bool // only the space between JSON tokens differs
	Lines     []diff.Line
	WhyNot    string // the reason for which the payloads are not compared
	Headers   []diff.Line
}

type side struct {
	Name string
	*api.Message
	URL string

	text   string
	whyNot string // the reason for which the payload has no text
}

// Show shows the difference between the messages a and b of the address.
func (c *Compare) Show(w http.ResponseWriter, r *http.Request) error {
	query, id := r.URL.Query(), r.PathValue("id")
	p := &comparison{ID: id, URL: link.ErrorGroup(id), A: strings.TrimSpace(query.Get("a")), B: strings.TrimSpace(query.Get("b"))}
	page := view.Page{Title: "Compare two messages", Nav: link.Groups, Data: p}
	if p.A == "" || p.B == "" {
		return c.renderer.Render(w, r, http.StatusOK, "compare", page)
	}
	for _, one := range []struct{ name, id string }{{"First", p.A}, {"Second", p.B}} {
		s, err := c.load(r, one.name, one.id)
		if err != nil {
			status, problem, err := view.ProblemOf(err)
			if err != nil {
				return err
			}
			p.Sides, page.Problem = nil, problem
			return c.renderer.Render(w, r, status, "compare", page)
		}
		p.Sides = append(p.Sides, s)
	}
	select {
	case c.comparisons <- struct{}{}:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	defer func() { <-c.comparisons }()
	p.compare()
	return c.renderer.Render(w, r, http.StatusOK, "compare", page)
}

func (p *comparison) compare() {
	a, b := p.Sides[0], p.Sides[1]
	p.WhyNot = cmp.Or(a.whyNot, b.whyNot)
	if p.WhyNot == "" {
		if p.Same = a.text == b.text; !p.Same {
			p.Lines, p.SpaceOnly = diff.Texts(a.text, b.text)
		}
	}
	if was, now := headerLines(a.Message), headerLines(b.Message); was != now {
		p.Headers = diff.Lines(was, now)
	}
}

// load reads a message, live or archived, with the masks that apply to the viewer.
func (c *Compare) load(r *http.Request, name, id string) (side, error) {
	s := side{Name: name, Message: &api.Message{}}
	ref := api.MessageRef{ID: id}
	err := c.api.Get(r, ref.Endpoint(), nil, s.Message)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		archived := api.MessageRef{ID: id, Archived: true}
		if c.api.Get(r, archived.Endpoint(), nil, s.Message) == nil {
			ref, err = archived, nil
		}
	}
	if err != nil {
		return s, err
	}
	s.URL = ref.URL()
	s.text, s.whyNot = c.payload(r, ref, s.Message)
	return s, nil
}

// payload returns the payload as text. A payload that is not in the answer is loaded only without masking rules,
// because bytes cannot be masked.
func (c *Compare) payload(r *http.Request, ref api.MessageRef, m *api.Message) (text, whyNot string) {
	which := "The payload of " + format.Short(m.ID)
	switch viewer := session.ViewerOf(r); {
	case m.JSONPayload() != nil:
		return string(m.JSONPayload()), ""
	case !m.OnlyBytes():
		return "", "" // the message is a tombstone
	case m.InKafka() || m.PayloadOmitted == "unreadable":
		return "", which + " is not stored here."
	case viewer != nil && viewer.Masking:
		return "", which + " is not JSON, so it cannot be masked."
	}
	raw, all, err := c.api.Head(r, ref.Endpoint("payload"), maxCompared)
	switch whole, isText := format.WholeText(raw, false); {
	case err != nil:
		return "", which + " cannot be loaded."
	case !all:
		return "", which + " is larger than " + format.Bytes(maxCompared) + "."
	case !isText:
		return "", which + " is not text."
	default:
		return whole, ""
	}
}

func headerLines(m *api.Message) string {
	lines := make([]string, len(m.Headers))
	for i, h := range m.Headers {
		value := "null"
		if h.Value != nil {
			value = strings.ReplaceAll(shortened(headerText(h.Value)), "\n", `\n`)
		}
		lines[i] = strings.ReplaceAll(h.Key, "\n", `\n`) + ": " + value
	}
	return strings.Join(lines, "\n")
}

// shortened leaves out the middle of a long value. It adds a part of the value's hash, so that two values that differ in
// the middle differ.
func shortened(text string) string {
	short := format.Middle(maxHeaderLine, text)
	if short != text {
		sum := sha256.Sum256([]byte(text))
		short += fmt.Sprintf(" (SHA-256 %x…)", sum[:6])
	}
	return short
}

// headerText returns a value as text, or in hex if it is not text or has control characters.
func headerText(b *api.Blob) string {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }
	if raw := b.Bytes(); b.Encoding == "base64" || bytes.ContainsFunc(raw, control) {
		return fmt.Sprintf("0x%x", raw)
	}
	return b.Data
}
