package rest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// walk reads a list page by page to its end. It returns the values of the given field of all items, in the order of the
// list, and the number of pages.
func walk(t *testing.T, f *fixture, target, list, field string) (found []string, pages int) {
	t.Helper()
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	}
	for cursor := ""; ; {
		if pages++; pages > 100 {
			t.Fatalf("GET %s has no end", target)
		}
		page := map[string]any{}
		check.NoError(t, json.Unmarshal([]byte(wantStatus(t, f.do("GET", target+separator+"limit=2"+cursor, ""), 200)), &page))
		for _, item := range page[list].([]any) {
			found = append(found, fmt.Sprint(item.(map[string]any)[field]))
		}
		next, more := page["next_cursor"].(string)
		if cursor = "&cursor=" + next; !more {
			return found, pages
		}
	}
}

// cursorOf returns the next_cursor of a page.
func (f *fixture) cursorOf(t testing.TB, target string) string {
	t.Helper()
	var page struct {
		Next *string `json:"next_cursor"`
	}
	w := f.do("GET", target, "")
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Next == nil {
		t.Fatalf("GET %s = %s, %v, want a cursor", target, w.Body, err)
	}
	return *page.Next
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
		check.NoError(t, err)
		ids = append(ids, r.ID.String())
	}
	slices.Reverse(ids)
	return f.open(), ids
}

// The lists of redrives, of their messages and of the audit trail are complete when they are read page by page, even
// when all items have the same time.
func TestLists(t *testing.T) {
	t.Parallel()
	f, ids := manyFixture(t)
	items, audit := redrivesPath+"/"+ids[0]+"/items", "/api/v1/audit?"
	numbers, entries := []string{"0", "1", "2", "3", "4"}, []string{"5", "4", "3", "2", "1"}
	for _, c := range []struct {
		target, list, field string
		want                []string
	}{
		{redrivesPath, "redrives", "id", ids},
		{redrivesPath + "?state=running", "redrives", "id", ids},
		{redrivesPath + "?state=paused", "redrives", "id", nil},
		{items, "items", "number", numbers},
		{items + "?result=waiting", "items", "number", numbers},
		{items + "?result=in_doubt", "items", "number", nil},
		{redrivesPath + "/" + ids[3] + "/items", "items", "result", []string{"waiting", "waiting"}},
		{"/api/v1/audit", "changes", "id", entries},
		{audit + "kind=redrive&action=create&actor=alice&after=2026-02-20T10:30:00.000%2B00:00", "changes", "id", entries},
		{audit + "after=2026-02-20T10:30:00.000+00:00", "changes", "id", entries},
		{audit + "after=2026-02-20T10:30:00.001Z", "changes", "id", nil},
		{audit + "object_id=" + ids[1], "changes", "object_id", ids[1:2]},
		{audit + "until=2026-02-20T10:30:00.001Z&actor_kind=person", "changes", "id", entries},
		{audit + "until=2026-02-20T10:30:00.000Z", "changes", "id", nil},
		{audit + "actor_kind=machine", "changes", "id", nil},
		{audit + "by_request=true&action=retry", "changes", "id", entries},
		{audit + "by_request=true&action=pause", "changes", "id", nil},
		{audit + "kind=message", "changes", "id", nil},
		{audit + "action=delete", "changes", "id", nil},
		{audit + "actor=bob", "changes", "id", nil},
		{audit + "actor=", "changes", "id", nil},
		{audit + "actor=%00", "changes", "id", nil},
		{audit + "request_id=nobody", "changes", "id", nil},
	} {
		got, pages := walk(t, f, c.target, c.list, c.field)
		if want := max(1, (len(c.want)+1)/2); !slices.Equal(got, c.want) || pages != want {
			t.Errorf("GET %s = %v in %d pages, want %v in %d", c.target, got, pages, c.want, want)
		}
	}
}

// A cursor is valid for its own list only, and a forged cursor for none.
func TestCursor_OfAnotherList(t *testing.T) {
	t.Parallel()
	f, ids := manyFixture(t)
	items, audit := redrivesPath+"/"+ids[0]+"/items?", "/api/v1/audit?"
	ofRedrives, ofRunning := f.cursorOf(t, redrivesPath+"?limit=1"), f.cursorOf(t, redrivesPath+"?limit=1&state=running")
	ofItems, ofAudit := f.cursorOf(t, items+"limit=1"), f.cursorOf(t, audit+"limit=1")
	for target, cursor := range map[string]string{
		redrivesPath + "?limit=3": ofRedrives, redrivesPath + "?colour=red": ofRedrives, redrivesPath + "?state=running": ofRunning, items: ofItems,
		audit: ofAudit,
	} {
		wantStatus(t, f.do("GET", target+"&cursor="+cursor, ""), 200)
	}
	for target, cursors := range map[string][]string{
		redrivesPath + "?": {ofRunning}, redrivesPath + "?state=paused": {ofRunning}, redrivesPath + "?state=running": {ofRedrives},
		redrivesPath + "/" + ids[1] + "/items?": {ofItems}, items + "result=waiting": {ofItems}, items: {ofAudit}, audit + "actor=alice": {ofAudit},
		audit: {
			ofItems, ofRedrives, "", "x", "AAAAAAAAAAAAAAAAAAAAAA", ofAudit + "A", ofAudit + "%0A", ofAudit[:len(ofAudit)-2] + "AA",
			ofAudit + "&cursor=" + ofAudit,
		},
	} {
		for _, cursor := range cursors {
			wantEnvelope(t, f.do("GET", target+"&cursor="+cursor, ""), 400, "cursor")
		}
	}
}

func TestLists_BadParameters(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	for list, bad := range map[string]map[string][]string{
		redrivesPath: {
			"limit": {"limit=0", "limit=1001", "limit=", "limit=1&limit=1"},
			"state": {"state=RUNNING", "state=", "state=running&state=paused"},
		},
		redrivesPath + "/" + redrive.String() + "/items": {"limit": {"limit=x"}, "result": {"result=good", "result=", "result=failed&result=dead"}},
		"/api/v1/audit": {
			"limit": {"limit=-1"}, "object_id": {"object_id=x", "object_id="}, "kind": {"kind=topic", "kind=message&kind=message"},
			"action": {"action=archive"}, "actor_kind": {"actor_kind=robot", "actor_kind="}, "by_request": {"by_request=1"},
			"until": {"until=tomorrow"}, "after": {"after=yesterday", "after=10000-01-01T00:00:00Z"}, "actor": {"actor=a&actor=b"},
			"request_id": {"request_id=a&request_id=b"},
		},
		"/api/v1/groups": {
			"sort": {"sort=size"}, "open": {"open=1"}, "trend": {"trend=1h"}, "topic": {"topic=", "topic=a&topic=b"}, "limit": {"limit=0"},
			"cursor": {"cursor=x"},
		},
		"/api/v1/topics":   {"limit": {"limit=0", "limit=1001"}, "cursor": {"cursor=x", "cursor=AAAA"}},
		"/api/v1/activity": {"span": {"span=month", "span=", "span=day&span=day"}, "topic": {"topic=", "topic=a&topic=b", "topic=a%00"}},
		"/api/v1/export": {
			"limit": {"limit=0", "limit=1000001"}, "format": {"format=xml"}, "source": {"source=all"}, "unmask": {"unmask=yes"},
		},
	} {
		for field, queries := range bad {
			for _, query := range queries {
				if e := wantEnvelope(t, f.do("GET", list+"?"+query, ""), 400, field); len(e.Details) != 1 {
					t.Errorf("GET %s?%s: details %+v, want one", list, query, e.Details)
				}
			}
		}
	}
	wantEnvelope(t, f.do("GET", "/api/v1/activity?span=x&topic=", ""), 400, "span", "topic") // both problems are reported
	wantEnvelope(t, f.do("GET", "/api/v1/activity?span=week&step=minute", ""), 400, "step")
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA, func(m *entity.Message) {
		m.RetryCount, m.LastPublishError, m.LastPublishErrorClass = 1, "timed out", entity.NetworkTimeout
	})).open()
	f.do("POST", oneA+"/dead", `{"reason":"too old"}`, "Traceparent", traceparent)
	f.do("POST", redrivesPath, `{"ids":["`+idA.String()+`"],"action":"delete"}`)
	wantAnswer(t, f.do("GET", "/api/v1/audit", ""), 200, `{"changes":[`+
		`{"id":2,"at":"2026-02-20T10:30:00.000+00:00","action":"create","kind":"redrive","object_id":"`+redrive.String()+
		`","from":null,"to":"running",`+
		`"retry_count":null,"error_class":null,"error":null,"actor":"anonymous","reason":null,"request_id":"test-1","trace_id":null,"actor_kind":"person"},`+
		`{"id":1,"at":"2026-02-20T10:30:00.000+00:00","action":"dead","kind":"message","object_id":"`+idA.String()+
		`","from":"PENDING","to":"DEAD",`+
		`"retry_count":1,"error_class":"NETWORK_TIMEOUT","error":"timed out","actor":"anonymous","reason":"too old","request_id":"test-1","trace_id":"`+clientTrace+`","actor_kind":"person"}`+
		`],"next_cursor":null}`)
	wantStatus(t, f.do("HEAD", "/api/v1/audit", ""), 200)
	wantAnswer(t, f.do("GET", "/api/v1/audit?by_request=true&actor_kind=person&action=delete", ""), 200, `{"changes":[`+
		`{"id":2,"at":"2026-02-20T10:30:00.000+00:00","action":"create","kind":"redrive","object_id":"`+redrive.String()+
		`","from":null,"to":"running",`+
		`"retry_count":null,"error_class":null,"error":null,"actor":"anonymous","reason":null,"request_id":"test-1","trace_id":null,`+
		`"actor_kind":"person","entries":1,"redrive":{"action":"delete","selected":1}}],"next_cursor":null}`)
	// The list has one entry for each request, although both requests had the same X-Request-Id.
	wantStatus(t, f.do("GET", "/api/v1/audit?by_request=true", ""), 200, `"action":"create"`, `"action":"dead"`)
}
