package groups_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const (
	otherID     = "550e8400-e29b-41d4-a716-446655440001"
	comparePath = "/groups/" + consoletest.GroupID + "/compare"
	comparison  = comparePath + "?a=" + consoletest.MessageID + "&b=" + otherID
)

func two(t *testing.T, first, second string) *consoletest.API {
	t.Helper()
	return consoletest.WithMessage(t, first).Says("GET /api/v1/dlq/messages/"+otherID, consoletest.AMessage(`"id":"`+otherID+`"`+second))
}

// header returns a header of a message in JSON.
func header(name, value string) string {
	return `{"key":"` + name + `","value":{"encoding":"utf8","data":"` + value + `"}}`
}

func TestTwoMessagesAreCompared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second string
		has, lacks    []string
	}{
		"Payloads": {
			`"payload":{"order":1,"amount":10.0,"sku":"A"},"payload_size":30`, `,"payload":{"order":1,"amount":10,"sku":"A"},"payload_size":30,"status":"RESOLVED","outcome":"consumed"`,
			[]string{`<div class="gone"><span class="mark">-</span><code>  &#34;amount&#34;: 10.0,</code>`, `<code>  &#34;amount&#34;: 10,</code>`, "consumed", "The headers are equal."},
			nil,
		},
		"Equal":  {"", "", []string{"The payloads are equal.", "The headers are equal."}, nil},
		"Space":  {`"payload":{"a": 1},"payload_size":8`, `,"payload":{"a":1},"payload_size":7`, []string{"Only spaces and line breaks"}, nil},
		"Masked": {`"payload":{"card":"***"},"payload_size":30,"masked":["$.card"]`, "", []string{"***"}, []string{"unmask"}},
		"Tombstone": {
			`"payload":null,"payload_size":null`, "",
			[]string{`class="new"`},
			[]string{"not compared"},
		},
		"NotStored": {`"payload":null,"payload_size":9,"payload_omitted":"over_limit"`, "", []string{"The payload of 55440000 is not stored here. The payloads are not compared."}, nil},
		"Headers": {
			`"headers":[{"key":"version","value":{"encoding":"utf8","data":"1.4"}},{"key":"n","value":null},{"key":"at","value":{"encoding":"utf8","data":"\u0000\u0001"}}]`, `,"headers":[{"key":"version","value":{"encoding":"utf8","data":"1.5"}},{"key":"n","value":null}]`,
			[]string{"<code>version: 1.4</code>", "<code>version: 1.5</code>", "<code>n: null</code>", "<code>at: 0x0001</code>"},
			[]string{"The headers are equal."},
		},
		"LongHeaders": {
			`"headers":[` + header("middle", strings.Repeat("a", 150)+"1"+strings.Repeat("a", 300)) + `,` + header("same", strings.Repeat("b", 400)) + `]`,
			`,"headers":[` + header("middle", strings.Repeat("a", 150)+"2"+strings.Repeat("a", 300)) + `,` + header("same", strings.Repeat("b", 400)) + `]`,
			[]string{`class="gone"`, `class="new"`, "SHA-256"},
			[]string{"The headers are equal.", strings.Repeat("a", 200)},
		},
	} {
		w := consoletest.Get(t, consoletest.Site(t, two(t, c.first, c.second)), comparison)
		consoletest.WantSays(t, name, w, http.StatusOK, c.has...)
		consoletest.MustNotHave(t, w.Body.String(), c.lacks...)
	}
}

// Bytes cannot be masked, so they are compared only where nothing is masked.
func TestBytesAreComparedOnlyWhereNothingIsMasked(t *testing.T) {
	t.Parallel()
	const notJSON = `"payload":null,"payload_size":6,"payload_omitted":"not_json"`
	for masking, want := range map[bool]string{false: "<code>secret</code>", true: "is not JSON, so it cannot be masked"} {
		taken := 0
		a := two(t, notJSON, "").Says("GET "+consoletest.MessageAPI+"/payload", consoletest.Sends("secret", 1, &taken)).
			As(session.Viewer{Name: "ann", Masking: masking, Grants: []session.Grant{{Role: "admin", Topics: []string{"*"}}, {Role: "unmask", Topics: []string{"*"}}}})
		consoletest.WantSays(t, "the comparison", consoletest.Get(t, consoletest.Site(t, a), comparison), http.StatusOK, want)
		if loaded := taken > 0; loaded == masking {
			t.Errorf("with masks %t the bytes were loaded: %t", masking, loaded)
		}
	}
}

func TestComparisonSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	consoletest.WantSays(t, "without messages", consoletest.Get(t, consoletest.Site(t, consoletest.NewAPI(t)), comparePath+"?a=x"), http.StatusOK, `value="x"`, "Compare")
	gone := consoletest.Refuse(http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "there is no such message", nil)
	a := consoletest.WithMessage(t, "").Says("GET /api/v1/dlq/messages/"+otherID, gone).Says("GET /api/v1/archive/"+otherID, gone)
	w := consoletest.Get(t, consoletest.Site(t, a), comparison)
	consoletest.WantSays(t, "a missing message", w, http.StatusNotFound, `value="`+otherID+`"`)
	archived := consoletest.WithMessage(t, "").Says("GET /api/v1/dlq/messages/"+otherID, gone).Says("GET /api/v1/archive/"+otherID, consoletest.AMessage(`"id":"`+otherID+`"`))
	consoletest.WantSays(t, "an archived message", consoletest.Get(t, consoletest.Site(t, archived), comparison), http.StatusOK, `href="/archive/`+otherID+`"`)
}

func TestNothingThatIsComparedBecomesMarkup(t *testing.T) {
	t.Parallel()
	hostile := consoletest.Quoted(`{"id":"HOSTILE","status":"HOSTILE","outcome":"HOSTILE","cause":"HOSTILE","key":{"encoding":"utf8","data":"HOSTILE"},
		"payload":{"a":"HOSTILE"},"payload_size":9,"headers":[{"key":"HOSTILE","value":{"encoding":"utf8","data":"HOSTILE"}}]}`)
	a := consoletest.WithMessage(t, "").Says("GET /api/v1/dlq/messages/"+otherID, hostile)
	w := consoletest.Get(t, consoletest.Site(t, a), comparison)
	consoletest.WantNoMarkup(t, w.Body.String())
	if !strings.Contains(w.Body.String(), `class="new"`) {
		t.Error("the hostile payload is not compared")
	}
}
