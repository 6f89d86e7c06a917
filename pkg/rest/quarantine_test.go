package rest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func quarantined(id uuid.UUID, topic string) entity.Quarantined {
	value := []byte(`{"card":{"number":"4111"},"order":7}`)
	return entity.Quarantined{
		ID:     id,
		Source: entity.Source{Topic: topic, Partition: 2, Offset: 41, Timestamp: noon.Add(-time.Second)},
		Record: entity.Record{
			Key: []byte("k"), Value: value, Size: int64(len(value)),
			Headers: []entity.Header{{Key: "token", Value: []byte("secret")}, {Key: "h"}},
		},
		SQLState: "23514", Error: "4111 violates check constraint", FirstTry: noon, LastTry: noon, Tries: 1, RetryAt: noon.Add(time.Hour),
	}
}

func TestQuarantineIsListedWithItsReason(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.memory.Quarantine(quarantined(idA, "orders.dlq.v1"))
	f.memory.Quarantine(quarantined(idB, "payments.dlq.v1"))
	f.open()
	want := `{"records":[{"id":"` + idA.String() + `","dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,` +
		`"dlq_timestamp":"2026-02-20T10:29:59.000+00:00","dlq_timestamp_ms":null,"sqlstate":"23514","error":"4111 violates check constraint",` +
		`"first_try":"2026-02-20T10:30:00.000+00:00","last_try":"2026-02-20T10:30:00.000+00:00","tries":1,"retry_at":"2026-02-20T11:30:00.000+00:00",` +
		`"key":{"encoding":"utf8","data":"k"},"key_omitted":null,"key_size":1,"headers":[{"key":"token","value":{"encoding":"utf8","data":"secret"}},{"key":"h","value":null}],` +
		`"payload":{"card":{"number":"4111"},"order":7},"payload_omitted":null,"payload_size":36,"masked":[]}],"next_cursor":null}`
	wantAnswer(t, f.do("GET", "/api/v1/quarantine?topic=orders.dlq.v1", ""), 200, want)
	seen := map[string]bool{}
	for target := "/api/v1/quarantine?limit=1"; target != ""; {
		var page struct {
			Records    []struct{ ID string }
			NextCursor *string `json:"next_cursor"`
		}
		w := f.do("GET", target, "")
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Records) != 1 {
			t.Fatalf("GET %s = %s, %v, want one record", target, w.Body, err)
		}
		seen[page.Records[0].ID] = true
		if target = ""; page.NextCursor != nil {
			target = "/api/v1/quarantine?limit=1&cursor=" + *page.NextCursor
		}
	}
	if len(seen) != 2 {
		t.Errorf("pages of one have %v, want both", seen)
	}
}

// What is masked is in no field, the database's words included.
func TestQuarantineIsMasked(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.memory.Quarantine(quarantined(idA, "orders.dlq.v1"))
	f.options = []Option{WithMasks(maskOf("$.card", "token"))}
	f.open().do("POST", "/api/v1/quarantine/"+idA.String()+"/retry", "")
	if trail := f.do("GET", "/api/v1/audit", "").Body.String(); strings.Contains(trail, "4111") || !strings.Contains(trail, "orders.dlq.v1/2/41: SQLSTATE 23514") {
		t.Errorf("GET audit = %s, want the position and the SQLSTATE alone", trail)
	}
	body := f.do("GET", "/api/v1/quarantine", "").Body.String()
	if strings.Contains(body, "4111") || strings.Contains(body, "secret") || !strings.Contains(body, `"order":7`) {
		t.Errorf("GET quarantine = %s, want the card and the token masked", body)
	}
}

func TestQuarantineIsRetriedAndDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.memory.Quarantine(quarantined(idA, "orders.dlq.v1"))
	f.guarded(person("ana", "*", auth.Admin, auth.Viewer, auth.Operator))
	base := "/api/v1/quarantine/" + idA.String()
	if w := f.by("ana", "POST", base+"/retry", `{"reason":"the constraint is gone"}`); w.Code != 202 {
		t.Fatalf("retry = %d %s, want 202", w.Code, w.Body)
	}
	if q, err := f.memory.TakeQuarantined(t.Context()); err != nil || q == nil || q.ID != idA {
		t.Errorf("TakeQuarantined = %+v, %v, want the record due", q, err)
	}
	e := wantEnvelope(t, f.by("ana", "DELETE", base, `{}`), 400, codeValidation)
	if len(e.Details) != 1 || e.Details[0].Field != "reason" {
		t.Errorf("DELETE without a reason has the details %+v, want the reason asked for", e.Details)
	}
	if w := f.by("ana", "DELETE", base, `{"reason":"a test record"}`); w.Code != 200 {
		t.Fatalf("DELETE = %d %s, want 200", w.Code, w.Body)
	}
	wantEnvelope(t, f.by("ana", "DELETE", base, `{"reason":"a test record"}`), 404, codeNotFound)
	trail, err := f.memory.Trail(t.Context(), repository.TrailQuery{Kind: entity.KindQuarantine, Limit: 10})
	if err != nil || len(trail) != 2 || trail[0].Action != entity.ActionDelete || trail[0].Cause.Actor != "ana" ||
		trail[0].Cause.Reason != "a test record" || trail[1].Action != entity.ActionRetry {
		t.Errorf("the audit trail has %+v, %v, want the retry and the deletion with their reasons", trail, err)
	}
}
