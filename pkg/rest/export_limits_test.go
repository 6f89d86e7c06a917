package rest

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/search"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/budget"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// The number of exports that hold a connection of the store is limited, and one client gets at most half of them.
// Further exports wait for a few seconds, and are then refused.
func TestExport_OnlySoManyAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA))
		f.cfg.MaxExports = 4
		store, begun, release := hook(f.memory), make(chan struct{}), make(chan struct{})
		store.export = func(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
			begun <- struct{}{}
			<-release
			return f.memory.Export(ctx, q, yield)
		}
		f.over(store).open()
		ended := make(chan *reply)
		export := func(from string) { ended <- f.from(from, "GET", "/api/v1/export") }
		refused := func(from string, status int, reason string) {
			t.Helper()
			began := time.Now()
			w := f.from(from, "GET", "/api/v1/export")
			wantStatus(t, w, status, reason)
			wantEnvelope(t, w, status, "max_exports")
			wantHeader(t, w.Header(), "Retry-After", "5")
			if took := time.Since(began); took != budget.Timeout {
				t.Errorf("refused after %s, want %s", took, budget.Timeout)
			}
		}
		for range 2 {
			go export("10.0.0.1:1000")
			<-begun
		}
		refused("10.0.0.1:2000", 429, "2 exports are under way for you")
		for range 2 {
			go export("10.0.0.2:1000")
			<-begun
		}
		refused("10.0.0.3:1000", 503, "4 exports are all")
		wantStatus(t, f.do("HEAD", "/api/v1/export", ""), 200) // a HEAD request is answered even now, because it holds no connection of the store
		go export("10.0.0.3:1000")                             // this export waits
		synctest.Wait()
		close(release)
		<-begun
		for range 5 {
			wantHeader(t, (<-ended).Result().Trailer, search.ExportComplete, "true")
		}
		nothingHeld(t, f.server)
	})
}

// A client that reads slowly does not hold a connection to the store for ever, because a whole export has a time limit.
func TestExport_WholeOfItHasItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		logs := f.logs(zap.WarnLevel)
		f.over(&endless{Store: f.memory}).open()
		client, began := &reader{header: http.Header{}, takes: atRate(4 << 10)}, time.Now()
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http compares by ==
				t.Errorf("panic %v, want the connection broken", p)
			}
			if took := time.Since(began); took != 15*time.Minute || client.written == 0 {
				t.Errorf("it took %s and %d bytes, want 15m and some", took, client.written)
			}
			wantHeader(t, client.header, search.ExportComplete, "")
			if text := logs.All()[0].ContextMap()["error"]; logs.Len() != 1 || !strings.Contains(text.(string), "longer than 15m0s (export_timeout)") {
				t.Errorf("logged %v", logs.All())
			}
			nothingHeld(t, f.server)
		}()
		f.server.Handler().ServeHTTP(client, httptest.NewRequest("GET", "/api/v1/export?limit=1000000", nil))
	})
}

// The text of a message stays in one cell, even in a spreadsheet program that separates cells by another character than
// the comma.
func TestExport_CellsOfOtherSeparators(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a;=1+1", "a\t=1+1", "x; y", "  =1", " \u00a0@x"} {
		f := newFixture(message(idA, func(m *entity.Message) { m.ErrorMessage = text })).open()
		body := f.do("GET", "/api/v1/export?format=csv", "").Body.String()
		want := `,"` + text + `",`
		if wire.Formula(text) {
			want = `,"'` + text + `",`
		}
		if !strings.Contains(body, want) {
			t.Errorf("%q: the line is %q, want %q in it", text, body, want)
		}
	}
}

// An exported message is one line, even if its JSON contained line breaks between its tokens. The meaning of the JSON
// does not change.
func TestExport_OneLineForEachMessage(t *testing.T) {
	t.Parallel()
	const forged = `{"id":"forged"}`
	for _, value := range []string{
		"{\n  \"order_id\": \"123\",\n  \"lines\": [\n    1,\r\n    2\r]\n}", "\n\r\n" + forged + "\n",
		"[" + "\n" + forged + "\n,\n" + forged + "\n]",
		"\"a\\nb\\r\\u000a\"", "{\"a\" :\r\"b\\\"\"\n}", " 1\n",
	} {
		f := newFixture(message(idA, withValue(value)), message(idB, at(noon.Add(-time.Hour)))).open()
		body := f.do("GET", "/api/v1/export", "").Body.String()
		lines := strings.Split(body, "\n")
		if len(lines) != 3 || lines[2] != "" || strings.Contains(body, "\r") {
			t.Errorf("%q: %d lines of %q, want 2 and their ends", value, len(lines)-1, body)
			continue
		}
		var m struct {
			ID      string
			Payload json.RawMessage
		}
		if err := json.Unmarshal([]byte(lines[0]), &m); err != nil || m.ID != idA.String() || !sameJSON(string(m.Payload), value) {
			t.Errorf("%q: the line is %s, %v", value, lines[0], err)
		}
		if list := f.do("GET", "/api/v1/messages", "").Body.String(); !strings.Contains(list, `"payload":`+value+`,"status"`) {
			t.Errorf("%q: a list has %q, want the producer's own text", value, list)
		}
		rows, err := csv.NewReader(f.do("GET", "/api/v1/export?format=csv", "").Body).ReadAll()
		if want := strings.ReplaceAll(value, "\r\n", "\n"); err != nil || len(rows) != 3 || strings.TrimPrefix(rows[1][5], "'") != want {
			t.Errorf("%q: CSV has %q, %v", value, rows, err)
		}
	}
	m := message(idA, withValue("{\n}"))
	newFixture().open().server.handlers().lists.Show.AppendJSON(nil, &m, wire.View{Limit: wire.MaxListPayload, OneLine: true})
	if string(m.Record.Value) != "{\n}" {
		t.Errorf("the message itself became %q", m.Record.Value)
	}
}
