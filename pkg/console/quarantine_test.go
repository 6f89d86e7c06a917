package console

import (
	"net/http"
	"net/url"
	"testing"
)

const quarantinedID = "550e8400-e29b-41d4-a716-446655440000"

const someQuarantine = `{"records": [{"id": "` + quarantinedID + `", "dlq_topic": "orders.dlq.v1", "dlq_partition": 2, "dlq_offset": 41,
	"dlq_timestamp": null, "dlq_timestamp_ms": 9300000000000000, "sqlstate": "23514", "error": "HOSTILE violates check constraint",
	"first_try": "2026-02-20T10:30:00.000+00:00", "last_try": "2026-02-20T10:40:00.000+00:00", "tries": 2, "retry_at": "2026-02-20T10:50:00.000+00:00",
	"key": null, "headers": [], "payload": null, "payload_omitted": null, "payload_size": 7, "masked": []}], "next_cursor": "abc"}`

func TestQuarantine(t *testing.T) {
	t.Parallel()
	const retry, remove = "POST /api/v1/quarantine/" + quarantinedID + "/retry", "DELETE /api/v1/quarantine/" + quarantinedID
	a := newAPI(t).says("GET /api/v1/quarantine", quoted(someQuarantine)).says(retry, quoted(someQuarantine)).says(remove,
		raw(`{"success": true}`))
	s := site(t, a)
	w := get(t, s, "/quarantine")
	wantSays(t, "the page", w, http.StatusOK, "orders.dlq.v1", "offset 41", "23514", "violates check constraint", "7 bytes",
		`href="/quarantine?cursor=abc"`,
		`action="/quarantine/`+quarantinedID+`/retry"`, `action="/quarantine/`+quarantinedID+`/delete"`)
	wantNoMarkup(t, w.Body.String())
	wantDone(t, "trying", post(t, s, "/quarantine/"+quarantinedID+"/retry", url.Values{"key": {"abc"}}), "trying", "/quarantine")
	wantSent(t, a, retry, `{}`, "console-abc")
	form := url.Values{"key": {"abc"}, "reason": {"a test record"}}
	wantDone(t, "deleting", post(t, s, "/quarantine/"+quarantinedID+"/delete", form), "record-deleted", "/quarantine")
	wantSent(t, a, remove, `{"reason":"a test record"}`, "")
	a.says(remove, refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "reason: is required", nil})
	wantSays(t, "without a reason", post(t, s, "/quarantine/"+quarantinedID+"/delete", nil), http.StatusBadRequest, "reason: is required")
}
