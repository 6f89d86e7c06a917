package console

import (
	"net/http"
	"strings"
	"testing"
)

func TestAuditTrailIsNarrowedByTheAddress(t *testing.T) {
	t.Parallel()
	const trail = `{"changes": [
		{"id": 3, "at": "2026-02-20T10:30:00.000+00:00", "action": "dead", "kind": "message", "object_id": "550e8400-e29b-41d4-a716-446655440000",
		 "from": "PENDING", "to": "DEAD", "retry_count": 1, "error_class": "HOSTILE", "error": "HOSTILE", "actor": "HOSTILE", "reason": "HOSTILE", "request_id": "req_1", "trace_id": null}],
		"next_cursor": "abc"}`
	a := newAPI(t).says("GET /api/v1/audit", quoted(trail))
	body := get(t, site(t, a), "/audit?kind=message&action=dead&actor=alice&unknown=1").Body.String()
	for _, want := range []string{"/messages/550e8400-e29b-41d4-a716-446655440000", `badge dead">DEAD`, "cursor=abc", `<option selected>dead`, `value="alice"`} {
		if !strings.Contains(body, want) {
			t.Errorf("want %q in the page", want)
		}
	}
	wantNoMarkup(t, body)
	if requests, _ := a.wasAsked("GET /api/v1/audit"); requests[0].URL.RawQuery != "action=dead&actor=alice&kind=message&limit=100" {
		t.Errorf("got asked %q", requests[0].URL.RawQuery)
	}
}

func TestAuditTrailSaysWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/audit", refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "after: must be a time", nil})
	w := get(t, site(t, a), "/audit?after=yesterday")
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "after: must be a time") || !strings.Contains(w.Body.String(), `value="yesterday"`) {
		t.Errorf("got %d %s, want 400, why, and what was written", w.Code, w.Body)
	}
}
