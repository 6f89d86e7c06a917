package telemetry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// hanging is an exporter whose export of a batch ends only when the test sends a result to the channel answer, or when
// the export's context ends.
type hanging struct {
	tracetest.InMemoryExporter
	took   chan int
	answer chan error
}

func newHanging() *hanging { return &hanging{took: make(chan int, 100), answer: make(chan error)} }

func (h *hanging) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	h.took <- len(spans)
	select {
	case err := <-h.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *hanging) Shutdown(context.Context) error { return nil }

// bench is a Tracing whose exporter the test chooses, with its log lines.
type bench struct {
	*Tracing
	logs *observer.ObservedLogs
}

func tracing(t *testing.T, to sdktrace.SpanExporter, change func(*TracingConfig)) bench {
	t.Helper()
	cfg := DefaultTracingConfig()
	cfg.Endpoint = "http://127.0.0.1:4318"
	change(&cfg)
	core, logs := observer.New(zapcore.DebugLevel)
	return bench{newTracing(cfg, "api", "1", to, func() int64 { return 0 }, zap.New(core), prometheus.NewRegistry()), logs}
}

func (b bench) make(spans int) {
	tracer := b.Provider().Tracer("test")
	for range spans {
		_, s := tracer.Start(context.Background(), "work")
		s.End()
	}
}

func (b bench) want(t *testing.T, exported, failed, dropped float64) {
	t.Helper()
	c := b.counts
	if e, f, d := testutil.ToFloat64(c.exported), testutil.ToFloat64(c.failed), testutil.ToFloat64(c.dropped); e != exported || f != failed || d != dropped {
		t.Errorf("got %g exported, %g failed, %g dropped, want %g, %g, %g", e, f, d, exported, failed, dropped)
	}
}

// With a hanging collector, the number of waiting spans, including those that are being sent, is limited to the size of
// the queue. A further span is dropped and does not block the caller.
func TestTracing_QueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newHanging()
		b := tracing(t, to, func(c *TracingConfig) { c.Queue = 1000 })
		b.make(5000)
		synctest.Wait()
		b.want(t, 0, 0, 4000)
		if n := <-to.took; n != tracingBatch {
			t.Errorf("the collector got %d spans, want %d", n, tracingBatch)
		}
		to.answer <- nil
		synctest.Wait()
		b.want(t, tracingBatch, 0, 4000)
		b.make(2000) // the queue has space again for the number of spans that were sent
		synctest.Wait()
		b.want(t, tracingBatch, 0, 4000+2000-tracingBatch)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.Stop(ctx)
		b.make(3) // makes no span
		b.want(t, tracingBatch, 0, 4000+2000-tracingBatch)
		<-time.After(time.Hour) // so long that every export has ended with a timeout
		b.want(t, tracingBatch, 1000, 4000+2000-tracingBatch)
	})
}

// The limit of the queue counts a span with links as several spans, as TracingConfig.Queue says.
func TestTracing_QueueIsBoundedInLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newHanging()
		b := tracing(t, to, func(*TracingConfig) {})
		b.linked(2048)
		synctest.Wait()
		const kept = 2048 / (1 + 128/linksPerSpan)
		b.want(t, 0, 0, 2048-kept)
		if n := <-to.took; n != kept {
			t.Errorf("the collector got %d spans, want %d", n, kept)
		}
		to.answer <- nil
		synctest.Wait()
		b.want(t, kept, 0, 2048-kept)
		b.make(2048) // the queue has space for 2048 spans again
		b.want(t, kept, 0, 2048-kept)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.Stop(ctx)
		<-time.After(time.Hour) // so long that every export has ended with a timeout
	})
}

// The queue uses only some megabytes, even if every span has the maximum number of links.
func TestTracing_QueueIsSmall(t *testing.T) { //nolint:paralleltest // others' memory would be counted
	b := tracing(t, newHanging(), func(*TracingConfig) {})
	before := inUse()
	b.linked(4096)
	if grew := int64(inUse()) - int64(before); grew > 16<<20 {
		t.Errorf("the queue takes %d MB, want some", grew>>20)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Stop(ctx)
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A span that needs more space than the whole queue is still sent.
func TestTracing_SmallQueue(t *testing.T) {
	t.Parallel()
	to := tracetest.NewInMemoryExporter()
	b := tracing(t, exporterFunc(to.ExportSpans), func(c *TracingConfig) { c.Queue = 2 })
	b.linked(1)
	b.Stop(t.Context())
	b.want(t, 1, 0, 0)
}

// linked makes spans with the maximum number of links and with attributes like those of ingest.
func (b bench) linked(spans int) {
	tracer := b.Provider().Tracer("test")
	for range spans {
		_, s := tracer.Start(context.Background(), "process")
		for n := range 128 {
			to := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, byte(n)}, SpanID: trace.SpanID{2}})
			s.AddLink(trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{
				attribute.String("dlq.message_id", fmt.Sprintf("%036d", n)), attribute.String("messaging.destination.name", "orders.dlq.v1"),
				attribute.String("messaging.destination.partition.id", "1"), attribute.Int("messaging.kafka.offset", n),
			}})
		}
		s.End()
	}
}

// Stop waits for a collector that does not answer only until its context ends, even if the timeout of an export is
// longer.
func TestTracing_StopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tracing(t, newHanging(), func(c *TracingConfig) { c.Timeout = time.Minute })
		b.make(10)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		b.Stop(ctx)
		if took := time.Since(began); took != 1500*time.Millisecond {
			t.Errorf("Stop took %s, want what it was given", took)
		}
		<-time.After(time.Hour) // so long that every export has ended with a timeout
	})
}

func TestTracing_StopSendsWhatWaits(t *testing.T) {
	t.Parallel()
	to := tracetest.NewInMemoryExporter()
	var sent []int
	b := tracing(t, exporterFunc(func(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
		sent = append(sent, len(spans))
		return to.ExportSpans(ctx, spans)
	}), func(c *TracingConfig) {})
	b.make(600)
	b.Stop(t.Context())
	b.want(t, 600, 0, 0)
	if len(sent) != 2 || len(to.GetSpans()) != 600 {
		t.Errorf("got %v in batches of %v, want 600 in two", len(to.GetSpans()), sent)
	}
	resource := to.GetSpans()[0].Resource.String()
	for _, want := range []string{"service.name=dlq-manager-api", "service.version=1", "service.namespace=dlq-manager", "service.instance.id="} {
		if !strings.Contains(resource, want) {
			t.Errorf("resource = %s, want %s in it", resource, want)
		}
	}
}

type exporterFunc func(context.Context, []sdktrace.ReadOnlySpan) error

func (f exporterFunc) ExportSpans(ctx context.Context, s []sdktrace.ReadOnlySpan) error {
	return f(ctx, s)
}
func (exporterFunc) Shutdown(context.Context) error { return nil }

// An export ends with its timeout; the log reports failures once a minute, however many there are.
func TestTracing_FailuresAreCountedAndSaidOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tracing(t, newHanging(), func(c *TracingConfig) { c.Timeout = time.Second })
		for range 40 { // each export takes 3 seconds: 2 seconds until the batch is sent, and 1 second until the timeout
			b.make(1)
			<-time.After(3 * time.Second)
		}
		synctest.Wait()
		b.want(t, 0, 40, 0)
		lines := b.logs.FilterMessage("traces are not taken by the collector").All()
		if len(lines) != 2 || b.logs.Len() != 2 {
			t.Fatalf("got %d lines in two minutes, want 2", len(lines))
		}
		if n := lines[1].ContextMap()["spans"]; n != int64(20) {
			t.Errorf("the second line reports %v spans, want those since the first: 20", n)
		}
		b.Stop(t.Context())
	})
}

func TestTracing_Ratio(t *testing.T) {
	t.Parallel()
	to := tracetest.NewInMemoryExporter()
	for _, c := range []struct {
		ratio float64
		trust bool
		// Number of recorded spans. Of twelve spans, one is in a trace that its sender records, one in a trace that its
		// sender does not record, and ten begin new traces.
		want float64
	}{{0, false, 0}, {0, true, 1}, {1, false, 11}, {1, true, 11}} {
		b := tracing(t, exporterFunc(to.ExportSpans), func(cfg *TracingConfig) { cfg.SampleRatio, cfg.TrustParent = c.ratio, c.trust })
		for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
			b.asked(flags)
		}
		b.make(10)
		b.Stop(t.Context())
		b.want(t, c.want, 0, 0)
	}
}

// The sender of a request chooses the trace id, but this choice must not decide whether the trace is recorded. A
// sampler that compares the trace id with the ratio would record the id of this test at every ratio.
func TestTracing_RatioIsNotTheSendersToChoose(t *testing.T) {
	t.Parallel()
	to := tracetest.NewInMemoryExporter()
	b := tracing(t, exporterFunc(to.ExportSpans), func(c *TracingConfig) { c.SampleRatio = 0.01 })
	for range 1000 {
		b.asked(trace.FlagsSampled)
	}
	b.Stop(t.Context())
	if n := testutil.ToFloat64(b.counts.exported); n > 100 {
		t.Errorf("got %g of 1000 requests recorded, want about 10", n)
	}
}

// asked makes the span of an incoming request; its trace context has these flags, which say whether the sender records
// the trace.
func (b bench) asked(flags trace.TraceFlags) {
	from := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true})
	_, s := b.Provider().Tracer("test").Start(trace.ContextWithRemoteSpanContext(context.Background(), from), "asked")
	s.End()
}

// Libraries record the texts of errors, which may quote dead letters. These texts are not exported.
func TestTracing_ErrorTextsAreNotExported(t *testing.T) {
	t.Parallel()
	var sent []sdktrace.ReadOnlySpan
	b := tracing(t, exporterFunc(func(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
		sent = append(sent, spans...)
		return nil
	}), func(*TracingConfig) {})
	_, s := b.Provider().Tracer("test").Start(t.Context(), "work")
	s.RecordError(errors.New("hunter2"))
	s.AddEvent("hunter2")
	s.End()
	b.Stop(t.Context())
	if len(sent) != 1 || len(sent[0].Events()) != 0 {
		t.Errorf("got %d spans, want one without events", len(sent))
	}
}

func TestTracing_Off(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	off, err := NewTracing(DefaultTracingConfig(), "api", "1", zap.NewNop(), reg)
	if off != nil || err != nil || off.Provider() != nil {
		t.Errorf("got %v, %v, want nothing and a provider that is nil", off, err)
	}
	off.Stop(t.Context())
	if all, _ := reg.Gather(); len(all) != 0 {
		t.Errorf("got %d metrics, want none", len(all))
	}
}

// When the collector is unavailable for a moment, its spans are sent again and none is lost.
func TestTracing_TriesAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c := newCollector(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler) // breaks the connection
		}
	})
	cfg := DefaultTracingConfig()
	cfg.Endpoint = c.URL
	logs, tr := export(t, cfg)
	if n := testutil.ToFloat64(tr.counts.exported); n != 1 || logs.Len() != 0 {
		t.Errorf("got %g spans exported and %d lines, want 1 and none", n, logs.Len())
	}
}

// When a collector rejects a part of the spans, or accepts all with a warning, only the rejected spans count as
// failed.
func TestTracing_TakenInPart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rejected         int64
		exported, failed float64
		lines            int
	}{{0, 3, 0, 0}, {2, 1, 2, 1}, {99, 0, 3, 1}, {-1, 3, 0, 0}} {
		answer, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{
			PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: c.rejected, ErrorMessage: "too old"},
		})
		check.NoError(t, err)
		to := newCollector(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(answer)
		})
		cfg := DefaultTracingConfig()
		cfg.Endpoint = to.URL
		logs, tr := exportSome(t, cfg, 3)
		bench{Tracing: tr}.want(t, c.exported, c.failed, 0)
		if n := logs.FilterMessage("traces are not taken by the collector").Len(); n != c.lines || logs.Len() != c.lines {
			t.Errorf("%d rejected: got the lines %v, want %d", c.rejected, logs.All(), c.lines)
		}
	}
}

// A collector's answer may repeat the headers that it got. Therefore no part of an answer is logged, whatever form the
// answer has.
func TestTracing_AnswersWithSecrets(t *testing.T) {
	t.Parallel()
	partly, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{
		PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "hunter2"},
	})
	check.NoError(t, err)
	for name, answer := range map[string]string{
		"Part":     "HTTP/1.1 400 Bad Request\r\nContent-Length: 28\r\n\r\ntoken \"hunter2\" is not known",
		"Reason":   "HTTP/1.1 401 no hunter2\r\nContent-Length: 0\r\n\r\n",
		"Place":    "HTTP/1.1 302 Found\r\nLocation: http://[hunter2\r\nContent-Length: 0\r\n\r\n",
		"NoHTTP":   "hunter2\r\n\r\n",
		"Header":   "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n",
		"Warning":  fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n%s", len(partly), partly),
		"NotFound": "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nhunter2\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = conn.Write([]byte(answer))
				_ = conn.Close()
			})
			cfg := DefaultTracingConfig()
			cfg.Endpoint, cfg.HeadersFile, cfg.Timeout = c.URL, filepath.Join(t.TempDir(), "headers"), 200*time.Millisecond
			check.NoError(t, os.WriteFile(cfg.HeadersFile, []byte("authorization: Bearer hunter2"), 0o600))
			logs, tr := export(t, cfg)
			if logs.Len() != 1 || testutil.ToFloat64(tr.counts.failed) != 1 {
				t.Fatalf("got %d lines, want one about the span that was not taken", logs.Len())
			}
			if line := fmt.Sprint(logs.All()[0].ContextMap()); strings.Contains(line, "hunter") {
				t.Errorf("got the line %s, want nothing of the answer", line)
			}
		})
	}
}

// collector is an HTTP server whose answers to exports the test chooses.
type collector struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newCollector(t *testing.T, answer http.HandlerFunc) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.seen = append(c.seen, r)
		c.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func export(t *testing.T, cfg TracingConfig) (*observer.ObservedLogs, *Tracing) {
	t.Helper()
	return exportSome(t, cfg, 1)
}

func exportSome(t *testing.T, cfg TracingConfig, spans int) (*observer.ObservedLogs, *Tracing) {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	tr, err := NewTracing(cfg, "api", "1", zap.New(core), prometheus.NewRegistry())
	check.NoError(t, err)
	bench{Tracing: tr}.make(spans)
	tr.Stop(t.Context())
	return logs, tr
}

// Headers are read from the file for each export. They are neither sent to the target of a redirect, nor logged when
// the collector repeats them.
func TestTracing_Headers(t *testing.T) {
	t.Parallel()
	elsewhere := newCollector(t, func(http.ResponseWriter, *http.Request) {})
	c := newCollector(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/mirror":
			http.Error(w, r.Header.Get("Authorization")+strings.Repeat(" no", 1000), http.StatusUnauthorized)
		}
	})
	file := filepath.Join(t.TempDir(), "headers")
	write := func(text string) {
		check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	cfg := DefaultTracingConfig()
	cfg.Endpoint, cfg.HeadersFile = c.URL, file
	write("# of the collector\nauthorization: Bearer hunter1\nx-tenant: a\n")
	if logs, _ := export(t, cfg); logs.Len() != 0 {
		t.Errorf("got the lines %v, want none", logs.All())
	}
	write("authorization: Bearer hunter2")
	for _, answer := range [][2]string{{"/moved", "307 Temporary Redirect"}, {"/mirror", "401 Unauthorized"}} {
		path, status := answer[0], answer[1]
		cfg.Endpoint = c.URL + path
		logs, tr := export(t, cfg)
		if testutil.ToFloat64(tr.counts.failed) != 1 || logs.Len() != 1 {
			t.Fatalf("%s: got %d lines, want one about the span that was not taken", path, logs.Len())
		}
		line := logs.All()[0].ContextMap()["error"].(string)
		if strings.Contains(line, "hunter") || strings.Contains(line, " no") || !strings.Contains(line, status) {
			t.Errorf("%s: got the line %q, want the status %s and nothing else of the answer", path, line, status)
		}
	}
	if len(c.seen) != 3 || len(elsewhere.seen) != 0 {
		t.Fatalf("got %d requests and %d elsewhere, want 3 and none", len(c.seen), len(elsewhere.seen))
	}
	first, last := c.seen[0], c.seen[2]
	if first.URL.Path != "/v1/traces" || first.Header.Get("X-Tenant") != "a" || first.Header.Get("Authorization") != "Bearer hunter1" {
		t.Errorf("got %s with %v, want the protocol's path and the headers of the file", first.URL, first.Header)
	}
	if last.Header.Get("Authorization") != "Bearer hunter2" || last.Header.Get("X-Tenant") != "" {
		t.Errorf("got %v, want what the file has by now", last.Header)
	}
}

func TestTracing_TLS(t *testing.T) {
	t.Parallel()
	taken := 0
	c := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken++ }))
	c.Config.ErrorLog, _ = zap.NewStdLogAt(zap.NewNop(), zap.DebugLevel)
	t.Cleanup(c.Close)
	cfg := DefaultTracingConfig()
	cfg.Endpoint = c.URL
	if logs, _ := export(t, cfg); logs.Len() != 1 || taken != 0 {
		t.Errorf("unknown authority: got %d exports, want none and a line", taken)
	}
	cfg.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	check.NoError(t, os.WriteFile(cfg.CAFile, pemOf(c), 0o600))
	if logs, _ := export(t, cfg); logs.Len() != 0 || taken != 1 {
		t.Errorf("known authority: got %d exports and %d lines, want one and none", taken, logs.Len())
	}
}

func TestNewTracing_Refuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct {
		name, wrong string
		change      func(*TracingConfig)
	}{
		{"NoURL", "tracing.endpoint must be a URL", func(c *TracingConfig) { c.Endpoint = "collector:4318" }},
		{"NoHost", "tracing.endpoint must be a URL", func(c *TracingConfig) { c.Endpoint = "http://:4318" }},
		{"OtherScheme", "tracing.endpoint must be a URL", func(c *TracingConfig) { c.Endpoint = "grpc://collector:4317" }},
		{"Password", "must not name a user", func(c *TracingConfig) { c.Endpoint = "https://u:hunter2@collector" }},
		{"Query", "no query", func(c *TracingConfig) { c.Endpoint = "https://collector/?key=hunter2" }},
		{"Ratio", "tracing.sample_ratio must be 0 to 1, not 1.5", func(c *TracingConfig) { c.SampleRatio = 1.5 }},
		{"Queue", "tracing.queue", func(c *TracingConfig) { c.Queue = 0 }},
		{"Timeout", "tracing.timeout", func(c *TracingConfig) { c.Timeout = time.Hour }},
		{"SecretsInTheClear", "must be https", func(c *TracingConfig) { c.Endpoint, c.HeadersFile = "http://collector:4318", "f" }},
		{"AuthorityWithoutTLS", "tracing.ca_file", func(c *TracingConfig) { c.CAFile = "f" }},
		{"NoHeadersFile", "tracing.headers_file", func(c *TracingConfig) { c.HeadersFile = filepath.Join(dir, "missing") }},
		{"NoHeaders", "line 2 of", func(c *TracingConfig) { c.HeadersFile = file("headers", "a: b\nhunter2\n") }},
		{"LongHeaders", "has more than", func(c *TracingConfig) { c.HeadersFile = file("long", strings.Repeat("a: b\n", maxFile/5+1)) }},
		{"NoCertificate", "holds no certificate", func(c *TracingConfig) { c.Endpoint, c.CAFile = "https://localhost", file("ca", "hunter2") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultTracingConfig()
			cfg.Endpoint = "http://127.0.0.1:4318"
			c.change(&cfg)
			_, err := NewTracing(cfg, "api", "1", zap.NewNop(), prometheus.NewRegistry())
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want an error with %q and no secret", err, c.wrong)
			}
		})
	}
	if err := DefaultTracingConfig().Validate(); err != nil {
		t.Errorf("the defaults: got %v, want nil", err)
	}
}

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
