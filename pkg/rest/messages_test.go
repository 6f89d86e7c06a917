package rest

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const messageA = `{"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1",` +
	`"error_message":"processing failed","retry_count":0,"max_retries":3,"payload":{"order_id": "123"},` +
	`"status":"PENDING","created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:00.000+00:00",` +
	`"last_retry_at":null,"dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,` +
	`"dlq_timestamp":"2026-02-20T10:29:59.000+00:00","dlq_timestamp_ms":null,"original_partition":null,"original_offset":null,` +
	`"original_timestamp":null,"consumer_group":null,"error_class":null,"stack_trace":null,"consumer_attempts":null,` +
	`"dialect":null,"origin_confidence":"header","undeclared":false,"undeclared_reason":null,"duplicates":null,"repeats":[],"repeat_of":null,"source_gone":false,"completion":null,"completion_reason":null,"group_id":null,"parent_id":null,"return_confirmed":null,` +
	`"root_id":"550e8400-e29b-41d4-a716-446655440000","outcome":null,"outcome_group":null,"outcome_offset":null,"next_attempt_at":null,"finished_at":null,` +
	`"last_publish_error":null,"last_publish_error_class":null,"key":{"encoding":"utf8","data":"order-123"},` +
	`"key_omitted":null,"key_size":9,"key_json":null,"key_format":null,"key_schema":null,"headers":[],"headers_omitted":null,"payload_omitted":null,"payload_size":19,"payload_url":null,"payload_format":"json","payload_schema":null,"payload_reason":null,"limit_exceeded":null,"unreadable_reason":null,"last_offset":null,"cause":"processing failed","masked":[]}`

// nothingDerived is the end of a single message's JSON when no field was derived from a header or from a topic's name.
const nothingDerived = `,"target":{"topic":"orders.events.v1","redirected":false,"exists":null},"replay_removes":[],"replay_keeps":[],"derived":{"consumer_attempts":` + notDerived + `,"consumer_group":` + notDerived + `,"error_class":` +
	notDerived +
	`,"error_message":` + notDerived + `,"original_offset":` + notDerived + `,"original_partition":` + notDerived +
	`,"original_timestamp":` + notDerived + `,"original_topic":` + notDerived + `,"stack_trace":` + notDerived + `},"hops":[],"envelope":null}`

const notDerived = `{"source":"none","dialect":null,"header":null,"occurrence":null,"confidence":"none"}`

// alone turns the JSON of a message in a list into the JSON of a single message.
func alone(message string) string { return strings.TrimSuffix(message, "}") + nothingDerived }

func TestList(t *testing.T) {
	t.Parallel()
	older, newer := message(idA), message(idB, at(noon.Add(time.Minute)))
	messageB := strings.NewReplacer(idA.String(), idB.String(), `created_at":"2026-02-20T10:30`, `created_at":"2026-02-20T10:31`,
		`updated_at":"2026-02-20T10:30`, `updated_at":"2026-02-20T10:31`).Replace(messageA)
	for _, c := range []struct {
		name, target     string
		list             string
		total            int
		page, size, next string
	}{
		{"NoMessage", "x", ``, 0, "1", "20", "false"},
		{"OriginalTopicNamesItToo", "orders.events.v1", messageB + `,` + messageA, 2, "1", "20", "false"},
		{"NewestFirst", "orders.dlq.v1", messageB + `,` + messageA, 2, "1", "20", "false"},
		{"FirstPage", "orders.dlq.v1?page_size=1", messageB, 2, "1", "1", "true"},
		{"LastPage", "orders.dlq.v1?page=2&page_size=1", messageA, 2, "2", "1", "false"},
		{"BehindTheEnd", "orders.dlq.v1?page=1000000&page_size=1000", ``, 2, "1000000", "1000", "false"},
		{"UnknownParametersAreIgnored", "x?colour=red&page=2", ``, 0, "2", "20", "false"},
		{"UnknownParametersMayRepeat", "x?page=3&colour=red&colour=blue", ``, 0, "3", "20", "false"},
	} {
		wantAnswer(t, newFixture(older, newer).open().do("GET", "/api/v1/dlq/"+c.target, ""), 200, fmt.Sprintf(
			`{"messages":[%s],"pagination":{"total_count":%d,"page":%s,"page_size":%s,"has_next":%s}}`, c.list, c.total, c.page, c.size, c.next))
	}
	f := newFixture()
	wantAnswer(t, f.over(broken(f.memory)).open().do("GET", "/api/v1/dlq/orders.dlq.v1", ""), 500,
		errorJSON("SYS_DLQ_INTERNAL_ERROR", "internal error", "[]"))
}

// broken returns a store whose lists fail.
func broken(s *fake.Store) *hooked {
	store := hook(s)
	store.list = func(context.Context, string, repository.Page) (repository.List, error) {
		return repository.List{}, errBroken
	}
	return store
}

func TestGet(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	wantAnswer(t, f.do("GET", oneA, ""), 200, alone(messageA))
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+strings.ToUpper(idA.String()), ""), 200, alone(messageA))
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idGone.String(), ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idGone.String(), "[]"))
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/not-a-uuid", ""), 400,
		errorJSON("SYS_DLQ_VALIDATION_ERROR", "invalid message id: not-a-uuid", badID))
	wantStatus(t, f.do("HEAD", oneA, ""), 200)
}

// Every field of a message is shown under its name.
func TestGet_EveryField(t *testing.T) {
	t.Parallel()
	partition, offset, attempts := int32(0), int64(0), 5
	m := message(idA, in(entity.Dead, 3), func(m *entity.Message) {
		m.LastRetryAt = noon.Add(time.Minute)
		m.UpdatedAt = noon.Add(1500 * time.Millisecond)
		m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: noon, Confidence: entity.FromName}
		m.Failure = entity.Failure{Class: "java.lang.Boom", ConsumerGroup: "billing", Attempts: &attempts, Dialect: "spring"}
		m.Parent, m.Root, m.UnconfirmedReturn = idB, idGone, true
		m.Outcome, m.NextAttemptAt = entity.Returned, noon
		m.LastPublishError, m.LastPublishErrorClass = "too <large>", entity.BadRecord
		m.Record.Key = []byte{0xff, 0}
		m.Record.Headers = []entity.Header{{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "\xff", Value: []byte{0xfe}}}
	})
	f := newFixture(m).with(WithDialects(stackTraces{of: func(entity.Message) string { return "at x\n\tat y" }})).open()
	wantAnswer(t, f.do("GET", oneA, ""), 200,
		`{"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1","error_message":"processing failed",`+
			`"retry_count":3,"max_retries":3,"payload":{"order_id": "123"},"status":"DEAD",`+
			`"created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:01.500+00:00",`+
			`"last_retry_at":"2026-02-20T10:31:00.000+00:00","dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,`+
			`"dlq_timestamp":"2026-02-20T10:29:59.000+00:00","dlq_timestamp_ms":null,"original_partition":0,"original_offset":0,`+
			`"original_timestamp":"2026-02-20T10:30:00.000+00:00","consumer_group":"billing","error_class":"java.lang.Boom",`+
			`"stack_trace":"at x\n\tat y","consumer_attempts":5,"dialect":"spring","origin_confidence":"name","undeclared":false,"undeclared_reason":null,"duplicates":null,"repeats":[],"repeat_of":null,"source_gone":false,"completion":null,"completion_reason":null,"group_id":null,`+
			`"parent_id":"550e8400-e29b-41d4-a716-446655440001","return_confirmed":false,"root_id":"550e8400-e29b-41d4-a716-4466554400ff",`+
			`"outcome":"returned","outcome_group":null,"outcome_offset":null,"next_attempt_at":"2026-02-20T10:30:00.000+00:00","finished_at":"2026-02-20T10:30:01.500+00:00",`+
			`"last_publish_error":"too <large>","last_publish_error_class":"BAD_RECORD","key":{"encoding":"base64","data":"/wA="},`+
			`"key_omitted":null,"key_size":2,"key_json":null,"key_format":null,"key_schema":null,"headers":[{"key":"a","value":null},{"key":"a","value":{"encoding":"utf8","data":""}},`+
			`{"key":"\ufffd","key_base64":"/w==","value":{"encoding":"base64","data":"/g=="}}],`+
			`"headers_omitted":null,"payload_omitted":null,"payload_size":19,"payload_url":null,"payload_format":"json","payload_schema":null,"payload_reason":null,"limit_exceeded":null,"unreadable_reason":null,"last_offset":null,"cause":"processing failed","masked":[]`+nothingDerived)
}

// Any producer of a dead-letter topic can send records with very long keys. Answers leave such keys out, so that a few
// of them do not use up the memory for answers.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	long := func(m *entity.Message) { m.Record.Key = make([]byte, 20<<20) }
	f := newFixture(message(idA, long), message(idB, long)).open()
	for _, target := range []string{"/api/v1/messages", "/api/v1/dlq/orders.dlq.v1", oneA} {
		wantStatus(t, f.do("GET", target, ""), 200, `"key":null,"key_omitted":"too_large","key_size":20971520,`)
	}
}

// The answer says which parts of a message are missing, and why. When the store left headers out, the answer does not
// show an empty list of headers.
func TestGet_WhatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*entity.Message)
		want   []string
	}{
		"RowThatNeverWasARecord": {func(m *entity.Message) {
			m.Source, m.Record = entity.Source{}, entity.Record{State: entity.ValueMissing}
			m.ErrorMessage = "bad \xff text"
		}, []string{
			`"dlq_topic":null,"dlq_partition":null,"dlq_offset":null,"dlq_timestamp":null,"dlq_timestamp_ms":null`, `"payload":null`,
			`"bad \ufffd text"`,
			`"key":null,"key_omitted":null,"key_size":null,"key_json":null,"key_format":null,"key_schema":null,"headers":[],"headers_omitted":null,"payload_omitted":null,"payload_size":null,` +
				`"payload_url":null,"payload_format":null,"payload_schema":null,"payload_reason":null,"limit_exceeded":null,"unreadable_reason":null,"last_offset":null,"cause":"bad � text","masked":[],`,
		}},
		"Tombstone": {func(m *entity.Message) { m.Record.Value = nil }, []string{`"payload_omitted":null,"payload_size":null,"payload_url":null`}},
		"LeftOut": {
			func(m *entity.Message) {
				m.Record = entity.Record{State: entity.ValueNotLoaded, Size: 9, HeadersOmitted: true}
			},
			[]string{`"headers":null,"headers_omitted":"too_large","payload_omitted":"too_large","payload_size":9,"payload_url":"` + oneA +
				`/payload",`},
		},
		"OverLimit": {
			func(m *entity.Message) { m.Record = entity.Record{State: entity.ValueOverLimit, Size: 9} },
			[]string{`"payload":null`, `"payload_omitted":"over_limit","payload_size":9,`},
		},
		"PutInBySQL": {
			func(m *entity.Message) { m.Record = entity.Record{State: entity.ValueFromPayload, Value: []byte(`{}`)} },
			[]string{`"payload":{},`, `"payload_omitted":null,"payload_size":2,`},
		},
		"FirstHeaders": {
			func(m *entity.Message) { m.Record.HeadersOmitted, m.Record.Headers = true, []entity.Header{{Key: "a"}} },
			[]string{`"headers":[{"key":"a","value":null}],"headers_omitted":"too_large"`},
		},
		"Consumed": {
			func(m *entity.Message) {
				m.Outcome, m.Consumption = entity.Consumed, &entity.Consumption{Group: "billing"}
			},
			[]string{`"outcome":"consumed","outcome_group":"billing","outcome_offset":0,`},
		},
		"NoDate": {
			func(m *entity.Message) { m.Source.Timestamp, m.Source.RawTime = time.Time{}, math.MinInt64 },
			[]string{`"dlq_timestamp":null,"dlq_timestamp_ms":-9223372036854775808,`},
		},
		"Unreadable": {
			func(m *entity.Message) {
				m.Record = entity.Record{State: entity.ValueUnreadable, Unreadable: "bad magic", LastOffset: 44}
			},
			[]string{`"payload_omitted":"unreadable","payload_size":null,"payload_url":null,"payload_format":null,"payload_schema":null,"payload_reason":null,"limit_exceeded":null,"unreadable_reason":"bad magic","last_offset":44,`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture()
			store := hook(f.memory)
			store.get = func(_ context.Context, id uuid.UUID, _ int64) (entity.Message, error) {
				return message(id, c.change), nil
			}
			wantStatus(t, f.over(store).open().do("GET", oneA, ""), 200, c.want...)
		})
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, in(entity.Retrying, 1))).open()
	wantAnswer(t, f.do("DELETE", oneA, ""), 200, `{"success":true,"message":"message `+idA.String()+` deleted"}`)
	wantAnswer(t, f.do("DELETE", oneA, ""), 404, errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idA.String(), "[]"))
	wantAnswer(t, f.do("DELETE", oneB, ""), 409,
		errorJSON("SYS_DLQ_CONFLICT", "message is claimed by a running retry: "+idB.String(), "[]"))
	f.redriver = failing(errBroken)
	wantAnswer(t, f.open().do("DELETE", oneA, ""), 500, errorJSON("SYS_DLQ_INTERNAL_ERROR", "internal error", "[]"))
}

func TestRequeueAndDead(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA, in(entity.Dead, 3))).open()
	requeued := `{"id":"` + idA.String() + `","status":"PENDING","retry_count":0,"max_retries":3,"message":"message ` + idA.String() +
		` requeued"}`
	wantAnswer(t, f.do("POST", oneA+"/requeue", "{}"), 200, requeued)
	wantAnswer(t, f.do("POST", oneA+"/requeue", ""), 409, errorJSON("SYS_DLQ_CONFLICT", "message cannot move from PENDING to PENDING", "[]"))
	dead := `{"id":"` + idA.String() + `","status":"DEAD","retry_count":0,"max_retries":3,"message":"message ` + idA.String() +
		` marked dead"}`
	wantAnswer(t, f.do("POST", oneA+"/dead", ""), 200, dead)
	wantAnswer(t, f.do("POST", oneA+"/dead", ""), 409, errorJSON("SYS_DLQ_CONFLICT", "message cannot move from DEAD to DEAD", "[]"))
	wantAnswer(t, f.do("POST", "/api/v1/dlq/messages/"+idGone.String()+"/dead", ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idGone.String(), "[]"))
}

const attemptA = `{"number":1,"redrive_id":"0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e","bulk_redrive_id":null,"retry_count":1,` +
	`"actor":"anonymous","started_at":"2026-02-20T10:30:00.000+00:00","ended_at":"2026-02-20T10:30:00.000+00:00",` +
	`"from_status":"RETRYING","to_status":"RESOLVED","error_class":null,"error":null,"topic":"orders.events.v1","partition":3,"offset":7,"edit":null}`

// changeA returns the JSON of an audit entry about the message idA.
func changeA(number int, action, from, to string) string {
	by := map[string]string{"retry": "person", "attempt": "machine"}[action]
	return fmt.Sprintf(`{"id":%d,"at":"2026-02-20T10:30:00.000+00:00","action":"%s","kind":"message","object_id":"%s","from":"%s","to":"%s",`+
		`"retry_count":1,"error_class":null,"error":null,"actor":"anonymous","reason":null,"request_id":"test-1","trace_id":null,"actor_kind":"%s"}`, number,
		action, idA, from, to, by)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	wantAnswer(t, f.do("GET", oneA+"/history", ""), 200, `{"id":"`+idA.String()+`","attempts":[],"changes":[],"lineage":[]}`)
	f.do("POST", retryA, "")
	wantAnswer(t, f.do("GET", oneA+"/history", ""), 200, `{"id":"`+idA.String()+`","attempts":[`+attemptA+`],"changes":[`+
		changeA(1, "retry", "PENDING", "RETRYING")+`,`+changeA(2, "attempt", "RETRYING", "RESOLVED")+`],"lineage":[]}`)
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idGone.String()+"/history", ""), 404,
		errorJSON("SYS_DLQ_NOT_FOUND", "dlq message not found: "+idGone.String(), "[]"))
	if a := wire.NewAttempt(entity.Attempt{Topic: "t", Offset: -1}); a.Partition == nil || a.Offset != nil {
		t.Errorf("an attempt with an unknown offset is shown as %s", wire.Encode(a))
	}
}

// The history includes the ancestors that still exist, each with its own history.
func TestHistory_Lineage(t *testing.T) {
	t.Parallel()
	parent := message(idA, func(m *entity.Message) { m.Parent, m.Root = idGone, idGone })
	child := message(idB, func(m *entity.Message) { m.Parent, m.Root = idA, idGone })
	f := newFixture(parent, child).open()
	f.do("POST", retryA, "")
	wantAnswer(t, f.do("GET", oneB+"/history", ""), 200, `{"id":"`+idB.String()+`","attempts":[],"changes":[],`+
		`"lineage":[{"id":"`+idA.String()+`","parent_id":"`+idGone.String()+`","status":"RESOLVED","outcome":"published","retry_count":1,`+
		`"created_at":"2026-02-20T10:30:00.000+00:00","attempts":[`+attemptA+`],"changes":[`+
		changeA(1, "retry", "PENDING", "RETRYING")+`,`+changeA(2, "attempt", "RETRYING", "RESOLVED")+`]}]}`)
}

// The payload route sends a value byte for byte, and fetches it when the store does not keep it. When the value no
// longer exists, the answer gives the reason.
func TestPayload(t *testing.T) {
	t.Parallel()
	target := oneA + "/payload"
	over := func(m *entity.Message) { m.Record = entity.Record{State: entity.ValueOverLimit, Size: 70 << 20} }
	pointing := func(m *entity.Message) {
		m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte("orders.events.v1")}}}
	}
	conflict := func(why string) string { return errorJSON("SYS_DLQ_CONFLICT", why, "[]") }
	gone := &entity.RefusedError{Class: entity.BadRecord, Reason: "topic orders.events.v1 no longer has offset 7"}
	goneText := errorJSON("SYS_DLQ_NOT_FOUND", "the value cannot be had any more: "+gone.Reason,
		`[{"field":"reason","reason":"`+gone.Reason+`"},{"field":"class","reason":"BAD_RECORD"}]`)
	for _, c := range []struct {
		name    string
		change  func(*entity.Message)
		fetcher Fetcher
		status  int
		body    string
	}{
		{"AnyBytes", withValue("\x00\xff<script>\r\n"), nil, 200, "\x00\xff<script>\r\n"},
		{"Empty", withValue(""), nil, 200, ""},
		{"Large", withValue(strings.Repeat("x", 3<<20)), nil, 200, strings.Repeat("x", 3<<20)},
		{"Tombstone", func(m *entity.Message) { m.Record.Value = nil }, nil, 204, ""},
		{"PayloadOfARowPutInBySQL", func(m *entity.Message) {
			m.Record = entity.Record{State: entity.ValueFromPayload, Value: []byte(`{"a": 1}`)}
		}, nil, 200, `{"a": 1}`},
		{
			"Missing", func(m *entity.Message) { m.Record = entity.Record{State: entity.ValueMissing} }, nil, 409,
			conflict("the message was stored without a value"),
		},
		{"OverLimit", over, fetching{value: []byte("large")}, 200, "large"},
		{"OverLimitGone", over, fetching{err: gone}, 404, goneText},
		{"OverLimitWithoutKafka", over, nil, 409, conflict("the value of 73400320 bytes is too large to be kept here; " +
			"dead-letter topic orders.dlq.v1 has it in partition 2 at offset 41 as long as it keeps it")},
		{"Pointer", pointing, fetching{value: []byte("bytes")}, 200, "bytes"},
		{"PointerToATombstone", pointing, fetching{}, 204, ""},
		{"PointerGone", pointing, fetching{err: gone}, 404, goneText},
		{"PointerWithoutKafka", pointing, nil, 409, conflict("the dead letter only points to its record, in topic orders.events.v1: it is not kept here")},
		{"KafkaAway", pointing, fetching{err: entity.ErrUnavailable}, 503, errorJSON("SYS_DLQ_UNAVAILABLE", respond.UnavailableText, "[]")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA, c.change)).with(WithDialects(pointers{}))
			if c.fetcher != nil {
				f.with(WithFetcher(c.fetcher))
			}
			w := f.open().do("GET", target, "")
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
	f := newFixture(message(idA, pointing)).with(WithDialects(pointers{})).open()
	wantStatus(t, f.do("GET", strings.TrimSuffix(target, "/payload"), ""), 200,
		`"payload_omitted":"pointer","payload_size":null,"payload_url":"`+target+`"`)
}

func wantHeader(t *testing.T, h http.Header, name, want string) {
	t.Helper()
	if got := h.Get(name); got != want {
		t.Errorf("header %s = %q, want %q", name, got, want)
	}
}

// The store must not be asked for a topic whose name no row can have. A database refuses NUL in text, so the client
// would get a 500 instead of an empty list.
func TestImpossibleTopicsAreEmpty(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.redriver = &stub{do: func(context.Context) (entity.Redrive, error) { panic("asked") }}
	f.over(broken(f.memory)).open()
	for _, topic := range []string{"%00", "a%00b", "%FF", strings.Repeat("x", 256), strings.Repeat("%E3%81%82", 256)} {
		wantAnswer(t, f.do("GET", "/api/v1/dlq/"+topic, ""), 200,
			`{"messages":[],"pagination":{"total_count":0,"page":1,"page_size":20,"has_next":false}}`)
		wantStatus(t, f.do("POST", "/api/v1/dlq/"+topic+"/retry-all", ""), 200, `{"retried":0,`)
	}
}

// A topic may have any text as its name: the name reaches the store decoded from the URL, and otherwise unchanged.
func TestTopicIsAnyText(t *testing.T) {
	t.Parallel()
	for encoded, topic := range map[string]string{
		"a%2Fb": "a/b", "%2e%2E": "..", "..": "..", ".": ".", "a+b": "a+b", "a%20b": "a b", "a%252Fb": "a%2Fb",
		"messages": "messages", "%E3%81%82": "あ", "a;b": "a;b", "a%3Fb": "a?b", "retry-all": "retry-all",
	} {
		f := newFixture(message(idA, func(m *entity.Message) { m.OriginalTopic = topic })).open()
		wantStatus(t, f.do("GET", "/api/v1/dlq/"+encoded, ""), 200, idA.String())
		wantStatus(t, f.do("POST", "/api/v1/dlq/"+encoded+"/retry-all", ""), 200, `{"retried":1,`)
	}
}

// Characters that change the direction of text, or end lines, are always escaped.
func TestMarksAreEscapedEverywhere(t *testing.T) {
	t.Parallel()
	const marks = "\x00\x07\x1b\r\n\x7f\u0085\u009f\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
	const evil = marks + "\u202egpj.exe\u2066\u200b\x7f\u0085\u2028\x1b[31m\x00'; drop table dlq.messages; --\r\nSet-Cookie: x=1"
	f := newFixture(message(idA, func(m *entity.Message) {
		m.OriginalTopic, m.ErrorMessage, m.LastPublishError = evil, evil, evil
		m.Failure.Class, m.Failure.ConsumerGroup, m.Failure.Dialect = evil, evil, evil
		m.Record.Key, m.Record.Headers = []byte(evil), []entity.Header{{Key: evil, Value: []byte(evil)}}
	})).open()
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export", "/api/v1/dlq/orders.dlq.v1"} {
		w := f.do("GET", target, "")
		wantStatus(t, w, 200, `"error_message":`+string(wire.Encode(evil)))
		if strings.ContainsAny(strings.TrimSuffix(w.Body.String(), "\n"), marks) || len(w.Result().Cookies()) > 0 {
			t.Errorf("GET %s = %q, cookies %v, want no such character and no cookie", target, w.Body, w.Result().Cookies())
		}
	}
	w := f.do("GET", "/api/v1/dlq/messages/%E2%80%AEx", "")
	if e := wantEnvelope(t, w, 400); strings.ContainsRune(w.Body.String(), '\u202e') || !strings.ContainsRune(e.Message, '\u202e') {
		t.Errorf("error %s, want the mark escaped", w.Body)
	}
}
