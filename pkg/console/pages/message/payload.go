package message

import (
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const (
	maxText = 64 << 10 // bytes of a payload that are shown as text; the rest is cut off
	maxHex  = 4 << 10  // bytes of a payload that are shown in hex; the rest is cut off

	maxShort = 1 << 10 // a payload with at most this many bytes is shown above the stack trace

	// Formatted JSON that does not fit on the page is shown only if it has at most maxExpansion bytes per byte of the
	// payload; otherwise the payload is shown unformatted.
	maxExpansion = 8
)

type payloadView struct {
	Chosen   string // tree, pretty, text, hex, or "" when nothing is shown
	Tabs     []tab
	Notes    []string // remarks about the payload
	Tree     *tree
	Text     string
	Shown    int64  // number of the payload's bytes that the page shows; 0: it shows all
	Size     int64  // bytes of the whole payload
	Known    bool   // Size is known
	None     bool   // there is no payload: a tombstone
	Empty    bool   // the payload has no bytes
	Short    bool   // the payload is short enough to be shown above the stack trace
	Framing  string // the frame of a schema registry around the payload, when no registry decodes it; "" for none
	Schema   *schemaLink
	TextURL  string // address of the page with the payload as text
	Download string
	Why      string // the reason for which the payload cannot be downloaded
	Reveal   string // address of the unmasked payload, if the page does not show it
}

type tab struct {
	Name, View, URL string
	Current         bool
	Why             string // the reason for which this view cannot be chosen
}

var omitted = map[string]string{
	"not_json":   "The payload is not JSON.",
	"too_deep":   "The payload is JSON with more than 200 levels, too deep for a tree.",
	"too_large":  "The payload is larger than 1 MiB: only its beginning is shown here. Download it to see all.",
	"over_limit": "The record was too large to be stored as a whole. The dead-letter topic may still have it; it is fetched on request.",
	"unreadable": "The record in the dead-letter topic cannot be read, so there is nothing to show or to send. The error says why.",
	"pointer":    "The dead letter only refers to the failed record. The original topic may still have it; it is fetched on request.",

	"schema_unavailable": "The payload cannot be decoded now: its schema cannot be read. It is tried again.",
	"schema_error":       "The payload cannot be decoded with its schema.",
}

// showPayload loads no more of a large payload than the page shows. It fetches a payload from Kafka only when the user
// requests it.
func showPayload(r *http.Request, client api.Client, ref api.MessageRef, m *api.Message) payloadView {
	v := payloadView{Download: ref.URL() + "/payload", Why: whyNoBytes(m, session.ViewerOf(r))}
	if m.PayloadSize != nil {
		v.Size, v.Known = *m.PayloadSize, true
	}
	if v.Empty = v.Known && v.Size == 0; v.Empty {
		v.Short = true
		return v
	}
	v.Schema = schemaOf(ref, m.PayloadEncoding(), m.PayloadSchema, "value")
	if m.PayloadOmitted == "pointer" && m.Completion != "" {
		if v.Why = v.pointer(m); v.Why != "" {
			return v
		}
	} else if reason := omitted[m.PayloadOmitted]; reason != "" {
		v.Notes = append(v.Notes, reason)
	}
	if m.PayloadReason != "" {
		v.Notes = append(v.Notes, "Reason: "+m.PayloadReason+".")
	}
	if m.PayloadOmitted == "unreadable" {
		v.Why = "there is nothing to download"
		return v
	}
	if v.None = m.JSONPayload() == nil && m.PayloadOmitted == "" && m.PayloadSize == nil; v.None {
		v.Short = true
		return v
	}
	v.Short = v.Known && v.Size <= maxShort
	v.Chosen = chooseView(r.URL.Query().Get("view"), m)
	if v.Chosen != "" && v.bytesOf(m) && !request.Unmasks(r) && session.ViewerOf(r).MayReveal(m.ScopeTopic()) {
		if m.JSONPayload() != nil {
			v.Tabs = tabsOf(ref, m, v.Chosen, false)
		}
		v.Reveal, v.Chosen = link.To(ref.URL(), "view", v.Chosen, "unmask", "true")+"#payload", ""
		return v
	}
	v.load(r, client, ref, m)
	v.TextURL = viewURL(ref, textView(m), request.Unmasks(r))
	v.Tabs = tabsOf(ref, m, v.Chosen, request.Unmasks(r))
	return v
}

// pointer adds a note that explains why the record to which a share group's dead letter points is not stored. It
// returns why the record cannot be downloaded; "" when the record may be downloaded.
func (v *payloadView) pointer(m *api.Message) string {
	reason := ""
	if m.CompletionWhy != "" {
		reason = " Reason: " + m.CompletionWhy + "."
	}
	const refers = "The dead letter only refers to the failed record"
	switch m.Completion {
	case "gone":
		v.Notes = append(v.Notes, refers+", and the original topic no longer has it, so it cannot be shown or sent."+reason)
		return "the record is gone"
	case "waiting":
		v.Notes = append(v.Notes, refers+". It is read from the original topic within seconds, then it is shown and can be sent."+reason)
		return "the record is not stored yet"
	default:
		v.Notes = append(v.Notes, refers+", and it could not be stored here."+reason+" It is fetched on request.")
		return ""
	}
}

// bytesOf reports whether the chosen view shows the bytes of the record instead of JSON.
func (v *payloadView) bytesOf(m *api.Message) bool {
	return m.JSONPayload() == nil || m.PayloadEncoding() != "" && v.Chosen == "hex"
}

// textView returns the name of the view that shows JSON without a tree: "pretty" for a decoded payload, "text" for the
// bytes of any other payload.
func textView(m *api.Message) string {
	if m.PayloadEncoding() != "" {
		return "pretty"
	}
	return "text"
}

// whyNoBytes returns the reason why the viewer cannot load the raw bytes, in which no value can be masked; "" when the
// viewer can.
func whyNoBytes(m *api.Message, v *session.Viewer) string {
	if v != nil && v.Masking && !v.May("unmask", m.ScopeTopic()) {
		return "needs the grant unmask where payloads are masked"
	}
	return ""
}

func chooseView(asked string, m *api.Message) string {
	inside := m.JSONPayload() != nil
	switch {
	case asked == "text" && inside:
		return textView(m)
	case asked == "text" || asked == "hex":
		return asked
	case inside && (asked == "tree" || asked == "pretty"):
		return asked
	case m.InKafka():
		return ""
	case !inside:
		return "text"
	case len(m.Payload) > 0 && (m.Payload[0] == '{' || m.Payload[0] == '['):
		return "tree"
	default:
		return textView(m)
	}
}

func (v *payloadView) load(r *http.Request, client api.Client, ref api.MessageRef, m *api.Message) {
	if v.Chosen == "" {
		return
	}
	raw, cut := m.JSONPayload(), false
	if v.bytesOf(m) {
		most := maxText
		if v.Chosen == "hex" {
			most = maxHex
		}
		begin, all, err := client.Head(r, ref.Endpoint("payload"), most)
		if err != nil {
			v.Chosen, v.Notes = "", append(v.Notes, "The payload cannot be shown: "+wordsOf(err))
			return
		}
		raw, cut = begin, !all
	}
	if v.Schema == nil {
		v.Framing = framing(raw)
	}
	if v.Framing != "" && r.URL.Query().Get("view") == "" {
		v.Chosen = "hex"
	}
	if text, ok := format.WholeText(raw, cut); !ok && v.Chosen == "text" {
		v.Chosen, v.Notes = "hex", append(v.Notes, "The payload is not text, so its bytes are shown.")
	} else if v.Chosen == "text" {
		v.show(text, cut)
		return
	}
	v.fill(raw, cut, m.Masked)
}

func (v *payloadView) fill(raw []byte, cut bool, masked []string) {
	switch v.Chosen {
	case "hex":
		if len(raw) > maxHex {
			raw, cut = raw[:maxHex], true
		}
		if v.Text = format.HexDump(raw); cut {
			v.Shown = int64(len(raw))
		}
	case "pretty":
		v.pretty(raw, cut)
	case "tree":
		t, err := treeOf(raw, masked)
		if err != nil { // the API has reported JSON, but the payload is not JSON: it is shown as text
			v.Chosen = "text"
			v.show(string(raw), cut)
			return
		}
		v.Tree = t
	}
}

// pretty shows formatted JSON, or the unformatted text if formatting would add mostly spaces.
func (v *payloadView) pretty(raw []byte, cut bool) {
	text, used, ok := format.JSON(raw, maxText+utf8.UTFMax)
	switch {
	case !ok:
		v.show(string(raw), cut)
	case used < len(raw) && used < len(text)/maxExpansion:
		v.Chosen, v.Notes = "text", append(v.Notes, "It is nested so deeply that formatting would add mostly spaces, so it is shown unformatted.")
		v.show(string(raw[:min(len(raw), maxText+utf8.UTFMax)]), cut || len(raw) > maxText)
	default:
		v.show(text, cut || used < len(raw))
	}
}

func (v *payloadView) show(text string, cut bool) {
	text, all := format.ClipBytes(text, maxText)
	if cut || !all {
		v.Shown = int64(len(text))
	}
	v.Text = format.Visible(text)
}

func wordsOf(err error) string {
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Message + "."
	}
	return "internal error."
}

func tabsOf(ref api.MessageRef, m *api.Message, chosen string, unmask bool) []tab {
	var whyNot string
	if m.JSONPayload() == nil {
		whyNot = "only for JSON of up to 1 MiB"
	}
	tabs := []tab{{Name: "Tree", View: "tree", Why: whyNot}, {Name: "Pretty", View: "pretty", Why: whyNot}, {Name: "Raw", View: "text"}, {Name: "Hex", View: "hex"}}
	if m.PayloadEncoding() != "" { // the bytes of a payload with a schema are not text
		tabs = slices.Delete(tabs, 2, 3)
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].View == chosen
		tabs[i].URL = viewURL(ref, tabs[i].View, unmask)
	}
	return tabs
}

func viewURL(ref api.MessageRef, name string, unmask bool) string {
	return link.To(ref.URL(), "view", name, "unmask", masking(unmask).Get("unmask")) + "#payload"
}

// framing describes in words the prefix that clients of a schema registry put before a value: a zero byte and the
// number of the schema, in big-endian bytes. It returns "" for bytes without this prefix.
func framing(raw []byte) string {
	const frame = 5
	if len(raw) < frame || raw[0] != 0 {
		return ""
	}
	schema := int32(binary.BigEndian.Uint32(raw[1:frame]))
	if schema <= 0 {
		return ""
	}
	return "Confluent framing, schema " + strconv.Itoa(int(schema))
}
