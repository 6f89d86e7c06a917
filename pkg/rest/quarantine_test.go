package rest

import (
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
	f := newFixture().open()
	for i, topic := range []string{"orders.dlq.v1", "payments.dlq.v1", "payments.dlq.v1"} {
		f.memory.Quarantine(quarantined(sixth(i), topic))
	}
	want := `{"records":[{"id":"` + sixth(0).String() + `","dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,` +
		`"dlq_timestamp":"2026-02-20T10:29:59.000+00:00","dlq_timestamp_ms":null,"sqlstate":"23514","error":"4111 violates check constraint",` +
		`"first_try":"2026-02-20T10:30:00.000+00:00","last_try":"2026-02-20T10:30:00.000+00:00","tries":1,"retry_at":"2026-02-20T11:30:00.000+00:00",` +
		`"key":{"encoding":"utf8","data":"k"},"key_omitted":null,"key_size":1,"headers":[{"key":"token","value":{"encoding":"utf8","data":"secret"}},{"key":"h","value":null}],` +
		`"payload":{"card":{"number":"4111"},"order":7},"payload_omitted":null,"payload_size":36,"masked":[]}],"next_cursor":null}`
	wantAnswer(t, f.do("GET", "/api/v1/quarantine?topic=orders.dlq.v1", ""), 200, want)
	if got, pages := walk(t, f, "/api/v1/quarantine", "records", "id"); len(got) != 3 || pages != 2 {
		t.Errorf("pages have %v, want all three in two", got)
	}
}

// Masked values appear in no field, not even in the database's error text.
func TestQuarantineIsMasked(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.memory.Quarantine(quarantined(idA, "orders.dlq.v1"))
	f.with(WithMasks(maskOf("$.card", "token"))).open().do("POST", "/api/v1/quarantine/"+idA.String()+"/retry", "")
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
	wantStatus(t, f.by("ana", "POST", base+"/retry", `{"reason":"the constraint is gone"}`), 202)
	if q, err := f.memory.TakeQuarantined(t.Context()); err != nil || q == nil || q.ID != idA {
		t.Errorf("TakeQuarantined = %+v, %v, want the record due", q, err)
	}
	wantEnvelope(t, f.by("ana", "DELETE", base, `{}`), 400, "reason")
	wantStatus(t, f.by("ana", "DELETE", base, `{"reason":"a test record"}`), 200)
	wantEnvelope(t, f.by("ana", "DELETE", base, `{"reason":"a test record"}`), 404)
	trail := f.trail(t, repository.TrailQuery{Kind: entity.KindQuarantine})
	if len(trail) != 2 || trail[0].Action != entity.ActionDelete || trail[0].Cause.Actor != "ana" ||
		trail[0].Cause.Reason != "a test record" || trail[1].Action != entity.ActionRetry {
		t.Errorf("the audit trail has %+v, want the retry and the deletion with their reasons", trail)
	}
}
