package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const someQuarantine = `{"records": [{"id": "550e8400-e29b-41d4-a716-446655440000", "dlq_topic": "orders.dlq.v1", "dlq_partition": 2, "dlq_offset": 41,
	"dlq_timestamp": null, "dlq_timestamp_ms": 9300000000000000, "sqlstate": "23514", "error": "HOSTILE violates check constraint",
	"first_try": "2026-02-20T10:30:00.000+00:00", "last_try": "2026-02-20T10:40:00.000+00:00", "tries": 2, "retry_at": "2026-02-20T10:50:00.000+00:00",
	"key": null, "headers": [], "payload": null, "payload_omitted": null, "payload_size": 7, "masked": []}], "next_cursor": "abc"}`

func TestQuarantine(t *testing.T) {
	t.Parallel()
	const id = "550e8400-e29b-41d4-a716-446655440000"

	t.Run("IsShownWithItsReason", func(t *testing.T) {
		t.Parallel()
		body := get(t, site(t, newAPI(t).says("GET /api/v1/quarantine", quoted(someQuarantine))), "/quarantine").Body.String()
		wantIn(t, body, "orders.dlq.v1", "offset 41", "23514", "violates check constraint", "7 bytes", `href="/quarantine?cursor=abc"`,
			`action="/quarantine/`+id+`/retry"`, `action="/quarantine/`+id+`/delete"`)
		wantNoMarkup(t, body)
	})
	t.Run("IsTriedNow", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("POST /api/v1/quarantine/"+id+"/retry", quoted(someQuarantine))
		w := post(t, site(t, a), "/quarantine/"+id+"/retry", url.Values{"key": {"abc"}})
		wantDone(t, "trying", w, "trying", "/quarantine")
	})
	t.Run("IsDeletedWithAReason", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("DELETE /api/v1/quarantine/"+id, `{"success": true, "message": "deleted"}`)
		w := post(t, site(t, a), "/quarantine/"+id+"/delete", url.Values{"key": {"abc"}, "reason": {"a test record"}})
		wantDone(t, "deleting", w, "record-deleted", "/quarantine")
		if _, bodies := a.wasAsked("DELETE /api/v1/quarantine/" + id); len(bodies) != 1 || bodies[0] != `{"reason":"a test record"}` {
			t.Errorf("sent %q, want the reason", bodies)
		}
	})
	t.Run("ThatCannotBeDeletedIsShownAgainWithTheReason", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/quarantine", quoted(someQuarantine)).
			says("DELETE /api/v1/quarantine/"+id, refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "reason: is required", nil})
		w := post(t, site(t, a), "/quarantine/"+id+"/delete", url.Values{"key": {"abc"}})
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "reason: is required") {
			t.Errorf("got %d %s, want 400 and why", w.Code, w.Body)
		}
	})
	t.Run("IsSaidOnTheOverview", func(t *testing.T) {
		t.Parallel()
		link := `href="/quarantine"`
		if body := get(t, site(t, overviewAPI(t)), "/").Body.String(); strings.Contains(body, link) {
			t.Errorf("got %s, want no link to an empty quarantine", body)
		}
		a := overviewAPI(t).says("GET /api/v1/quarantine", quoted(someQuarantine))
		wantIn(t, get(t, site(t, a), "/").Body.String(), link)
	})
}
