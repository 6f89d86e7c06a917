package request

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/resttest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

var (
	idA  = uuid.MustParse("550e8400-e29b-41d4-a716-446655440000")
	idB  = uuid.MustParse("550e8400-e29b-41d4-a716-446655440001")
	noon = time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
)

// filters lists filters, each as a query and as a body of a request, with the entity.Filter that both must give.
var filters = []struct {
	name, query, body string
	want              entity.Filter
}{
	{"Nothing", ``, `{}`, entity.Filter{}},
	{"Topic", `topic=orders.dlq.v1`, `{"topic":"orders.dlq.v1"}`, entity.Filter{Topic: "orders.dlq.v1"}},
	{"TopicThatIsNoneOfKafkas", `topic=a%2Fb%20c`, `{"topic":"a/b c"}`, entity.Filter{Topic: "a/b c"}},
	{"Glob", `topic=orders.*`, `{"topic":"orders.*"}`, entity.Filter{Topics: patterns("orders.*")}},
	{"StarAlone", `topic=*`, `{"topic":"*"}`, entity.Filter{Topics: patterns("*")}},
	{"Status", `status=DEAD`, `{"status":["DEAD"]}`, entity.Filter{Statuses: []entity.Status{entity.Dead}}},
	{
		"StatusesRepeatedAndListed", `status=DEAD,PENDING&status=RETRYING`, `{"status":["DEAD","PENDING","RETRYING"]}`,
		entity.Filter{Statuses: []entity.Status{entity.Dead, entity.Pending, entity.Retrying}},
	},
	{
		"Failure", `error_class=Boom&consumer_group=billing&dialect=spring`,
		`{"error_class":"Boom","consumer_group":"billing","dialect":"spring"}`,
		entity.Filter{ErrorClass: "Boom", ConsumerGroup: "billing", Dialect: "spring"},
	},
	{
		"IDs", `id=` + idA.String() + `,` + idB.String(), `{"id":["` + idA.String() + `","` + idB.String() + `"]}`,
		entity.Filter{MessageIDs: []uuid.UUID{idA, idB}},
	},
	{"Group", `group_id=` + idA.String(), `{"group_id":"` + idA.String() + `"}`, entity.Filter{Group: idA}},
	{"Origin", `origin=unknown`, `{"origin":"unknown"}`, entity.Filter{UnknownOrigin: true}},
	{
		"Created", `created_after=2026-02-20T10:30:00Z&created_before=2026-02-20T12:30:00%2B01:00`,
		`{"created_after":"2026-02-20T10:30:00Z","created_before":"2026-02-20T12:30:00+01:00"}`,
		entity.Filter{CreatedAfter: noon, CreatedBefore: noon.Add(time.Hour)},
	},
	{
		"PlusOfAnOffsetSentAsItIs", `created_after=2026-02-20T11:30:00+01:00`, `{"created_after":"2026-02-20T11:30:00+01:00"}`,
		entity.Filter{CreatedAfter: noon},
	},
	{
		"Retried", `retried_after=2026-02-20T10:30:00Z&retried_before=2026-02-20T10:30:01Z`,
		`{"retried_after":"2026-02-20T10:30:00Z","retried_before":"2026-02-20T10:30:01Z"}`,
		entity.Filter{RetriedAfter: noon, RetriedBefore: noon.Add(time.Second)},
	},
	{"Key", `key=order-1`, `{"key":"order-1"}`, entity.Filter{Key: []byte("order-1")}},
	{"KeyEmpty", `key=`, `{"key":""}`, entity.Filter{Key: []byte{}}},
	{"KeyBytes", `key_base64=/wA=`, `{"key_base64":"/wA="}`, entity.Filter{Key: []byte{0xff, 0}}},
	{
		"Headers", `header=a&header=b%3D1%3D2&header=c%3D`, `{"header":["a","b=1=2","c="]}`,
		entity.Filter{Headers: []entity.HeaderMatch{{Name: "a"}, {Name: "b", Value: []byte("1=2")}, {Name: "c", Value: []byte{}}}},
	},
	{"PayloadPath", `payload=$.a.b`, `{"payload":["$.a.b"]}`, entity.Filter{Fields: []entity.FieldMatch{{Path: "$.a.b"}}}},
	{
		"PayloadEveryElement", `payload=$.items[*].sku`, `{"payload":["$.items[*].sku"]}`,
		entity.Filter{Fields: []entity.FieldMatch{{Path: "$.items[*].sku"}}},
	},
	{
		"PayloadText", `payload=$.a%3Dx%20y`, `{"payload":["$.a = x y "]}`,
		entity.Filter{Fields: []entity.FieldMatch{{Path: "$.a", Values: []string{`"x y"`}}}},
	},
	{
		"PayloadNumberIsTextToo", `payload=$.customer.id%20=%2042`, `{"payload":["$.customer.id=42"]}`,
		entity.Filter{Fields: []entity.FieldMatch{{Path: "$.customer.id", Values: []string{`"42"`, `42`}}}},
	},
	{
		"PayloadQuotedIsTextAlone", `payload=$.a="true"`, `{"payload":["$.a=\"true\""]}`,
		entity.Filter{Fields: []entity.FieldMatch{{Path: "$.a", Values: []string{`"true"`}}}},
	},
	{
		"PayloadNumberAlone", `payload=$.a%20==%204.20e1`, `{"payload":["$.a==42"]}`,
		entity.Filter{Fields: []entity.FieldMatch{{Path: "$.a", Values: []string{"42"}}}},
	},
	{
		"Words", `q=Timed+OUT+%22at+Line+7%22+timed`, `{"q":"Timed OUT \"at Line 7\" timed"}`,
		entity.Filter{Words: []string{"Timed", "OUT", "at Line 7"}},
	},
	{"WordsOfTwoIdeographs", `q=%E6%B3%A8%E6%96%87+%EC%A3%BC%EB%AC%B8`, `{"q":"注文 주문"}`, entity.Filter{Words: []string{"注文", "주문"}}},
	{
		"InjectionIsText", `error_class='%3B%20drop%20table%20x--&q=%25_%25'%3B--`, `{"error_class":"'; drop table x--","q":"%_%';--"}`,
		entity.Filter{ErrorClass: "'; drop table x--", Words: []string{"%_%';--"}},
	},
	{"RightToLeft", `error_class=%E2%80%AEevil`, `{"error_class":"\u202eevil"}`, entity.Filter{ErrorClass: "\u202eevil"}},
}

func patterns(texts ...string) entity.TopicPatterns {
	p, err := entity.ParseTopicPatterns("t", texts...)
	if err != nil {
		panic(err)
	}
	return p
}

func queryFilter(query string) (entity.Filter, error) {
	var p Problems
	f := ReadFilter(httptest.NewRequest("GET", "/?"+query, nil).URL.Query(), &p)
	return f, p.Err()
}

func bodyFilter(body string) (entity.Filter, error) {
	o := NewFilterOrder()
	if err := DecodeObject([]byte(body), "filter.", o.Fields()); err != nil {
		return entity.Filter{}, err
	}
	var p Problems
	f := o.Read("filter.", &p)
	return f, p.Err()
}

// A parameter has the same meaning in queries and in bodies.
func TestFilter(t *testing.T) {
	t.Parallel()
	for _, c := range filters {
		for how, read := range map[string]func() (entity.Filter, error){
			"query " + c.query: func() (entity.Filter, error) { return queryFilter(c.query) },
			"body " + c.body:   func() (entity.Filter, error) { return bodyFilter(c.body) },
		} {
			got, err := read()
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %s\n got %+v, %v\nwant %+v", c.name, how, got, err, c.want)
			}
		}
	}
}

// A filter is shown in a form that can be read back as the same filter.
func TestFilter_ShownAndReadAgain(t *testing.T) {
	t.Parallel()
	none := resttest.Plain
	masking := wire.Masking{Derived: none}
	for _, c := range filters {
		var members map[string]json.RawMessage
		check.NoError(t, json.Unmarshal(wire.Encode(wire.NewFilter(c.want, masking)), &members))
		maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
		again := string(wire.Encode(members))
		if got, err := bodyFilter(again); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s is read as %+v, %v, want %+v", c.name, again, got, err, c.want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, c := range filters {
		f.Add(c.query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		var p Problems
		ReadFilter(values, &p)
		for _, d := range respond.FieldDetails(p.Err()) {
			if d.Field == "" || d.Reason == "" {
				t.Errorf("%q: problem %+v without a name", query, d)
			}
		}
	})
}
