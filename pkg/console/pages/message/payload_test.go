package message_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/message"
)

func TestTreeIsBounded(t *testing.T) {
	t.Parallel()
	wide := "[" + strings.Repeat("1,", 9999) + "1]"
	got, err := message.TreeOf([]byte(wide), nil)
	if err != nil || got.Nodes != message.MaxNodes || got.Left != 10000-message.MaxNodes+1 || got.Root.Count != 10000 || int64(len(got.Root.Children)) != 10000-got.Root.Left {
		t.Errorf("got %+v, %v, want %d values and the rest counted", got, err, message.MaxNodes)
	}
	deep := strings.Repeat(`{"a":`, 150) + "1" + strings.Repeat("}", 150)
	got, err = message.TreeOf([]byte(deep), nil)
	if err != nil || got.Nodes != message.MaxNesting+1 || got.Left == 0 {
		t.Errorf("got %+v, %v, want no more than %d levels", got, err, message.MaxNesting)
	}
	got, err = message.TreeOf([]byte(`{"a":1,"a":2.50,"":null,"b":[],"c":"`+strings.Repeat("x", 3000)+`","d":true}`), nil)
	check.NoError(t, err)
	var said []string
	for _, n := range got.Root.Children {
		said = append(said, fmt.Sprintf("%s %s %.4s %d", n.Name, n.Kind, n.Text, n.More))
	}
	const want = "a number 1 0|a number 2.50 0| null null 0|b array null 0|c string xxxx 1000|d boolean true 0"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{"", "{", `{"a":}`, "1 2", "nul"} {
		if got, err := message.TreeOf([]byte(bad), nil); err == nil {
			t.Errorf("treeOf(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestViewsOfAPayload(t *testing.T) {
	t.Parallel()
	json := `"payload":{"a": {"b":[1,"<x>"]}},"payload_size":24`
	for query, want := range map[string][]string{
		"":             {`<span class="name">a</span>`, `aria-current="true">Tree</a>`},
		"?view=pretty": {"{\n  &#34;a&#34;: {\n    &#34;b&#34;: [\n      1,\n      &#34;&lt;x&gt;&#34;"},
		"?view=text":   {"{&#34;a&#34;: {&#34;b&#34;:[1,&#34;&lt;x&gt;&#34;]}}"},
		"?view=hex":    {"00000000  7b 22 61 22 3a 20 7b 22"},
		"?view=bad":    {`aria-current="true">Tree</a>`},
	} {
		consoletest.MustHave(t, consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, json)), consoletest.MessagePath+query).Body.String(), want...)
	}
}

func TestPayloadThatIsNotThereIsSaid(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		`"payload":null,"payload_size":null`:                                    "the record is a tombstone",
		`"payload":null,"payload_size":20000000,"payload_omitted":"over_limit"`: "too large to be stored",
		`"payload":null,"payload_size":null,"payload_omitted":"pointer"`:        "only refers to the failed record",
		`"payload":null,"payload_size":4`:                                       "null",
	} {
		a := consoletest.WithMessage(t, members)
		consoletest.MustHave(t, consoletest.Readable(t, consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String()), want)
		if asked, _ := a.Asked("GET " + consoletest.MessageAPI + "/payload"); len(asked) != 0 {
			t.Errorf("%s: got the value fetched, want it left where it is", members)
		}
	}
}

func TestEmptyPayloadIsSaid(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, `"payload":null,"payload_size":0,"payload_omitted":"not_json"`)
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String()
	consoletest.MustHave(t, body, "The value is empty: 0 bytes.")
	consoletest.MustNotHave(t, body, "not JSON", `id="payload-text"`, ">Hex<")
}

func TestFrameOfASchemaRegistryIsNamed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"\x00\x00\x00\x00\x2aab":            "Confluent framing, schema 42",
		"\x00\x00\x01\x00\x00":              "Confluent framing, schema 65536",
		"\x00\x00\x00\x00\x00ab":            "",
		"\x00\xff\xff\xff\xffab":            "",
		"\x00\x00\x00\x00":                  "",
		"\x01\x00\x00\x00\x2aab":            "",
		`{"schema": "\x00\x00\x00\x00\x2a"`: "",
	} {
		taken := 0
		a := consoletest.WithMessage(t, fmt.Sprintf(`"payload":null,"payload_size":%d,"payload_omitted":"not_json"`, len(value))).
			Says("GET "+consoletest.MessageAPI+"/payload", consoletest.Sends(value, 1, &taken))
		body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String()
		if got := strings.Contains(body, "Confluent framing"); got != (want != "") || !strings.Contains(body, want) {
			t.Errorf("%q: framing is named: %t, want %q", value, got, want)
		}
		if want != "" {
			consoletest.MustHave(t, body, `class="value hex"`)
		}
	}
}

// Half of a surrogate pair, such as \ud800, is not a character. The page shows the escape that the producer wrote.
func TestTreeShowsHalvesOfSurrogatePairsAsTheProducerWroteThem(t *testing.T) {
	t.Parallel()
	for literal, want := range map[string]string{
		`"a\ud800b"`:             `a\ud800b`,
		`"\uD83D\uDE00"`:         "\U0001f600",
		`"\ud83d\ude00\udc00"`:   "\U0001f600" + `\udc00`,
		`"\\ud800 \ud800\" \n."`: `\ud800 \ud800" ` + "\n.",
		`"\ufffd"`:               "\ufffd",
		`"\ud800\ud83d\ude00\\"`: `\ud800` + "\U0001f600" + `\`,
	} {
		got, err := message.TreeOf([]byte(`{"x": 1, `+literal+` : `+literal+`}`), nil)
		check.NoError(t, err)
		if n := got.Root.Children[1]; n.Text != want || n.Name != want {
			t.Errorf("%s is shown as %q: %q, want %q", literal, n.Name, n.Text, want)
		}
	}
}

func TestShortPayloadIsAboveTheStackTrace(t *testing.T) {
	t.Parallel()
	const stack = `"stack_trace":"a.B: c\n\tat a.B.c(D.java:1)\n"`
	for size, above := range map[int]bool{19: true, 5000: false} {
		payload := `{"a":"` + strings.Repeat("x", size) + `"}`
		body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, fmt.Sprintf(`%s,"payload":%s,"payload_size":%d`, stack, payload, len(payload)))), consoletest.MessagePath).Body.String()
		if got := strings.Index(body, `id="payload-title"`) < strings.Index(body, `id="stack-title"`); got != above {
			t.Errorf("%d bytes are above the stack trace: %t, want %t", size, got, above)
		}
	}
}

func TestOnlyTheBeginningOfALargePayloadIsLoaded(t *testing.T) {
	t.Parallel()
	taken := 0
	a := consoletest.WithMessage(t, `"payload":null,"payload_size":10485760,"payload_omitted":"too_large"`).
		Says("GET "+consoletest.MessageAPI+"/payload", consoletest.Sends(strings.Repeat("ä", 512), 10<<10, &taken))
	w := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath)
	if taken > message.MaxText || w.Body.Len() > 2*message.MaxText {
		t.Errorf("got %d bytes loaded and a page of %d, want at most %d", taken, w.Body.Len(), message.MaxText)
	}
	consoletest.MustHave(t, consoletest.Readable(t, w.Body.String()), "The first 64.0 KiB of 10.0 MiB are shown", "ää", "only for JSON of up to 1 MiB")
	consoletest.MustNotHave(t, w.Body.String(), "\ufffd")
}

func TestBytesThatAreNoTextAreShownAsBytes(t *testing.T) {
	t.Parallel()
	taken := 0
	a := consoletest.WithMessage(t, `"payload":null,"payload_size":8192,"payload_omitted":"not_json"`).Says("GET "+consoletest.MessageAPI+"/payload", consoletest.Sends("\xff\x00ab", 2048, &taken))
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String()
	consoletest.MustHave(t, body, "ff 00 61 62", "|..ab", "not text, so its bytes", "The first 4.0 KiB of 8.0 KiB")
	consoletest.MustNotHave(t, body, "00001000  ")
}

func TestPayloadThatMayNotBeSeenIsSaidInWords(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, `"payload":null,"payload_size":5,"payload_omitted":"not_json"`).As(consoletest.ReadOnly).
		Says("GET "+consoletest.MessageAPI+"/payload", consoletest.Refuse(http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "not allowed: needs unmask on topic orders.events.v1", nil))
	consoletest.WantSays(t, "the page", consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath), http.StatusOK,
		"The payload cannot be shown: not allowed: needs unmask on topic orders.events.v1.")
}

func TestStackTracesShowTheApplicationsFrames(t *testing.T) {
	t.Parallel()
	java := "java.lang.RuntimeException: wrapped\n\tat org.springframework.A.b(A.java:1)\n\tat com.acme.Shop.sell(Shop.java:9)\n\tat app//org.apache.C.d(C.java:2)\n\t... 12 more\nCaused by: java.io.IOException: gone\n\tat java.base/java.net.X.y(X.java:3)\n\tat com.acme.Net.call(Net.java:4)\n"
	python := "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/site-packages/x.py\", line 3, in run\n    self.go()\n  File \"/srv/shop/handler.py\", line 12, in handle\n    total = price * n\nTypeError: can't multiply"
	node := "TypeError: x is undefined\n    at handle (/srv/shop/index.js:10:5)\n    at Runner.run (/srv/shop/node_modules/kafkajs/src/runner.js:3:1)\n    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)"
	golang := "stock is gone\n\ngithub.com/acme/shop.(*Handler).Handle(0xc0001)\n\t/srv/shop/handler.go:12 +0x1d\nruntime.goexit({})\n\t/usr/local/go/src/runtime/asm.s:1 +0x1"
	for _, c := range []struct {
		name, text string
		prefixes   []string
		want       string
	}{
		{"java", java, nil, "said1 folded1 mine1 folded2 said1 folded1 mine1"},
		{"java, named", java, []string{"org.springframework."}, "said1 mine1 folded3 said1 folded2"},
		{"python", python, nil, "said1 folded2 mine2 said1"},
		{"node", node, nil, "said1 mine1 folded2"},
		{"go", golang, nil, "said2 mine2 folded2"},
		{"no frames", "just words\nand more", nil, "said2"},
		{"none", "", nil, ""},
	} {
		var got []string
		for _, p := range message.FoldStack(c.text, c.prefixes).Parts {
			got = append(got, fmt.Sprint(p.Kind, len(p.Lines)))
		}
		check.True(t, strings.Join(got, " ") == c.want, "%s: got %v, want %s", c.name, got, c.want)
	}
	long := message.FoldStack(strings.Repeat("\tat java.x(Y.java:1)\n", 5000), nil)
	if long.Left != 4000 || !long.Parts[0].Open {
		t.Errorf("got %d lines left, open %t, want 4000 and what there is unfolded", long.Left, long.Parts[0].Open)
	}
}

func TestPrettyPayloadTakesNoMoreMemoryThanItShows(t *testing.T) {
	payload := consoletest.Nested(200, 150_000)
	s := consoletest.Site(t, consoletest.WithMessage(t, fmt.Sprintf(`"payload":%s,"payload_size":%d`, payload, len(payload))))
	var body string
	took := consoletest.Allocated(func() { body = consoletest.Get(t, s, consoletest.MessagePath+"?view=pretty").Body.String() })
	if most := int64(24 << 20); took > most {
		t.Errorf("got %d bytes allocated for %d of payload, want at most %d", took, len(payload), most)
	}
	consoletest.MustHave(t, consoletest.Readable(t, body), "shown unformatted", "The first 64.0 KiB", strings.Repeat("[", 200)+"1,1,1")
}

func TestPrettyPayloadThatIsLargeShowsItsBeginning(t *testing.T) {
	t.Parallel()
	payload := `["` + strings.Repeat("ä", 100_000) + `"]`
	a := consoletest.WithMessage(t, fmt.Sprintf(`"payload":%s,"payload_size":%d`, payload, len(payload)))
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"?view=pretty").Body.String()
	consoletest.MustHave(t, body, "[\n  &#34;ää", "The first 64.0 KiB")
	consoletest.MustNotHave(t, body, "\ufffd", "shown unformatted")
}
