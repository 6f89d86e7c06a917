package messages

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
)

func shown(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.Match {
			b.WriteString("<" + p.Text + ">")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func TestMatchesAreHighlighted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct{ query, text, payload, wantText, wantPayload string }{
		"nothing searched":   {"topic=t", "boom", `{"a":1}`, "", ""},
		"a word, any case":   {"q=BOOM", "it went Boom", `{"a":"boom"}`, "it went <Boom>", `{"a":"<boom>"}`},
		"two words":          {"q=order_id+ship-1", "none", `{"order_id": "SHIP-1"}`, "", `{"<order_id>": "<SHIP-1>"}`},
		"a phrase":           {"q=%22n+7%22", "n 7", `{"n": 7}`, "<n 7>", `{"<n": 7>}`},
		"a field":            {"payload=$.order.id+%3D+42", "id 42", `{"id":{"id":42}}`, "", `{"id":{"<id":42>}}`},
		"an element":         {"payload=$.lines[*].sku=A", "none", `{"lines":[{"sku":"A"}]}`, "", `{"lines":[{"<sku":"A>"}]}`},
		"signs of patterns":  {"q=.*(", "a.*(b", `{}`, "a<.*(>b", ""},
		"far in the error":   {"q=boom", long + " boom", `{}`, "…" + long[:39] + " <boom>", ""},
		"far in the payload": {"q=boom", "none", `{"a":"` + long + ` boom"}`, "", "…" + long[:39] + ` <boom>"}`},
		"markup stays text":  {"q=boom", "<i>boom\u202e", `{}`, `<i><boom>\u202e`, ""},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		size := int64(len(c.payload))
		h := highlighterOf(query)
		m := api.Message{Payload: json.RawMessage(c.payload), PayloadSize: &size}
		if got := shown(h.Error(c.text)); got != c.wantText {
			t.Errorf("%s: got error %q, want %q", name, got, c.wantText)
		}
		if got := shown(h.Payload(m)); got != c.wantPayload {
			t.Errorf("%s: got payload %q, want %q", name, got, c.wantPayload)
		}
	}
}
