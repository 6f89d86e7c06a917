package consoletest

import "testing"

const (
	MessageID   = "550e8400-e29b-41d4-a716-446655440000"
	MessageAPI  = "/api/v1/dlq/messages/" + MessageID
	MessagePath = "/messages/" + MessageID
)

// AMessage returns the JSON of a message. The JSON members in the parameter members are added to it, and replace
// members of the same name.
func AMessage(members string) Raw {
	base := `"id":"` + MessageID + `","original_topic":"orders.events.v1","error_message":"stock is gone","cause":"stock is gone","error_class":"com.acme.StockException",
	"status":"PENDING","retry_count":1,"max_retries":3,"created_at":"2026-02-20T11:00:00.000+00:00","dlq_topic":"orders.dlq.v1","dlq_partition":2,
	"dlq_offset":41,"original_partition":0,"original_offset":7,"consumer_group":"billing","dialect":"spring","origin_confidence":"header",
	"key":{"encoding":"utf8","data":"order-123"},"headers":[],"payload":{"order_id": "123"},"payload_size":19,"masked":[],"hops":[],
	"derived":{"original_topic":{"source":"header","dialect":"spring","header":"kafka_dlt-original-topic","occurrence":0,"confidence":"high"}}`
	if members != "" {
		base += "," + members
	}
	return Raw("{" + base + "}")
}

const NoHistory = Raw(`{"attempts":[],"changes":[],"lineage":[]}`)

// WithMessage is an API that has one message without history.
func WithMessage(t *testing.T, members string) *API {
	t.Helper()
	return NewAPI(t).Says("GET "+MessageAPI, AMessage(members)).Says("GET "+MessageAPI+"/history", NoHistory)
}

const GroupID = "650ee99a-d1c9-8faa-8ea2-3653afc6425f"

// AGroup is an error group as the API returns it. Its texts contain hostile markup wherever possible.
const AGroup = `{"id": "` + GroupID + `", "class": "java.net.SocketTimeoutException", "title": "HOSTILE", "frames": ["HOSTILE"], "rule": "HOSTILE",
	"first_seen_at": "2026-02-19T10:29:00.000+00:00", "last_seen_at": "2026-02-20T11:29:00.000+00:00", "regressed_at": "2026-02-20T11:00:00.000+00:00",
	"new": false, "regressed": true, "counts": {"DEAD": 1, "PENDING": 12000, "RESOLVED": 5, "RETRYING": 2}, "open": 12003, "arrived": 20000,
	"topics": [{"topic": "HOSTILE", "messages": 3}, {"topic": "orders.events.v1", "messages": 9}, {"topic": "", "messages": 1}],
	"trend": [{"hour": "2026-02-20T11:00:00.000+00:00", "messages": 7}],
	"recent": {"since": "2026-02-20T11:45:00.000+00:00", "arrived": 43, "counted_until": "2026-02-20T11:59:58.000+00:00", "minutes": []}, "note": "HOSTILE", "link": "javascript:alert(1)", "muted": false,
	"annotations": [{"topic": null, "note": null, "link": null, "muted": true}, {"topic": "HOSTILE", "note": "HOSTILE", "link": "HOSTILE", "muted": false}]}`

const RedriveID = "0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d90"

// ARedrive is a redrive in state canary. Its texts contain hostile markup wherever possible.
const ARedrive = `{"id": "` + RedriveID + `", "action": "retry", "state": "canary", "note": "HOSTILE", "actor": "HOSTILE", "reason": "HOSTILE",
	"selection": {"by": "filter", "filter": {"topic": "HOSTILE", "status": ["PENDING"], "group_id": "` + GroupID + `", "created_before": "2026-02-20T12:00:03.000+00:00",
	 "key": "", "header": ["HOSTILE"], "payload": ["HOSTILE"], "q": "HOSTILE"}},
	"options": {"canary": 1, "canary_wait": "1m0s", "rate": 0.5, "max_failure_share": 0.1, "max_return_share": null, "min_sample": 20,
	 "keep_key_order": true, "requeue": false, "accept_envelope": true, "original_topic": null, "patch": [{"op": "add", "path": "/a", "value": "HOSTILE"}]},
	"created_at": "2026-02-20T11:30:00.000+00:00", "updated_at": "2026-02-20T11:30:00.000+00:00", "ended_at": null,
	"selected": 12431, "succeeded": 1, "failed": 3, "dead": 2, "in_doubt": 0, "skipped": 4, "waiting": 12423, "under_way": 5, "returned": 1,
	"reasons": {"taken": 1, "patch_failed": 3, "HOSTILE": 3}, "progress": 0.0006, "rate": 0.2, "seconds_left": 7200, "waiting_since": "2026-02-20T11:59:00.000+00:00",
	"outcomes": {"published": 3, "consumed": 2, "returned": 1}}`

const someItems = `{"items": [
	{"number": 0, "id": "550e8400-e29b-41d4-a716-446655440000", "result": "succeeded", "reason": null, "topic": "HOSTILE", "partition": 0, "offset": 0, "outcome": "returned"},
	{"number": 1, "id": "550e8400-e29b-41d4-a716-446655440001", "result": "skipped", "reason": "HOSTILE", "topic": null, "partition": null, "offset": null, "outcome": null},
	{"number": 2, "id": "550e8400-e29b-41d4-a716-446655440002", "result": "skipped", "reason": "taken", "topic": null, "partition": null, "offset": null, "outcome": null}
], "next_cursor": "n+1"}`

const someErrors = `{"errors": [{"group_id": "` + GroupID + `", "class": "java.Slow", "title": "HOSTILE", "messages": 300},
	{"group_id": null, "class": null, "title": null, "messages": 2}]}`

// AnOverlap is another redrive of the same messages.
const AnOverlap = `{"id": "0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d99", "action": "retry", "state": "running", "actor": "alice HOSTILE",
	"created_at": "2026-02-20T11:58:00.000+00:00", "messages": 9}`

// RedriveAPI is an API that has one redrive.
func RedriveAPI(t *testing.T) *API {
	t.Helper()
	return NewAPI(t).
		Says("GET /api/v1/redrives", Quoted(`{"redrives": [`+ARedrive+`], "next_cursor": "n"}`)).
		Says("GET /api/v1/redrives/"+RedriveID, Quoted(ARedrive)).
		Says("GET /api/v1/redrives/"+RedriveID+"/items", Quoted(someItems)).
		Says("GET /api/v1/redrives/"+RedriveID+"/errors", Quoted(someErrors)).
		Says("GET /api/v1/redrives/"+RedriveID+"/overlaps", Quoted(`{"overlaps": [`+AnOverlap+`]}`)).
		Says("GET /api/v1/groups/"+GroupID, Quoted(AGroup)).
		Says("GET /api/v1/messages", Quoted(`{"messages": [{"id": "550e8400-e29b-41d4-a716-446655440000", "key": {"encoding": "utf-8", "data": "HOSTILE"}, "cause": "HOSTILE"}]}`))
}

const QuarantinedID = "550e8400-e29b-41d4-a716-446655440000"

const SomeQuarantine = `{"records": [{"id": "` + QuarantinedID + `", "dlq_topic": "orders.dlq.v1", "dlq_partition": 2, "dlq_offset": 41,
	"dlq_timestamp": null, "dlq_timestamp_ms": 9300000000000000, "sqlstate": "23514", "error": "HOSTILE violates check constraint",
	"first_try": "2026-02-20T10:30:00.000+00:00", "last_try": "2026-02-20T10:40:00.000+00:00", "tries": 2, "retry_at": "2026-02-20T10:50:00.000+00:00",
	"key": null, "headers": [], "payload": null, "payload_omitted": null, "payload_size": 7, "masked": []}], "next_cursor": "abc"}`
