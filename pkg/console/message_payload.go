package console

import (
	"errors"
	"net/http"
	"unicode/utf8"
)

const (
	maxText = 64 << 10 // bytes of a payload that are shown as text
	maxHex  = 4 << 10  // and as bytes

	mostlySpaces = 8 // times the text that a layout may grow to, when not all of it is shown
)

type payloadView struct {
	Chosen   string // tree, pretty, text, hex, or "" when nothing is shown
	Tabs     []tab
	Notes    []string // what one has to know of it
	Tree     *tree
	Text     string
	Shown    int64 // bytes of it that are shown, when that is not all
	Size     int64 // of all
	Known    bool  // its size is
	None     bool  // there is no value: a tombstone
	Download string
	Why      string // it cannot be downloaded
	Reveal   string // where it is shown without masks, when it is shown no other way
}

type tab struct {
	Name, View, URL string
	Current         bool
	Why             string // it cannot be chosen
}

var omitted = map[string]string{
	"not_json":   "It is not JSON.",
	"too_deep":   "It is JSON that nests more than 200 levels, too deep for a tree.",
	"too_large":  "It is larger than 1 MiB: its beginning is shown here, a download has all.",
	"over_limit": "The record was too large to be stored as a whole. The dead-letter topic may still have it; it is fetched when you ask for it.",
	"unreadable": "The dead-letter topic holds something here that cannot be read, so there is nothing to show or to send. The error says why.",
	"pointer":    "The dead letter only says where its record is. The original topic may still have it; it is fetched when you ask for it.",
}

// elsewhere are reasons for which a payload would have to be fetched from Kafka.
func elsewhere(reason string) bool { return reason == "over_limit" || reason == "pointer" }

// viewPayload loads no more of a large payload than it shows, and nothing from Kafka unasked.
func (c *Console) viewPayload(r *http.Request, at place, m *message) payloadView {
	v := payloadView{Download: at.page() + "/payload", Why: whyNoBytes(m, viewerOf(r))}
	if m.PayloadSize != nil {
		v.Size, v.Known = *m.PayloadSize, true
	}
	if reason := omitted[m.PayloadOmitted]; reason != "" {
		v.Notes = append(v.Notes, reason)
	}
	if m.PayloadOmitted == "unreadable" {
		v.Why = "there is nothing to download"
		return v
	}
	if v.None = m.hasPayload() == nil && m.PayloadOmitted == "" && m.PayloadSize == nil; v.None {
		return v
	}
	v.Chosen = chooseView(r.URL.Query().Get("view"), m)
	if v.Chosen != "" && m.keepsBytes(viewerOf(r), unmasks(r)) {
		v.Reveal, v.Chosen = to(at.page(), "view", v.Chosen, "unmask", "true")+"#payload", ""
		return v
	}
	c.fillView(r, at, m, &v)
	v.Tabs = tabsOf(at, m, v.Chosen, unmasks(r))
	return v
}

// hasPayload returns the payload in the answer, nil for none. The JSON value null is one.
func (m *message) hasPayload() []byte {
	if m.PayloadOmitted != "" || m.PayloadSize == nil || len(m.Payload) == 0 {
		return nil
	}
	return m.Payload
}

// whyNoBytes says why the bytes cannot be had; what is masked cannot be within bytes.
func whyNoBytes(m *message, v *viewer) string {
	if v != nil && v.Masking && !v.May("unmask", m.Where()) {
		return "needs the grant unmask where payloads are masked"
	}
	return ""
}

func chooseView(asked string, m *message) string {
	inside := m.hasPayload() != nil
	switch {
	case asked == "text" || asked == "hex":
		return asked
	case inside && (asked == "tree" || asked == "pretty"):
		return asked
	case elsewhere(m.PayloadOmitted):
		return ""
	case !inside:
		return "text"
	case len(m.Payload) > 0 && (m.Payload[0] == '{' || m.Payload[0] == '['):
		return "tree"
	default:
		return "text"
	}
}

func (c *Console) fillView(r *http.Request, at place, m *message, v *payloadView) {
	if v.Chosen == "" {
		return
	}
	raw, cut := m.hasPayload(), false
	if raw == nil {
		most := maxText
		if v.Chosen == "hex" {
			most = maxHex
		}
		begin, all, err := c.api.head(r, at.api("payload"), most)
		if err != nil {
			v.Chosen, v.Notes = "", append(v.Notes, "It cannot be shown: "+wordsOf(err))
			return
		}
		raw, cut = begin, !all
	}
	if text, ok := wholeText(raw, cut); !ok && v.Chosen == "text" {
		v.Chosen, v.Notes = "hex", append(v.Notes, "It is not text, so its bytes are shown.")
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
		if v.Text = hexDump(raw); cut {
			v.Shown = int64(len(raw))
		}
	case "pretty":
		v.pretty(raw, cut)
	case "tree":
		t, err := treeOf(raw, masked)
		if err != nil { // the API said that it is JSON; whatever it is, it is text
			v.Chosen = "text"
			v.show(string(raw), cut)
			return
		}
		v.Tree = t
	}
}

// pretty lays out as much as is shown, unless most of that would be spaces.
func (v *payloadView) pretty(raw []byte, cut bool) {
	text, used, ok := laidOut(raw, maxText+utf8.UTFMax)
	switch {
	case !ok:
		v.show(string(raw), cut)
	case used < len(raw) && used < len(text)/mostlySpaces:
		v.Chosen, v.Notes = "text", append(v.Notes, "It nests so deep that a layout would be mostly spaces, so it is shown as it is.")
		v.show(string(raw[:min(len(raw), maxText+utf8.UTFMax)]), cut || len(raw) > maxText)
	default:
		v.show(text, cut || used < len(raw))
	}
}

func (v *payloadView) show(text string, cut bool) {
	text, all := clipText(text, maxText)
	if cut || !all {
		v.Shown = int64(len(text))
	}
	v.Text = visible(text)
}

func wordsOf(err error) string {
	var refused *apiError
	if errors.As(err, &refused) {
		return refused.Message + "."
	}
	return "something broke."
}

func tabsOf(at place, m *message, chosen string, unmask bool) []tab {
	var whyNot string
	if m.hasPayload() == nil {
		whyNot = "only for JSON of up to 1 MiB"
	}
	tabs := []tab{{Name: "Tree", View: "tree", Why: whyNot}, {Name: "Pretty", View: "pretty", Why: whyNot}, {Name: "As it is", View: "text"}, {Name: "Hex", View: "hex"}}
	for i := range tabs {
		tabs[i].Current = tabs[i].View == chosen
		tabs[i].URL = to(at.page(), "view", tabs[i].View, "unmask", masking(unmask).Get("unmask")) + "#payload"
	}
	return tabs
}

func (c *Console) download(archived bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		at := placeOf(r, archived)
		if v := viewerOf(r); v != nil && v.Masking && ofAnotherSite(r) { // the audit trail notes who looks
			return seeOther(w, r, at.page())
		}
		return c.api.stream(w, r, at.api("payload"), nil)
	}
}
