package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// walk follows a list to its end and returns what every page said under field,
// in the order of the pages.
func walk(t *testing.T, f *fixture, target, list, field string) (found []string, pages int) {
	t.Helper()
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	}
	for cursor, next := "", ""; ; cursor = "&cursor=" + next {
		if pages++; pages > 100 {
			t.Fatalf("GET %s has no end", target)
		}
		w := f.do("GET", target+separator+"limit=2"+cursor, "")
		var page map[string]json.RawMessage
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatalf("GET %s%s = %d %s, %v", target, cursor, w.Code, w.Body, err)
		}
		var items []map[string]any
		var more *string
		if err := json.Unmarshal(page[list], &items); err != nil || json.Unmarshal(page["next_cursor"], &more) != nil {
			t.Fatalf("GET %s = %s", target, w.Body)
		}
		for _, item := range items {
			found = append(found, fmt.Sprint(item[field]))
		}
		if more == nil {
			return found, pages
		}
		next = *more
	}
}

// manyFixture has five redrives, one of which has five messages.
func manyFixture(t *testing.T) (*fixture, []string) {
	t.Helper()
	f := newFixture()
	var ids []string
	var messages []uuid.UUID
	for i := range 5 {
		m := message(uuid.MustParse(fmt.Sprintf("550e8400-e29b-41d4-a716-44665544100%d", i)), at(noon.Add(-time.Hour)))
		f.memory.Insert(m)
		messages = append(messages, m.ID)
		r, err := f.memory.CreateRedrive(t.Context(), repository.NewRedrive{
			ID: uuid.MustParse(fmt.Sprintf("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c700%d", i)), Action: entity.RedriveRetry,
			Selection: entity.Selection{IDs: slices.Clone(messages)}, Cause: entity.By("alice"), BatchSize: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID.String())
	}
	slices.Reverse(ids)
	return f.open(), ids
}

// Every list is whole when it is walked page by page, though all of it was made
// at one moment.
func TestLists(t *testing.T) {
	t.Parallel()
	f, ids := manyFixture(t)
	for _, c := range []struct {
		target, list, field string
		want                []string
		pages               int
	}{
		{redrives, "redrives", "id", ids, 3},
		{redrives + "?state=running", "redrives", "id", ids, 3},
		{redrives + "?state=paused", "redrives", "id", nil, 1},
		{redrives + "/" + ids[0] + "/items", "items", "number", []string{"0", "1", "2", "3", "4"}, 3},
		{redrives + "/" + ids[0] + "/items?result=waiting", "items", "number", []string{"0", "1", "2", "3", "4"}, 3},
		{redrives + "/" + ids[0] + "/items?result=in_doubt", "items", "number", nil, 1},
		{redrives + "/" + ids[3] + "/items", "items", "result", []string{"waiting", "waiting"}, 1},
		{"/api/v1/audit", "changes", "id", []string{"5", "4", "3", "2", "1"}, 3},
		{"/api/v1/audit?kind=redrive&action=create&actor=alice&after=2026-02-20T10:30:00.000%2B00:00", "changes", "id", []string{"5", "4", "3", "2", "1"}, 3},
		{"/api/v1/audit?after=2026-02-20T10:30:00.000+00:00", "changes", "id", []string{"5", "4", "3", "2", "1"}, 3},
		{"/api/v1/audit?after=2026-02-20T10:30:00.001Z", "changes", "id", nil, 1},
		{"/api/v1/audit?object_id=" + ids[1], "changes", "object_id", ids[1:2], 1},
		{"/api/v1/audit?kind=message", "changes", "id", nil, 1},
		{"/api/v1/audit?action=delete", "changes", "id", nil, 1},
		{"/api/v1/audit?actor=bob", "changes", "id", nil, 1},
		{"/api/v1/audit?actor=", "changes", "id", nil, 1},
		{"/api/v1/audit?actor=%00", "changes", "id", nil, 1},
		{"/api/v1/audit?request_id=nobody", "changes", "id", nil, 1},
	} {
		got, pages := walk(t, f, c.target, c.list, c.field)
		if !reflect.DeepEqual(got, c.want) || pages != c.pages {
			t.Errorf("GET %s = %v in %d pages, want %v in %d", c.target, got, pages, c.want, c.pages)
		}
	}
}

// A cursor is good for its own list only, and for nothing that somebody made up.
func TestCursor_OfAnotherList(t *testing.T) {
	t.Parallel()
	f, ids := manyFixture(t)
	first := func(target string) string {
		var page struct {
			Next *string `json:"next_cursor"`
		}
		w := f.do("GET", target, "")
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Next == nil {
			t.Fatalf("GET %s = %s, %v, want a cursor", target, w.Body, err)
		}
		return *page.Next
	}
	items := redrives + "/" + ids[0] + "/items"
	ofRedrives, ofRunning, ofItems, ofAudit := first(redrives+"?limit=1"), first(redrives+"?limit=1&state=running"), first(items+"?limit=1"), first("/api/v1/audit?limit=1")
	for _, c := range []struct {
		target, cursor string
		good           bool
	}{
		{redrives + "?limit=3", ofRedrives, true},
		{redrives + "?colour=red", ofRedrives, true},
		{redrives + "?state=running", ofRunning, true},
		{redrives + "?", ofRunning, false},
		{redrives + "?state=paused", ofRunning, false},
		{redrives + "?state=running", ofRedrives, false},
		{items + "?", ofItems, true},
		{redrives + "/" + ids[1] + "/items?", ofItems, false},
		{items + "?result=waiting", ofItems, false},
		{items + "?", ofAudit, false},
		{"/api/v1/audit?", ofAudit, true},
		{"/api/v1/audit?", ofItems, false},
		{"/api/v1/audit?", ofRedrives, false},
		{"/api/v1/audit?actor=alice", ofAudit, false},
		{"/api/v1/audit?", "", false},
		{"/api/v1/audit?", "x", false},
		{"/api/v1/audit?", "AAAAAAAAAAAAAAAAAAAAAA", false},
		{"/api/v1/audit?", ofAudit + "A", false},
		{"/api/v1/audit?", ofAudit + "%0A", false},
		{"/api/v1/audit?", ofAudit[:len(ofAudit)-2] + "AA", false},
		{"/api/v1/audit?", ofAudit + "&cursor=" + ofAudit, false},
	} {
		w := f.do("GET", c.target+"&cursor="+c.cursor, "")
		if c.good {
			if w.Code != 200 {
				t.Errorf("GET %s with its cursor = %d %s, want 200", c.target, w.Code, w.Body)
			}
			continue
		}
		if e := wantEnvelope(t, w, 400, codeValidation); firstField(e.Details) != "cursor" {
			t.Errorf("GET %s with cursor %q = %s, want the cursor refused", c.target, c.cursor, w.Body)
		}
	}
}

func TestLists_BadParameters(t *testing.T) {
	t.Parallel()
	items := redrives + "/" + redrive.String() + "/items"
	for _, c := range []struct{ target, field string }{
		{redrives + "?limit=0", "limit"},
		{redrives + "?limit=1001", "limit"},
		{redrives + "?limit=", "limit"},
		{redrives + "?limit=1&limit=1", "limit"},
		{redrives + "?state=RUNNING", "state"},
		{redrives + "?state=", "state"},
		{redrives + "?state=running&state=paused", "state"},
		{items + "?limit=x", "limit"},
		{items + "?result=good", "result"},
		{items + "?result=", "result"},
		{items + "?result=failed&result=dead", "result"},
		{"/api/v1/audit?limit=-1", "limit"},
		{"/api/v1/audit?object_id=x", "object_id"},
		{"/api/v1/audit?object_id=", "object_id"},
		{"/api/v1/audit?kind=topic", "kind"},
		{"/api/v1/audit?kind=message&kind=message", "kind"},
		{"/api/v1/audit?action=archive", "action"},
		{"/api/v1/audit?after=yesterday", "after"},
		{"/api/v1/audit?after=10000-01-01T00:00:00Z", "after"},
		{"/api/v1/audit?actor=a&actor=b", "actor"},
		{"/api/v1/audit?request_id=a&request_id=b", "request_id"},
	} {
		if e := wantEnvelope(t, newFixture().open().do("GET", c.target, ""), 400, codeValidation); firstField(e.Details) != c.field {
			t.Errorf("GET %s: details = %v, want field %q", c.target, e.Details, c.field)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA, func(m *entity.Message) {
		m.RetryCount, m.LastPublishError, m.LastPublishErrorClass = 1, "timed out", entity.NetworkTimeout
	})).open()
	f.do("POST", "/api/v1/dlq/messages/"+idA.String()+"/dead", `{"reason":"too old"}`, "Traceparent", traceparent)
	f.do("POST", redrives, `{"ids":["`+idA.String()+`"],"action":"delete"}`)
	wantAnswer(t, f.do("GET", "/api/v1/audit", ""), 200, `{"changes":[`+
		`{"id":2,"at":"2026-02-20T10:30:00.000+00:00","action":"create","kind":"redrive","object_id":"`+redrive.String()+`","from":null,"to":"running",`+
		`"retry_count":null,"error_class":null,"error":null,"actor":"anonymous","reason":null,"request_id":"test-1","trace_id":null},`+
		`{"id":1,"at":"2026-02-20T10:30:00.000+00:00","action":"dead","kind":"message","object_id":"`+idA.String()+`","from":"PENDING","to":"DEAD",`+
		`"retry_count":1,"error_class":"NETWORK_TIMEOUT","error":"timed out","actor":"anonymous","reason":"too old","request_id":"test-1","trace_id":"`+clientTrace+`"}`+
		`],"next_cursor":null}`)
	if w := f.do("HEAD", "/api/v1/audit", ""); w.Code != 200 {
		t.Errorf("HEAD = %d, want 200", w.Code)
	}
}
