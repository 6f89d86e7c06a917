package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

const messageA = `{"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1",` +
	`"error_message":"processing failed","retry_count":0,"max_retries":3,"payload":{"order_id": "123"},` +
	`"status":"PENDING","created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:00.000+00:00",` +
	`"last_retry_at":null,"dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,` +
	`"dlq_timestamp":"2026-02-20T10:29:59.000+00:00","dlq_timestamp_ms":null,"original_partition":null,"original_offset":null,` +
	`"original_timestamp":null,"consumer_group":null,"error_class":null,"stack_trace":null,"consumer_attempts":null,` +
	`"dialect":null,"origin_confidence":"header","undeclared":false,"undeclared_reason":null,"group_id":null,"parent_id":null,"return_confirmed":null,` +
	`"root_id":"550e8400-e29b-41d4-a716-446655440000","outcome":null,"outcome_group":null,"outcome_offset":null,"next_attempt_at":null,"finished_at":null,` +
	`"last_publish_error":null,"last_publish_error_class":null,"key":{"encoding":"utf8","data":"order-123"},` +
	`"key_omitted":null,"key_size":9,"headers":[],"headers_omitted":null,"payload_omitted":null,"payload_size":19,"payload_url":null,"limit_exceeded":null,"unreadable_reason":null,"last_offset":null,"masked":[]}`

// nothingDerived stands behind a message that is shown alone, when nobody says
// where its fields were learnt.
const nothingDerived = `,"derived":{"consumer_attempts":` + notDerived + `,"consumer_group":` + notDerived + `,"error_class":` + notDerived +
	`,"error_message":` + notDerived + `,"original_offset":` + notDerived + `,"original_partition":` + notDerived +
	`,"original_timestamp":` + notDerived + `,"original_topic":` + notDerived + `,"stack_trace":` + notDerived + `},"hops":[]}`

const notDerived = `{"source":"none","dialect":null,"header":null,"occurrence":null,"confidence":"none"}`

// alone is a message of a list as it is shown by itself.
func alone(message string) string { return strings.TrimSuffix(message, "}") + nothingDerived }

func TestList(t *testing.T) {
	t.Parallel()
	older, newer := message(idA), message(idB, at(noon.Add(time.Minute)))
	messageB := strings.NewReplacer(idA.String(), idB.String(),
		`created_at":"2026-02-20T10:30`, `created_at":"2026-02-20T10:31`,
		`updated_at":"2026-02-20T10:30`, `updated_at":"2026-02-20T10:31`).Replace(messageA)
	page := func(total, page, size, next string) string {
		return `"pagination":{"total_count":` + total + `,"page":` + page + `,"page_size":` + size + `,"has_next":` + next + `}}`
	}
	for _, c := range []struct {
		name, target, want string
		messages           []entity.Message
	}{
		{"EmptyTopic", "/api/v1/dlq/orders.dlq.v1", `{"messages":[],` + page("0", "1", "20", "false"), nil},
		{"OneMessage", "/api/v1/dlq/orders.dlq.v1", `{"messages":[` + messageA + `],` + page("1", "1", "20", "false"), []entity.Message{older}},
		{"OriginalTopicNamesItToo", "/api/v1/dlq/orders.events.v1", `{"messages":[` + messageA + `],` + page("1", "1", "20", "false"), []entity.Message{older}},
		{"NewestFirst", "/api/v1/dlq/orders.dlq.v1", `{"messages":[` + messageB + `,` + messageA + `],` + page("2", "1", "20", "false"), []entity.Message{older, newer}},
		{"FirstPage", "/api/v1/dlq/orders.dlq.v1?page_size=1", `{"messages":[` + messageB + `],` + page("2", "1", "1", "true"), []entity.Message{older, newer}},
		{"LastPage", "/api/v1/dlq/orders.dlq.v1?page=2&page_size=1", `{"messages":[` + messageA + `],` + page("2", "2", "1", "false"), []entity.Message{older, newer}},
		{"BehindTheEnd", "/api/v1/dlq/orders.dlq.v1?page=1000000&page_size=1000", `{"messages":[],` + page("1", "1000000", "1000", "false"), []entity.Message{older}},
		{"UnknownParametersAreIgnored", "/api/v1/dlq/x?colour=red&page=2", `{"messages":[],` + page("0", "2", "20", "false"), nil},
		{"UnknownParametersMayRepeat", "/api/v1/dlq/x?page=3&colour=red&colour=blue", `{"messages":[],` + page("0", "3", "20", "false"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantAnswer(t, newFixture(c.messages...).open().do("GET", c.target, ""), 200, c.want)
		})
	}
	t.Run("BrokenStore", func(t *testing.T) {
		t.Parallel()
		f := newFixture()
		f.store = brokenStore{err: errBroken}
		wantAnswer(t, f.open().do("GET", "/api/v1/dlq/orders.dlq.v1", ""), 500, errorJSON("SYS_DLQ_INTERNAL_ERROR", "internal error", "[]"))
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idA.String(), ""), 200, alone(messageA))
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+strings.ToUpper(idA.String()), ""), 200, alone(messageA))
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idGone.String(), ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idGone.String(), "[]"))
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/not-a-uuid", ""), 400,
		errorJSON("SYS_DLQ_VALIDATION_ERROR", "invalid message id: not-a-uuid", badID))
	if w := f.do("HEAD", "/api/v1/dlq/messages/"+idA.String(), ""); w.Code != 200 {
		t.Errorf("HEAD status = %d, want 200", w.Code)
	}
}

// Everything that can be known is shown under its name.
func TestGet_EveryField(t *testing.T) {
	t.Parallel()
	partition, offset, attempts := int32(0), int64(0), 5
	m := message(idA, in(entity.Dead, 3), func(m *entity.Message) {
		m.LastRetryAt = noon.Add(time.Minute)
		m.UpdatedAt = noon.Add(1500 * time.Millisecond)
		m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: noon, Confidence: entity.FromName}
		m.Failure = entity.Failure{Class: "java.lang.Boom", ConsumerGroup: "billing", Attempts: &attempts, Dialect: "spring"}
		m.Parent, m.Root = idB, idGone
		m.Outcome, m.NextAttemptAt = entity.Returned, noon
		m.LastPublishError, m.LastPublishErrorClass = "too <large>", entity.BadRecord
		m.Record.Key = []byte{0xff, 0}
		m.Record.Headers = []entity.Header{{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "\xff", Value: []byte{0xfe}}}
	})
	f := newFixture(m)
	f.server = New(f.cfg, f.store, f.redriver, nil, f.registry, f.logger,
		withStackTrace(func(entity.Message) string { return "at x\n\tat y" }))
	f.server.SetReady()
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idA.String(), ""), 200,
		`{"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1","error_message":"processing failed",`+
			`"retry_count":3,"max_retries":3,"payload":{"order_id": "123"},"status":"DEAD",`+
			`"created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:01.500+00:00",`+
			`"last_retry_at":"2026-02-20T10:31:00.000+00:00","dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,`+
			`"dlq_timestamp":"2026-02-20T10:29:59.000+00:00","dlq_timestamp_ms":null,"original_partition":0,"original_offset":0,`+
			`"original_timestamp":"2026-02-20T10:30:00.000+00:00","consumer_group":"billing","error_class":"java.lang.Boom",`+
			`"stack_trace":"at x\n\tat y","consumer_attempts":5,"dialect":"spring","origin_confidence":"name","undeclared":false,"undeclared_reason":null,"group_id":null,`+
			`"parent_id":"550e8400-e29b-41d4-a716-446655440001","return_confirmed":true,"root_id":"550e8400-e29b-41d4-a716-4466554400ff",`+
			`"outcome":"returned","outcome_group":null,"outcome_offset":null,"next_attempt_at":"2026-02-20T10:30:00.000+00:00","finished_at":"2026-02-20T10:30:01.500+00:00",`+
			`"last_publish_error":"too <large>","last_publish_error_class":"BAD_RECORD","key":{"encoding":"base64","data":"/wA="},`+
			`"key_omitted":null,"key_size":2,"headers":[{"key":"a","value":null},{"key":"a","value":{"encoding":"utf8","data":""}},`+
			`{"key":"\ufffd","key_base64":"/w==","value":{"encoding":"base64","data":"/g=="}}],`+
			`"headers_omitted":null,"payload_omitted":null,"payload_size":19,"payload_url":null,"limit_exceeded":null,"unreadable_reason":null,"last_offset":null,"masked":[]`+nothingDerived)
}

// A few records with very long keys, which anyone who can write to a dead-letter topic
// can send, do not use up the memory of answers.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	long := func(m *entity.Message) { m.Record.Key = make([]byte, 20<<20) }
	f := newFixture(message(idA, long), message(idB, long)).open()
	for _, target := range []string{"/api/v1/messages", "/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/messages/" + idA.String()} {
		w := f.do("GET", target, "")
		if want := `"key":null,"key_omitted":"too_large","key_size":20971520,`; w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %.200s, want 200 and %s in it", target, w.Code, w.Body, want)
		}
	}
}

// Headers that the store left out are not shown as none.
func TestHeadersOmitted(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.store = omittingStore{f.memory}
	w := f.open().do("GET", "/api/v1/dlq/orders.dlq.v1", "")
	if want := `"headers":null,"headers_omitted":"too_large","payload_omitted":"too_large","payload_size":9,"payload_url":"/api/v1/dlq/messages/` + idA.String() + `/payload",`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("got %s, want %s in it", w.Body, want)
	}
}

// omittingStore lists messages without their bytes, as for a page that is full.
type omittingStore struct{ *fake.Store }

func (s omittingStore) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	list, err := s.Store.List(ctx, topic, page)
	for i := range list.Messages {
		list.Messages[i].Record = entity.Record{State: entity.ValueNotLoaded, Size: 9, HeadersOmitted: true}
	}
	return list, err
}

// A row that was put in by SQL never was a record.
func TestGet_RowWithoutRecord(t *testing.T) {
	t.Parallel()
	m := message(idA, func(m *entity.Message) {
		m.Source, m.Record = entity.Source{}, entity.Record{State: entity.ValueMissing}
		m.ErrorMessage = "bad \xff text"
	})
	body := newFixture(m).open().do("GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String()
	for _, want := range []string{
		`"dlq_topic":null,"dlq_partition":null,"dlq_offset":null,"dlq_timestamp":null,"dlq_timestamp_ms":null`,
		`"key":null,"key_omitted":null,"key_size":null,"headers":[],"headers_omitted":null,"payload_omitted":null,"payload_size":null,"payload_url":null,"limit_exceeded":null,"unreadable_reason":null,"last_offset":null,"masked":[],`, `"payload":null`, `"bad \ufffd text"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("body %s\nhas no %s", body, want)
		}
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, in(entity.Retrying, 1))).open()
	target := "/api/v1/dlq/messages/" + idA.String()
	wantAnswer(t, f.do("DELETE", target, ""), 200, `{"success":true,"message":"message `+idA.String()+` deleted"}`)
	wantAnswer(t, f.do("DELETE", target, ""), 404, errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idA.String(), "[]"))
	wantAnswer(t, f.do("DELETE", "/api/v1/dlq/messages/"+idB.String(), ""), 409,
		errorJSON("SYS_DLQ_CONFLICT", "message is claimed by a running retry: "+idB.String(), "[]"))

	f = newFixture()
	f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) { return entity.Redrive{}, errBroken })
	wantAnswer(t, f.open().do("DELETE", target, ""), 500, errorJSON("SYS_DLQ_INTERNAL_ERROR", "internal error", "[]"))
}

func TestRequeueAndDead(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA, in(entity.Dead, 3))).open()
	target := "/api/v1/dlq/messages/" + idA.String()
	requeued := `{"id":"` + idA.String() + `","status":"PENDING","retry_count":0,"max_retries":3,"message":"message ` + idA.String() + ` requeued"}`
	wantAnswer(t, f.do("POST", target+"/requeue", "{}"), 200, requeued)
	wantAnswer(t, f.do("POST", target+"/requeue", ""), 409, errorJSON("SYS_DLQ_CONFLICT", "message cannot move from PENDING to PENDING", "[]"))
	dead := `{"id":"` + idA.String() + `","status":"DEAD","retry_count":0,"max_retries":3,"message":"message ` + idA.String() + ` marked dead"}`
	wantAnswer(t, f.do("POST", target+"/dead", ""), 200, dead)
	wantAnswer(t, f.do("POST", target+"/dead", ""), 409, errorJSON("SYS_DLQ_CONFLICT", "message cannot move from DEAD to DEAD", "[]"))
	wantAnswer(t, f.do("POST", "/api/v1/dlq/messages/"+idGone.String()+"/dead", ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idGone.String(), "[]"))
}

const attemptA = `{"number":1,"redrive_id":"0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e","bulk_redrive_id":null,"retry_count":1,` +
	`"actor":"anonymous","started_at":"2026-02-20T10:30:00.000+00:00","ended_at":"2026-02-20T10:30:00.000+00:00",` +
	`"from_status":"RETRYING","to_status":"RESOLVED","error_class":null,"error":null,"topic":"orders.events.v1","partition":3,"offset":7,"edit":null}`

// changeA is an entry of the audit trail about message idA.
func changeA(number int, action, from, to string) string {
	return fmt.Sprintf(`{"id":%d,"at":"2026-02-20T10:30:00.000+00:00","action":"%s","kind":"message","object_id":"%s","from":"%s","to":"%s",`+
		`"retry_count":1,"error_class":null,"error":null,"actor":"anonymous","reason":null,"request_id":"test-1","trace_id":null}`, number, action, idA, from, to)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	target := "/api/v1/dlq/messages/" + idA.String()
	wantAnswer(t, f.do("GET", target+"/history", ""), 200, `{"id":"`+idA.String()+`","attempts":[],"changes":[],"lineage":[]}`)
	f.do("POST", target+"/retry", "")
	wantAnswer(t, f.do("GET", target+"/history", ""), 200, `{"id":"`+idA.String()+`","attempts":[`+attemptA+`],"changes":[`+
		changeA(1, "retry", "PENDING", "RETRYING")+`,`+changeA(2, "attempt", "RETRYING", "RESOLVED")+`],"lineage":[]}`)
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idGone.String()+"/history", ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idGone.String(), "[]"))
}

// The ancestors that are still there stand in the history with their own.
func TestHistory_Lineage(t *testing.T) {
	t.Parallel()
	parent := message(idA, func(m *entity.Message) { m.Parent, m.Root = idGone, idGone })
	child := message(idB, func(m *entity.Message) { m.Parent, m.Root = idA, idGone })
	f := newFixture(parent, child).open()
	f.do("POST", "/api/v1/dlq/messages/"+idA.String()+"/retry", "")
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idB.String()+"/history", ""), 200, `{"id":"`+idB.String()+`","attempts":[],"changes":[],`+
		`"lineage":[{"id":"`+idA.String()+`","parent_id":"`+idGone.String()+`","status":"RESOLVED","outcome":"published","retry_count":1,`+
		`"created_at":"2026-02-20T10:30:00.000+00:00","attempts":[`+attemptA+`],"changes":[`+
		changeA(1, "retry", "PENDING", "RETRYING")+`,`+changeA(2, "attempt", "RETRYING", "RESOLVED")+`]}]}`)
}

func TestGet_Consumption(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.store = consumedStore{f.memory}
	body := f.open().do("GET", "/api/v1/dlq/messages/"+idA.String(), "").Body.String()
	if want := `"outcome":"consumed","outcome_group":"billing","outcome_offset":0,`; !strings.Contains(body, want) {
		t.Errorf("got %s, want %s in it", body, want)
	}
}

// consumedStore has one message, whose record was consumed.
type consumedStore struct{ *fake.Store }

func (consumedStore) Get(_ context.Context, id uuid.UUID, _ int64) (entity.Message, error) {
	return message(id, in(entity.Resolved, 1), func(m *entity.Message) {
		m.Outcome, m.Consumption = entity.Consumed, &entity.Consumption{Group: "billing", Offset: 0}
	}), nil
}

func TestPayload(t *testing.T) {
	t.Parallel()
	over := func(m *entity.Message) {
		m.Record = entity.Record{State: entity.ValueOverLimit, Size: 70 << 20}
	}
	for _, c := range []struct {
		name   string
		change func(*entity.Message)
		status int
		body   string
	}{
		{"AnyBytes", withValue("\x00\xff<script>\r\n"), 200, "\x00\xff<script>\r\n"},
		{"Empty", withValue(""), 200, ""},
		{"Large", withValue(strings.Repeat("x", 3<<20)), 200, strings.Repeat("x", 3<<20)},
		{"Tombstone", func(m *entity.Message) { m.Record.Value = nil }, 204, ""},
		{"PayloadOfARowPutInBySQL", func(m *entity.Message) {
			m.Record = entity.Record{State: entity.ValueFromPayload, Value: []byte(`{"a": 1}`)}
		}, 200, `{"a": 1}`},
		{"OverLimit", over, 409, errorJSON("SYS_DLQ_CONFLICT", "the value of 73400320 bytes is too large to be kept here; "+
			"dead-letter topic orders.dlq.v1 has it in partition 2 at offset 41 as long as it keeps it", "[]")},
		{
			"Missing", func(m *entity.Message) { m.Record = entity.Record{State: entity.ValueMissing} }, 409,
			errorJSON("SYS_DLQ_CONFLICT", "the message was stored without a value", "[]"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(message(idA, c.change)).open().do("GET", "/api/v1/dlq/messages/"+idA.String()+"/payload", "")
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("GET payload = %d %.200q, want %d %.200q", w.Code, w.Body, c.status, c.body)
			}
			if w.Code == http.StatusOK {
				wantHeader(t, w.Header(), "Content-Type", "application/octet-stream")
				wantHeader(t, w.Header(), "Content-Disposition", `attachment; filename="`+idA.String()+`.bin"`)
			}
			wantHeader(t, w.Header(), "X-Content-Type-Options", "nosniff")
			wantHeader(t, w.Header(), "Cache-Control", "no-store")
		})
	}
}

func wantHeader(t *testing.T, h http.Header, name, want string) {
	t.Helper()
	if got := h.Get(name); got != want {
		t.Errorf("header %s = %q, want %q", name, got, want)
	}
}

// The store must not be asked for what no row can have: a database refuses NUL
// in text, and the client would get a 500 for an empty list.
func TestImpossibleTopicsAreEmpty(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"%00", "a%00b", "%FF", strings.Repeat("x", 256), strings.Repeat("%E3%81%82", 256)} {
		f := newFixture()
		f.store = brokenStore{err: errBroken}
		f.redriver = nil
		f.open()
		wantAnswer(t, f.do("GET", "/api/v1/dlq/"+topic, ""), 200,
			`{"messages":[],"pagination":{"total_count":0,"page":1,"page_size":20,"has_next":false}}`)
		if w := f.do("POST", "/api/v1/dlq/"+topic+"/retry-all", ""); w.Code != 200 || !strings.HasPrefix(w.Body.String(), `{"retried":0,`) {
			t.Errorf("retry-all of %.20s = %d %s, want 200 and nothing retried", topic, w.Code, w.Body)
		}
	}
}

// A topic is any text: it reaches the store decoded, and nothing is cleaned.
func TestTopicIsAnyText(t *testing.T) {
	t.Parallel()
	for encoded, topic := range map[string]string{
		"a%2Fb": "a/b", "%2e%2E": "..", "..": "..", ".": ".", "a+b": "a+b", "a%20b": "a b", "a%252Fb": "a%2Fb",
		"messages": "messages", "%E3%81%82": "あ", "a;b": "a;b", "a%3Fb": "a?b", "retry-all": "retry-all",
	} {
		m := message(uuid.New(), func(m *entity.Message) { m.OriginalTopic = topic })
		f := newFixture(m).open()
		if w := f.do("GET", "/api/v1/dlq/"+encoded, ""); !strings.Contains(w.Body.String(), m.ID.String()) {
			t.Errorf("GET topic %s = %d %s, want the message of topic %q", encoded, w.Code, w.Body, topic)
		}
		if w := f.do("POST", "/api/v1/dlq/"+encoded+"/retry-all", ""); !strings.HasPrefix(w.Body.String(), `{"retried":1,`) {
			t.Errorf("retry-all of %s = %d %s, want one message retried", encoded, w.Code, w.Body)
		}
	}
}
