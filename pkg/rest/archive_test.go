package rest

import (
	"context"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, in(entity.Dead, 3)))
	f.memory.Archive(idB)
	f.open()
	archived := "/api/v1/archive/" + idB.String()
	if got := f.search(t, "/api/v1/archive?status=DEAD&count=exact"); got.ids() != "1" || got.Count.Messages != 1 {
		t.Errorf("archive = %+v, want message B alone", got)
	}
	if got := f.search(t, "/api/v1/messages").ids(); got != "0" {
		t.Errorf("live are %q, want message A alone", got)
	}
	if w := f.do("GET", "/api/v1/export?source=archive", ""); strings.Count(w.Body.String(), "\n") != 1 || !strings.Contains(w.Body.String(), idB.String()) {
		t.Errorf("export of the archive = %s", w.Body)
	}
	if w := f.do("GET", archived, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"derived":{`) {
		t.Errorf("GET one = %d %s", w.Code, w.Body)
	}
	wantEnvelope(t, f.do("GET", "/api/v1/archive/"+idA.String(), ""), 404, codeNotFound)
	want := `{"id":"` + idB.String() + `","status":"PENDING","message":"message ` + idB.String() + ` restored"}`
	wantAnswer(t, f.do("POST", archived+"/restore", `{"reason":"again"}`, keyHeader, "k"), 200, want)
	wantAnswer(t, f.do("POST", archived+"/restore", `{"reason":"again"}`, keyHeader, "k"), 200, want)
	wantEnvelope(t, f.do("POST", archived+"/restore", ""), 404, codeNotFound)
	m, err := f.memory.Get(t.Context(), idB, -1)
	if err != nil || m.Status != entity.Pending || m.RetryCount != 0 || string(m.Record.Value) != `{"order_id": "123"}` {
		t.Errorf("restored message %+v, %v", m, err)
	}
}

// fetching has one value, or an error.
type fetching struct {
	value []byte
	err   error
}

// pointers are records with headers alone.
type pointers struct{ noDialects }

func (pointers) IsPointer(m *entity.Message) bool {
	return m.Record.Key == nil && m.Record.Value == nil && len(m.Record.Headers) > 0
}

func (f fetching) Fetch(context.Context, entity.Message) (entity.Record, error) {
	return entity.Record{Value: f.value}, f.err
}

// A record that is not kept here is fetched, and where it is gone the answer says
// so.
func TestPayload_Fetched(t *testing.T) {
	t.Parallel()
	pointing := message(idA, func(m *entity.Message) {
		m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte("orders.events.v1")}}}
	})
	large := message(idA, func(m *entity.Message) { m.Record = entity.Record{State: entity.ValueOverLimit, Size: 99 << 20} })
	gone := &entity.RefusedError{Class: entity.BadRecord, Reason: "topic orders.events.v1 no longer has offset 7"}
	for name, c := range map[string]struct {
		message entity.Message
		fetcher Fetcher
		status  int
		text    string
	}{
		"Pointer":               {pointing, fetching{value: []byte("bytes")}, 200, "bytes"},
		"PointerToATombstone":   {pointing, fetching{}, 204, ""},
		"PointerGone":           {pointing, fetching{err: gone}, 404, "no longer has offset 7"},
		"PointerWithoutKafka":   {pointing, nil, 409, "only points to its record"},
		"KafkaAway":             {pointing, fetching{err: entity.ErrUnavailable}, 503, unavailableText},
		"OverLimit":             {large, fetching{value: []byte("large")}, 200, "large"},
		"OverLimitGone":         {large, fetching{err: gone}, 404, "cannot be had any more"},
		"OverLimitWithoutKafka": {large, nil, 409, "too large to be kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(c.message)
			f.options = []Option{WithDialects(pointers{})}
			if c.fetcher != nil {
				f.options = append(f.options, WithFetcher(c.fetcher))
			}
			w := f.open().do("GET", "/api/v1/dlq/messages/"+idA.String()+"/payload", "")
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
				t.Errorf("payload = %d %s, want %d %q", w.Code, w.Body, c.status, c.text)
			}
		})
	}
	f := newFixture(pointing)
	f.options = []Option{WithDialects(pointers{})}
	if body := f.open().do("GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String(); !strings.Contains(body,
		`"payload_omitted":"pointer","payload_size":null,"payload_url":"/api/v1/dlq/messages/`+idA.String()+`/payload"`) {
		t.Errorf("pointer = %s", body)
	}
	if body := newFixture(message(idA, func(m *entity.Message) { m.Record.Value = nil })).open().do("GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String(); !strings.Contains(body,
		`"payload_omitted":null,"payload_size":null,"payload_url":null`) {
		t.Errorf("tombstone = %s", body)
	}
}

// A single message says where everything that it tells was learnt.
func TestGet_Derived(t *testing.T) {
	t.Parallel()
	partition, offset := int32(3), int64(9)
	f := newFixture(message(idA))
	f.options = []Option{withExplain(func(m entity.Message) entity.Explanation {
		return entity.Explanation{
			OriginalTopic: entity.Derived{Source: entity.ByHeader, Dialect: "spring", Header: "kafka_dlt-original-topic", Occurrence: 1, Confidence: entity.CertaintyHigh},
			ErrorMessage:  entity.Derived{Source: entity.ByCompanion, Dialect: "k1s0", Header: "error", Confidence: entity.CertaintyMedium},
			ErrorClass:    entity.Derived{Source: entity.ByName, Confidence: entity.CertaintyLow},
			Hops:          []entity.Hop{{Dialect: "spring", Topic: m.OriginalTopic, Partition: &partition, Offset: &offset}, {Dialect: "connect"}},
		}
	})}
	body := f.open().do("GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String()
	for _, want := range []string{
		`"original_topic":{"source":"header","dialect":"spring","header":"kafka_dlt-original-topic","occurrence":1,"confidence":"high"}`,
		`"error_message":{"source":"companion","dialect":"k1s0","header":"error","occurrence":0,"confidence":"medium"}`,
		`"error_class":{"source":"name","dialect":null,"header":null,"occurrence":null,"confidence":"low"}`,
		`"stack_trace":` + notDerived,
		`"hops":[{"dialect":"spring","topic":"orders.events.v1","partition":3,"offset":9},{"dialect":"connect","topic":null,"partition":null,"offset":null}]}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want %s in it", body, want)
		}
	}
	if list := f.do("GET", "/api/v1/messages", "").Body.String(); strings.Contains(list, `"derived"`) {
		t.Errorf("lists say it too: %s", list)
	}
}

// The archive has values and histories, as the live table has, and tells where.
func TestArchive_PayloadAndHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idB, in(entity.Dead, 3), withValue("\xff\x00")))
	f.redriver = editing{acknowledging{f.memory}, f.memory}
	f.open()
	live, archived := "/api/v1/dlq/messages/"+idB.String(), "/api/v1/archive/"+idB.String()
	for _, step := range []string{live + "/requeue", live + "/retry"} {
		if w := f.do("POST", step, ""); w.Code != 200 {
			t.Fatalf("%s = %d %s", step, w.Code, w.Body)
		}
	}
	before := f.do("GET", live+"/history", "").Body.String()
	wantEnvelope(t, f.do("GET", archived+"/payload", ""), 404, codeNotFound)
	wantEnvelope(t, f.do("GET", archived+"/history", ""), 404, codeNotFound)
	f.memory.Archive(idB)
	wantEnvelope(t, f.do("GET", live+"/payload", ""), 404, codeNotFound)
	for _, target := range []string{"/api/v1/archive", archived, "/api/v1/export?source=archive"} {
		if body := f.do("GET", target, "").Body.String(); !strings.Contains(body, `"payload_omitted":"not_json","payload_size":2,"payload_url":"`+archived+`/payload"`) {
			t.Errorf("GET %s = %s, want where the value is", target, body)
		}
	}
	if w := f.do("GET", archived+"/payload", ""); w.Code != 200 || w.Body.String() != "\xff\x00" {
		t.Errorf("payload = %d %q", w.Code, w.Body)
	}
	if after := f.do("GET", archived+"/history", "").Body.String(); after != before || !strings.Contains(after, `"number":1`) {
		t.Errorf("history\n got %s\nwant %s", after, before)
	}
}
