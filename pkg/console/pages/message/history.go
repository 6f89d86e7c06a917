package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

type history struct {
	Attempts []pastAttempt `json:"attempts"`
	Changes  []api.Change  `json:"changes"`
	Lineage  []ancestor    `json:"lineage"`
}

type pastAttempt struct {
	Number        int       `json:"number"`
	BulkRedriveID string    `json:"bulk_redrive_id"`
	Actor         string    `json:"actor"`
	StartedAt     time.Time `json:"started_at"`
	EndedAt       time.Time `json:"ended_at"`
	From          string    `json:"from_status"`
	To            string    `json:"to_status"`
	ErrorClass    string    `json:"error_class"`
	Error         string    `json:"error"`
	Topic         string    `json:"topic"`
	Partition     *int32    `json:"partition"`
	Offset        *int64    `json:"offset"`
	Edit          *edited   `json:"edit"`
}

func (a pastAttempt) Where() string { return position(a.Partition, a.Offset) }

type edited struct {
	TargetTopic    string          `json:"target_topic"`
	PayloadChanged bool            `json:"payload_changed"`
	PayloadPatch   json.RawMessage `json:"payload_patch"`
	KeyChanged     bool            `json:"key_changed"`
	HeadersChanged bool            `json:"headers_changed"`
	RedrivePatch   json.RawMessage `json:"redrive_patch"`
}

type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

const maxOperations = 50 // operations of a patch that are shown; further operations are left out

func (o operation) Text() string {
	text := o.Op + " " + o.Path
	if o.From != "" {
		text += " from " + o.From
	}
	if o.Op == "add" || o.Op == "replace" || o.Op == "test" {
		text += " = " + format.Clip(300, string(o.Value))
	}
	return format.Visible(text)
}

// masked reports whether an edit in the history may contain a mask. Only then is the history read again without masks,
// because each such read adds an audit entry.
func (h history) masked() bool {
	hides := func(a pastAttempt) bool {
		const mask = `"` + api.Mask + `"`
		return a.Edit != nil && (bytes.Contains(a.Edit.PayloadPatch, []byte(mask)) || bytes.Contains(a.Edit.RedrivePatch, []byte(mask)))
	}
	return slices.ContainsFunc(h.Attempts, hides) ||
		slices.ContainsFunc(h.Lineage, func(a ancestor) bool { return slices.ContainsFunc(a.Attempts, hides) })
}

// Operations returns at most the first maxOperations operations of the patch; none when the patch is unknown.
func (e edited) Operations() []operation {
	patch := e.PayloadPatch
	if len(e.RedrivePatch) > 0 && string(e.RedrivePatch) != "null" {
		patch = e.RedrivePatch
	}
	var list []operation
	if json.Unmarshal(patch, &list) != nil {
		return nil
	}
	return list[:min(len(list), maxOperations)]
}

type ancestor struct {
	ID         string        `json:"id"`
	Status     string        `json:"status"`
	Outcome    string        `json:"outcome"`
	RetryCount int           `json:"retry_count"`
	CreatedAt  time.Time     `json:"created_at"`
	Attempts   []pastAttempt `json:"attempts"`
}

// LastTarget returns the topic and, if known, the position to which the ancestor's last attempt sent it or tried to; ""
// without attempts.
func (a ancestor) LastTarget() string {
	if len(a.Attempts) == 0 {
		return ""
	}
	last := a.Attempts[len(a.Attempts)-1]
	return strings.TrimSuffix(last.Topic+" "+last.Where(), " ")
}

type event struct {
	At      time.Time
	What    string
	Came    bool
	Attempt *pastAttempt
	Change  *api.Change
}

const maxEvents = 200 // events of a history that are shown: only the latest ones

var changeWords = map[string]string{
	"retry":   "was retried",
	"requeue": "was requeued",
	"dead":    "was marked dead",
	"delete":  "was deleted",
	"map":     "was given an original topic",
	"restore": "was restored from the archive",
	"erase":   "was erased from the archive",
	"unmask":  "was shown without masks",

	"accept_envelope": "was sent although it looks like an envelope",
}

// readHistory reads the history of the message. With unmask, a history whose edits may contain masks is read without
// masks.
func readHistory(r *http.Request, client api.Client, ref api.MessageRef, unmask bool) (h history, err error) {
	if err := client.Get(r, ref.Endpoint("history"), nil, &h); err != nil || !unmask || !h.masked() {
		return h, err
	}
	h = history{}
	return h, client.Get(r, ref.Endpoint("history"), masking(true), &h)
}

// pastOf returns the latest maxEvents events in one list, the oldest first. It omits audit entries of attempts, which
// are in the list already.
func pastOf(m *api.Message, h history) []event {
	events := []event{{At: m.CreatedAt, Came: true, What: "was received"}}
	for i := range h.Attempts {
		a := &h.Attempts[i]
		when := a.EndedAt
		if when.IsZero() {
			when = a.StartedAt
		}
		events = append(events, event{At: when, What: "attempt " + strconv.Itoa(a.Number), Attempt: a})
	}
	for i := range h.Changes {
		ch := &h.Changes[i]
		if ch.Action == "attempt" && len(h.Attempts) > 0 {
			continue
		}
		events = append(events, event{At: ch.At, What: cmp.Or(changeWords[ch.Action], ch.Action), Change: ch})
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.At.Compare(b.At) })
	return events[max(0, len(events)-maxEvents):]
}

// childrenOf finds at most ten of the messages that were stored when this message failed again: those with this message
// as parent, whose records have the header dlq-message-id with its id. After an error it returns no messages, because
// the search may be too slow, or forbidden for the viewer, and the page can be shown without them.
func childrenOf(r *http.Request, client api.Client, id string) []api.Message {
	var list struct {
		Messages []api.Message `json:"messages"`
	}
	query := url.Values{"header": {"dlq-message-id=" + id}, "limit": {"10"}, "omit": {"payload"}}
	if err := client.Get(r, api.Endpoint("messages"), query, &list); err != nil {
		return nil
	}
	return slices.DeleteFunc(list.Messages, func(m api.Message) bool { return m.ParentID != id })
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
