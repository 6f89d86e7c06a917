package traces

import (
	"maps"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text           string
		valid, sampled bool
	}{
		"WellFormed":   {parent, true, true},
		"NotSampled":   {parent[:53] + "00", true, false},
		"LaterVersion": {"cc" + parent[2:] + "-what-comes", true, true},
		"Empty":        {"", false, false},
		"TooShort":     {parent[:54], false, false},
		"GoesOn":       {parent + "-01", false, false},
		"TraceIsZero":  {"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", false, false},
		"Bytes":        {strings.Repeat("\xff", 55), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Parse(c.text)
			if got.IsValid() != c.valid || got.IsSampled() != c.sampled {
				t.Fatalf("Parse(%q) is valid: %t, sampled: %t, want %t, %t", c.text, got.IsValid(), got.IsSampled(), c.valid, c.sampled)
			}
			if c.valid && (got.TraceID().String() != traceID || got.SpanID().String() != spanID || !got.IsRemote()) {
				t.Errorf("got trace %s, span %s, remote %t, want %s, %s and remote", got.TraceID(), got.SpanID(), got.IsRemote(), traceID, spanID)
			}
		})
	}
}

func TestFromHeaders(t *testing.T) {
	t.Parallel()
	type own struct {
		Key   string
		Value []byte
	}
	h := func(key, value string) own { return own{key, []byte(value)} }
	earlier := strings.Replace(parent, traceID, strings.Repeat("1", 32), 1)
	for name, c := range map[string]struct {
		headers []own
		trace   string
	}{
		"None":             {nil, ""},
		"Others":           {[]own{h("b3", traceID), {Key: "null"}}, ""},
		"One":              {[]own{h("a", "b"), h("traceparent", parent)}, traceID},
		"WithoutItsState":  {[]own{h("traceparent", parent), h("tracestate", "v=1")}, traceID},
		"TheLastOfSeveral": {[]own{h("traceparent", earlier), h("traceparent", parent)}, traceID},
		"InCapitals":       {[]own{h("Traceparent", parent)}, traceID},
		"LaterVersion":     {[]own{h("traceparent", "cc"+parent[2:]+"-what-comes")}, traceID},
		"TooLong":          {[]own{h("traceparent", "cc"+parent[2:]+"-"+strings.Repeat("x", maxParent))}, ""},
		"Malformed":        {[]own{h("traceparent", "00-a")}, ""},
		"Null":             {[]own{{Key: "traceparent"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := FromHeaders(c.headers)
			if got.IsValid() != (c.trace != "") || c.trace != "" && got.TraceID().String() != c.trace || got.TraceState().Len() != 0 {
				t.Errorf("got trace %s with state %q, want %q without any", got.TraceID(), got.TraceState(), c.trace)
			}
		})
	}
}

func TestFromHeaders_CopiesNoLongValue(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	headers := []header{{"traceparent", make([]byte, 1<<20)}, {"tracestate", make([]byte, 1<<20)}}
	if n := testing.AllocsPerRun(10, func() { _ = FromHeaders(headers) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	spans := tracestest.Record()
	tracer := spans.Tracer("x")
	ctx, root := tracer.Start(t.Context(), "root")
	for n := range 10 {
		within, span := tracer.Start(Try(ctx, n), "try")
		if got, want := trace.SpanContextFromContext(within).TraceID(), root.SpanContext().TraceID(); got != want {
			t.Errorf("try %d is in trace %s, want %s", n, got, want)
		}
		span.End()
	}
	if got := len(spans.Named("try")); got != maxTries {
		t.Errorf("got %d spans, want %d", got, maxTries)
	}
	quiet := Quiet(ctx)
	if Quiet(quiet) != quiet || Quiet(t.Context()) != t.Context() {
		t.Error("an unrecorded context was wrapped again, want it unchanged")
	}
	RecordTries(ctx, 1)
	RecordTries(quiet, 10)
	RecordTries(t.Context(), 10)
	root.End()
	tracestest.WantAttributes(t, spans.Only(t, "root").Attributes(), map[attribute.Key]string{Tries: ""})
}

func TestInLog(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	ctx, span := tracestest.Record().Tracer("x").Start(t.Context(), "work")
	zap.New(core).Info("within", InLog(ctx), LogOf(span))
	zap.New(core).Info("without", InLog(t.Context()), LogOf(nil), LogOf(None()))
	want := map[string]any{"trace_id": span.SpanContext().TraceID().String(), "span_id": span.SpanContext().SpanID().String()}
	if got := logs.All()[0].ContextMap(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := logs.All()[1].ContextMap(); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]trace.TracerProvider{"Nil": nil, "Noop": noop.NewTracerProvider(), "PointerToNoop": &noop.TracerProvider{}} {
		if got := Tracer(off, "x"); got != nil {
			t.Errorf("%s: got %T, want no tracer", name, got)
		}
	}
	if Tracer(tracestest.Record(), "x") == nil {
		t.Error("got no tracer, want that of the provider")
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	spans := tracestest.Record()
	_, span := spans.Tracer("x").Start(t.Context(), "batch")
	links := NewLinks(span)
	links.Add(trace.SpanContext{})
	for range 3 * MaxLinks {
		links.Add(Parse(parent), MessageID.String("m"))
	}
	if !links.Full() {
		t.Error("links are not full, want them to be")
	}
	span.End()
	if got := len(spans.Only(t, "batch").Links()); got != MaxLinks {
		t.Errorf("got %d links, want %d", got, MaxLinks)
	}
	if none := NewLinks(None()); !none.Full() {
		t.Error("a span that is not recorded takes links, want none")
	}
}
