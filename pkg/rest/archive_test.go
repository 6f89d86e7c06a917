package rest

import (
	"context"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, in(entity.Dead, 3))).open()
	f.memory.Archive(idB)
	archived := "/api/v1/archive/" + idB.String()
	if got := f.search(t, "/api/v1/archive?status=DEAD&count=exact"); got.ids() != "1" || got.Count.Messages != 1 {
		t.Errorf("archive = %+v, want message B alone", got)
	}
	if got := f.search(t, "/api/v1/messages").ids(); got != "0" {
		t.Errorf("live are %q, want message A alone", got)
	}
	if lines := wantStatus(t, f.do("GET", "/api/v1/export?source=archive", ""), 200, idB.String()); strings.Count(lines, "\n") != 1 {
		t.Errorf("export of the archive = %s", lines)
	}
	wantStatus(t, f.do("GET", archived, ""), 200, `"derived":{`)
	wantEnvelope(t, f.do("GET", "/api/v1/archive/"+idA.String(), ""), 404)
	want := `{"id":"` + idB.String() + `","status":"PENDING","message":"message ` + idB.String() + ` restored"}`
	wantAnswer(t, f.do("POST", archived+"/restore", `{"reason":"again"}`, keyHeader, "k"), 200, want)
	wantAnswer(t, f.do("POST", archived+"/restore", `{"reason":"again"}`, keyHeader, "k"), 200, want)
	wantEnvelope(t, f.do("POST", archived+"/restore", ""), 404)
	m, err := f.memory.Get(t.Context(), idB, -1)
	if err != nil || m.Status != entity.Pending || m.RetryCount != 0 || string(m.Record.Value) != `{"order_id": "123"}` {
		t.Errorf("restored message %+v, %v", m, err)
	}
}

// fetching is a Fetcher that returns one value, or an error.
type fetching struct {
	value   []byte
	err     error
	fetched *int // counts the calls of Fetch; nil: not counted
}

// pointers is a Dialects that treats a record with headers but without key and value as a pointer, which only names
// another record.
type pointers struct{ noDialects }

func (pointers) IsPointer(m *entity.Message) bool {
	return m.Record.Key == nil && m.Record.Value == nil && len(m.Record.Headers) > 0
}

func (f fetching) Fetch(context.Context, entity.Message) (entity.Record, error) {
	if f.fetched != nil {
		*f.fetched++
	}
	return entity.Record{Value: f.value}, f.err
}

// The answer for a single message shows from where each field was derived, such as from a header or from a topic's
// name.
func TestGet_Derived(t *testing.T) {
	t.Parallel()
	partition, offset := int32(3), int64(9)
	f := newFixture(message(idA)).with(WithDialects(explanations{of: func(m entity.Message) entity.Explanation {
		return entity.Explanation{
			OriginalTopic: entity.Derived{
				Source: entity.ByHeader, Dialect: "spring", Header: "kafka_dlt-original-topic", Occurrence: 1,
				Confidence: entity.CertaintyHigh,
			},
			ErrorMessage: entity.Derived{Source: entity.ByCompanion, Dialect: "k1s0", Header: "error", Confidence: entity.CertaintyMedium},
			ErrorClass:   entity.Derived{Source: entity.ByName, Confidence: entity.CertaintyLow},
			Hops:         []entity.Hop{{Dialect: "spring", Topic: m.OriginalTopic, Partition: &partition, Offset: &offset}, {Dialect: "connect"}},
		}
	}})).open()
	wantStatus(t, f.do("GET", oneA, ""), 200,
		`"original_topic":{"source":"header","dialect":"spring","header":"kafka_dlt-original-topic","occurrence":1,"confidence":"high"}`,
		`"error_message":{"source":"companion","dialect":"k1s0","header":"error","occurrence":0,"confidence":"medium"}`,
		`"error_class":{"source":"name","dialect":null,"header":null,"occurrence":null,"confidence":"low"}`, `"stack_trace":`+notDerived,
		`"hops":[{"dialect":"spring","topic":"orders.events.v1","partition":3,"offset":9},{"dialect":"connect","topic":null,"partition":null,"offset":null}],"envelope":null}`)
	wantWithout(t, f.do("GET", "/api/v1/messages", ""), `"derived"`)
}

// The answer for a single message names the headers that its replay loses, and those that stay although something was
// read from them. A position that the headers give to another topic than the one that an operator has set is not shown.
func TestGet_ReplayHeaders(t *testing.T) {
	t.Parallel()
	decoder := check.Must(deadletter.New(deadletter.Config{KeepHeaders: []string{"x-error"}}, deadletter.Patterns{}))(t)
	letter := func(m *entity.Message) {
		m.Origin.Partition, m.Origin.Offset = new(int32(3)), new(int64(9))
		m.Record.Headers = []entity.Header{
			{Key: "x-original-topic", Value: []byte("orders.events.v1")},
			{Key: "x-error", Value: []byte("boom")},
			{Key: "x-attempts", Value: []byte("5")},
			{Key: "tenant", Value: []byte("a")},
			{Key: "original_partition", Value: []byte("3")},
			{Key: "original_offset", Value: []byte("9")},
		}
	}
	f := newFixture(message(idA, letter), message(idB, letter, func(m *entity.Message) {
		m.OriginalTopic, m.Origin.Confidence = "payments", entity.FromOperator
	})).with(WithDialects(decoder)).open()
	wantStatus(t, f.do("GET", oneA, ""), 200, `"original_partition":3,"original_offset":9`,
		`"replay_removes":["x-original-topic","x-attempts","original_partition","original_offset"],"replay_keeps":["x-error"]`)
	wantStatus(t, f.do("GET", oneB, ""), 200, `"original_partition":null,"original_offset":null`)
	wantWithout(t, f.do("GET", "/api/v1/messages", ""), "replay_removes")
}

// The archive serves values and histories like the live table, under its own paths.
func TestArchive_PayloadAndHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idB, in(entity.Dead, 3), withValue("\xff\x00"))).open()
	live, archived := oneB, "/api/v1/archive/"+idB.String()
	wantStatus(t, f.do("POST", live+"/requeue", ""), 200)
	wantStatus(t, f.do("POST", live+"/retry", ""), 200)
	before := wantStatus(t, f.do("GET", live+"/history", ""), 200, `"number":1`)
	wantEnvelope(t, f.do("GET", archived+"/payload", ""), 404)
	wantEnvelope(t, f.do("GET", archived+"/history", ""), 404)
	f.memory.Archive(idB)
	wantEnvelope(t, f.do("GET", live+"/payload", ""), 404)
	for _, target := range []string{"/api/v1/archive", archived, "/api/v1/export?source=archive"} {
		wantStatus(t, f.do("GET", target, ""), 200, `"payload_omitted":"not_json","payload_size":2,"payload_url":"`+archived+`/payload"`)
	}
	if w := f.do("GET", archived+"/payload", ""); w.Code != 200 || w.Body.String() != "\xff\x00" {
		t.Errorf("payload = %d %q", w.Code, w.Body)
	}
	wantAnswer(t, f.do("GET", archived+"/history", ""), 200, before)
}

func TestArchive_EraseNeedsAReason(t *testing.T) {
	t.Parallel()
	f := documentFixture()
	archived := "/api/v1/archive/" + idArchived.String()
	wantEnvelope(t, f.do("DELETE", archived, ""), 400, "reason")
	wantEnvelope(t, f.do("DELETE", archived, `{"reason":""}`), 400, "reason")
	wantStatus(t, f.do("DELETE", archived, `{"reason":"request of the customer"}`), 200, `"retained_until":null,"pending":false`)
	wantEnvelope(t, f.do("GET", archived, ""), 404)
	wantEnvelope(t, f.do("DELETE", archived, `{"reason":"again"}`), 404)
}
