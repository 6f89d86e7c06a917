package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// message is a message of the API. An unknown text is empty, an unknown number nil.
type message struct {
	ID             string    `json:"id"`
	Status         string    `json:"status"`
	OriginalTopic  string    `json:"original_topic"`
	ErrorMessage   string    `json:"error_message"`
	ErrorClass     string    `json:"error_class"`
	StackTrace     string    `json:"stack_trace"`
	RetryCount     int       `json:"retry_count"`
	MaxRetries     int       `json:"max_retries"`
	CreatedAt      time.Time `json:"created_at"`
	NextAttemptAt  time.Time `json:"next_attempt_at"`
	FinishedAt     time.Time `json:"finished_at"`
	DLQTopic       string    `json:"dlq_topic"`
	DLQPartition   *int32    `json:"dlq_partition"`
	DLQOffset      *int64    `json:"dlq_offset"`
	DLQTimestamp   time.Time `json:"dlq_timestamp"`
	DLQRawTime     *int64    `json:"dlq_timestamp_ms"`
	OrigPartition  *int32    `json:"original_partition"`
	OrigOffset     *int64    `json:"original_offset"`
	OrigTimestamp  time.Time `json:"original_timestamp"`
	ConsumerGroup  string    `json:"consumer_group"`
	ConsumerTries  *int      `json:"consumer_attempts"`
	Dialect        string    `json:"dialect"`
	OriginKnownBy  string    `json:"origin_confidence"`
	Undeclared     bool      `json:"undeclared"`
	UndeclaredWhy  string    `json:"undeclared_reason"`
	GroupID        string    `json:"group_id"`
	ParentID       string    `json:"parent_id"`
	Confirmed      *bool     `json:"return_confirmed"` // nil: it is not a return
	Outcome        string    `json:"outcome"`
	OutcomeGroup   string    `json:"outcome_group"`
	OutcomeOffset  *int64    `json:"outcome_offset"`
	LastError      string    `json:"last_publish_error"`
	LastErrorClass string    `json:"last_publish_error_class"`
	HeadersOmitted string    `json:"headers_omitted"`
	PayloadOmitted string    `json:"payload_omitted"`
	PayloadSize    *int64    `json:"payload_size"`
	Masked         []string  `json:"masked"`
	Hops           []hop     `json:"hops"`
	Key            *blob     `json:"key"`
	KeyOmitted     string    `json:"key_omitted"`
	KeySize        *int64    `json:"key_size"`
	Headers        []header  `json:"headers"`
	Derived        map[string]derived
	Payload        json.RawMessage `json:"payload"`

	revealed bool // masked values are shown, and the audit trail has an entry about it
}

// Unconfirmed reports whether the message is a return that is not confirmed, and so changed no outcome.
func (m message) Unconfirmed() bool { return m.Confirmed != nil && !*m.Confirmed }

type hop struct {
	Dialect   string `json:"dialect"`
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
}

// Where returns the topic that roles are granted by: the original topic, or the dead-letter topic while that is
// unknown.
func (m *message) Where() string {
	if m.OriginalTopic != "" {
		return m.OriginalTopic
	}
	return m.DLQTopic
}

// unsettled reports whether the result of the last attempt is unknown.
func (m *message) unsettled() bool {
	return m.Status == "RETRYING" && m.LastErrorClass == "UNKNOWN"
}

type messagePage struct {
	*message
	Archived    bool
	Base        string // address of the page
	Unmask      bool   // masked values are shown, and the audit trail has an entry about it
	MayUnmask   bool   // the viewer may unmask
	Group       *groupState
	Stack       stack
	Origin      []fact
	Payload     payloadView
	Headers     []shownHeader
	MoreHeaders bool
	Trace       trace
	Past        []event
	Lineage     []ancestor
	Children    []message
	Fate        fate
	Acts        acts
	Curl        []command
}

// place addresses a message in the API and in the console.
type place struct {
	id       string
	archived bool
}

func placeOf(r *http.Request, archived bool) place { return place{r.PathValue("id"), archived} }

func (p place) api(more ...string) string {
	segments := []string{"dlq", "messages", p.id}
	if p.archived {
		segments = []string{"archive", p.id}
	}
	return endpoint(append(segments, more...)...)
}

func (p place) page() string {
	return p.list() + "/" + url.PathEscape(p.id)
}

func (p place) list() string {
	if p.archived {
		return archivePath
	}
	return messagesPath
}

func (c *Console) messagePage(archived bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return c.showMessage(w, r, placeOf(r, archived), http.StatusOK, nil)
	}
}

func (c *Console) showMessage(w http.ResponseWriter, r *http.Request, at place, status int, problem *failure) error {
	m, err := c.loadMessage(r, at, unmasks(r))
	if err != nil {
		return c.orWhereItWent(w, r, at, err)
	}
	data, err := c.compose(r, at, m)
	if err != nil {
		return err
	}
	return c.render(w, r, status, "message", page{
		Title: "Message " + short(m.ID), Nav: at.list(), Modules: []string{"message"}, Problem: problem, Data: data,
	})
}

// unmasks reports whether a page of this console requests unmasked values, which adds an entry to the audit trail.
func unmasks(r *http.Request) bool { return r.FormValue("unmask") == "true" && !ofAnotherSite(r) }

func masking(unmask bool) url.Values {
	if unmask {
		return url.Values{"unmask": {"true"}}
	}
	return nil
}

// loadMessage loads a message, unmasked only if it has masks: each unmasked read adds an entry to the audit trail.
func (c *Console) loadMessage(r *http.Request, at place, unmask bool) (*message, error) {
	var m message
	if err := c.api.get(r, at.api(), nil, &m); err != nil {
		return nil, err
	}
	if !unmask || len(m.Masked) == 0 {
		return &m, nil
	}
	whole := message{revealed: true}
	if err := c.api.get(r, at.api(), masking(true), &whole); err != nil {
		return nil, err
	}
	return &whole, nil
}

// keepsBytes reports whether the payload is loaded only on request: bytes cannot be masked, and each load is audited.
func (m *message) keepsBytes(v *viewer, unmask bool) bool {
	return !unmask && m.onlyBytes() && v.mayReveal(m)
}

// onlyBytes reports whether the message has a payload that the answer does not contain.
func (m *message) onlyBytes() bool { return m.hasPayload() == nil && m.PayloadOmitted != "" }

// mayReveal reports whether values may be masked, and the viewer may unmask them.
func (v *viewer) mayReveal(m *message) bool {
	return v != nil && v.Masking && v.May("unmask", m.Where())
}

// orWhereItWent redirects to the archive when the message was archived, and back when it was restored.
func (c *Console) orWhereItWent(w http.ResponseWriter, r *http.Request, at place, err error) error {
	var refused *apiError
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || r.Method != http.MethodGet {
		return err
	}
	other := place{at.id, !at.archived}
	if _, elsewhere := c.loadMessage(r, other, false); elsewhere != nil {
		return err
	}
	return seeOther(w, r, other.page())
}

func (c *Console) compose(r *http.Request, at place, m *message) (*messagePage, error) {
	unmask, viewer := unmasks(r), viewerOf(r)
	p := &messagePage{message: m, Archived: at.archived, Base: at.page()}
	p.Fate = c.fateOf(m, r.URL.Query().Get("seen"))
	if r.Header.Get("HX-Target") == "outcome" { // only this part of the page is requested
		return p, nil
	}
	p.Unmask = m.revealed || unmask && m.onlyBytes() && viewer.mayReveal(m)
	p.MayUnmask = !unmask && len(m.Masked) > 0 && viewer.May("unmask", m.Where())
	if err := c.loadPast(r, at, p); err != nil {
		return nil, err
	}
	p.Group = c.groupOf(r, m)
	p.Stack = foldStack(m.StackTrace, c.cfg.ApplicationFrames)
	p.Origin = originOf(m)
	p.Headers = decodeHeaders(m)
	p.MoreHeaders = m.HeadersOmitted != "" || len(m.Headers) > maxHeaders
	p.Trace = c.traceOf(m.Headers)
	p.Payload = c.viewPayload(r, at, m)
	p.Acts = actsOf(m, viewer, r, at.archived)
	p.Curl = c.commands(r, at, m)
	return p, nil
}

// groupOf returns the error group of a message, nil for none. When it cannot be read, it has a general title.
func (c *Console) groupOf(r *http.Request, m *message) *groupState {
	if m.GroupID == "" {
		return nil
	}
	g, _ := c.group(r, m.GroupID)
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
