package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// found is the JSON answer to a search, or to a request for a list.
type found struct {
	Messages []map[string]any `json:"messages"`
	wire.SearchPage
}

func (f *fixture) search(t *testing.T, target string) found {
	t.Helper()
	w := f.do("GET", target, "")
	var got found
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("GET %s = %d %s", target, w.Code, w.Body)
	}
	return got
}

// ids returns the last digit of each found message's id, as one text in the order of the list.
func (f found) ids() string {
	var ids []string
	for _, m := range f.Messages {
		id := fmt.Sprint(m["id"])
		ids = append(ids, id[len(id)-1:])
	}
	return strings.Join(ids, "")
}

func sixth(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("550e8400-e29b-41d4-a716-44665544200%d", n))
}

// searchFixture has six messages whose fields differ, so that searches find different ones of them. The id of the
// oldest ends in 0.
func searchFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture()
	for i, change := range []func(*entity.Message){
		func(m *entity.Message) { m.Failure.Class = "Boom"; m.LastRetryAt = noon.Add(2 * time.Hour) },
		func(m *entity.Message) { m.Failure.ConsumerGroup = "billing"; m.LastRetryAt = noon.Add(time.Hour) },
		func(m *entity.Message) { m.Failure.Dialect = "spring"; m.Group = idGone },
		func(m *entity.Message) {
			m.OriginalTopic, m.Origin.Confidence, m.Source.Topic = "", entity.FromNothing, "payments.dlq.v1"
		},
		func(m *entity.Message) {
			m.Record.Headers = []entity.Header{{Key: "tenant", Value: []byte("acme")}}
			m.Record.Value = []byte(`{"customer":{"id":42},"items":[{"sku":"x-1"},{"sku":"x-2"}]}`)
		},
		func(m *entity.Message) {
			m.Record.Key, m.ErrorMessage = []byte{0xff}, "Connection refused: 50% done_"
			m.Record.Value = []byte(`{"customer":{"id":"42"}}`)
		},
	} {
		f.memory.Insert(message(sixth(i), at(noon.Add(time.Duration(i)*time.Minute)), change))
	}
	f.open()
	f.index(nil)
	return f
}

func TestSearch(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for query, want := range map[string]string{
		"":                                           "543210",
		"?sort=created_at":                           "012345",
		"?sort=-created_at":                          "543210",
		"?sort=last_retry_at":                        "10",
		"?sort=-last_retry_at":                       "01",
		"?topic=orders.dlq.v1":                       "54210",
		"?topic=payments.dlq.v1":                     "3",
		"?topic=pay*":                                "3",
		"?topic=*.v1":                                "543210",
		"?topic=no.such":                             "",
		"?status=PENDING":                            "543210",
		"?status=DEAD,RESOLVED":                      "",
		"?error_class=Boom":                          "0",
		"?consumer_group=billing":                    "1",
		"?dialect=spring":                            "2",
		"?group_id=" + idGone.String():               "2",
		"?origin=unknown":                            "3",
		"?key_base64=/w==":                           "5",
		"?key=order-123":                             "43210",
		"?header=tenant":                             "4",
		"?header=tenant%3Dacme":                      "4",
		"?header=tenant%3Dother":                     "",
		"?payload=$.customer.id%3D42":                "54",
		`?payload=$.customer.id%3D"42"`:              "5",
		"?payload=$.items[*].sku%3Dx-2":              "4",
		"?payload=$.customer&payload=$.items[*].sku": "4",
		"?payload=$.customer.id&header=tenant":       "4",
		"?q=CONNECTION+refused":                      "5",
		"?q=%22n+refused:+50%25+done_%22":            "5",
		"?q=x-2":                                     "4",
		"?q=_ef":                                     "",
		"?created_after=2026-02-20T10:31:00Z&created_before=2026-02-20T10:33:00Z": "21",
		"?retried_after=2026-02-20T12:00:00Z":                                     "0",
		"?limit=2":                                                                "54",
		"?nothing=known&topic=orders.dlq.v1":                                      "54210",
	} {
		if got := f.search(t, "/api/v1/messages"+query).ids(); got != want {
			t.Errorf("GET messages%s = %q, want %q", query, got, want)
		}
	}
}

func TestSearch_WithoutPayloads(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for _, m := range f.search(t, "/api/v1/messages?omit=payload").Messages {
		if m["payload"] != nil || m["payload_omitted"] != "not_asked" || m["payload_url"] == nil || m["payload_size"] == nil || m["key"] == nil {
			t.Errorf("got %v, want all but the payload", m)
		}
	}
	wantEnvelope(t, f.do("GET", "/api/v1/messages?omit=headers", ""), 400, "omit")
}

// Pages follow one another without a gap or a repeat, whatever the order.
func TestSearch_PagesAreTheWholeList(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for target, want := range map[string]string{"": "543210", "?sort=created_at": "012345", "?sort=last_retry_at": "10", "?topic=orders.*&sort=created_at": "01245"} {
		f.wantPages(t, target, want)
	}
	f = newFixture().open() // the messages of this fixture were retried in another order than that of their arrival
	for i, minute := range []int{4, 1, 5, 1, 3} {
		f.memory.Insert(message(sixth(i), at(noon.Add(time.Duration(i)*time.Minute)), func(m *entity.Message) {
			m.LastRetryAt = noon.Add(time.Duration(minute) * time.Hour)
		}))
	}
	f.wantPages(t, "?sort=last_retry_at", "13402")
	f.wantPages(t, "?sort=-last_retry_at", "20431")
}

func (f *fixture) wantPages(t *testing.T, query, want string) {
	t.Helper()
	ids, pages := walk(t, f, "/api/v1/messages"+query, "messages", "id")
	got := ""
	for _, id := range ids {
		got += id[len(id)-1:]
	}
	if got != want || pages != (len(want)+1)/2 {
		t.Errorf("%q in %d pages = %s, want %s", query, pages, got, want)
	}
}

// A cursor of another filter, order or list is refused.
func TestSearch_CursorBelongsToItsQuestion(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	cursor := *f.search(t, "/api/v1/messages?limit=2&topic=orders.dlq.v1").NextCursor
	for _, target := range []string{
		"/api/v1/messages?limit=2", "/api/v1/messages?topic=orders.dlq.*", "/api/v1/messages?topic=orders.dlq.v1&sort=created_at",
		"/api/v1/messages?topic=orders.dlq.v1&status=PENDING", "/api/v1/archive?topic=orders.dlq.v1",
		"/api/v1/messages?topic=orders.dlq.v1&q=abc",
	} {
		wantEnvelope(t, f.do("GET", target+"&cursor="+cursor, ""), 400, "cursor")
	}
	if got := f.search(t, "/api/v1/messages?topic=orders.dlq.v1&count=exact&limit=3&cursor="+cursor).ids(); got != "210" {
		t.Errorf("page after the cursor = %q, want 210", got)
	}
}

func TestSearch_Count(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for query, want := range map[string]string{
		"": "null", "?count=none": "null", "?count=exact&limit=1": `{"messages":6,"exact":true}`,
		"?count=exact&topic=payments.dlq.v1": `{"messages":1,"exact":true}`, "?count=estimate": `{"messages":`,
		// A list sorted by last_retry_at contains only messages that were retried, so its count is smaller.
		"?count=exact&sort=last_retry_at": `{"messages":2,`, "?count=exact&sort=-last_retry_at": `{"messages":2,`,
		"?count=exact&sort=created_at":                                       `{"messages":6,`,
		"?count=exact&sort=last_retry_at&retried_after=2026-02-20T12:00:00Z": `{"messages":1,`,
	} {
		wantStatus(t, f.do("GET", "/api/v1/messages"+query, ""), 200, `"count":`+want)
	}
}

// For callers who see only some topics, an answer never shows a count above repository.CountLimit, even when the store
// knows the exact count.
func TestSearch_CountOfSomeTopicsIsLimited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count     repository.MatchCount
		ana, root string
	}{
		{repository.MatchCount{Messages: 10_000, Exact: true}, `{"messages":10000,"exact":true}`, `{"messages":10000,"exact":true}`},
		{
			repository.MatchCount{Messages: 10_001, Exact: true},
			`{"messages":10000,"exact":false,"at_least":true}`,
			`{"messages":10001,"exact":true}`,
		},
		{
			repository.MatchCount{Messages: 7, AtLeast: true},
			`{"messages":7,"exact":false,"at_least":true}`,
			`{"messages":7,"exact":false,"at_least":true}`,
		},
	} {
		f := newFixture(message(idA))
		store := hook(f.memory)
		store.count = func(context.Context, repository.CountQuery) (repository.MatchCount, error) { return c.count, nil }
		f.over(store).guarded(person("ana", "orders.*", auth.Viewer), person("root", "*", auth.Viewer))
		for _, query := range []string{"messages?count=exact", "messages?count=estimate", "archive?count=exact"} {
			wantStatus(t, f.by("ana", "GET", "/api/v1/"+query, ""), 200, `"count":`+c.ana)
			wantStatus(t, f.by("root", "GET", "/api/v1/"+query, ""), 200, `"count":`+c.root)
		}
	}
}

func TestSearch_TooBroadIsTheFiltersFault(t *testing.T) {
	t.Parallel()
	f := newFixture()
	store := hook(f.memory)
	store.search = func(context.Context, repository.SearchQuery) (repository.SearchPage, error) {
		return repository.SearchPage{}, fmt.Errorf("search: %w", &repository.TooBroadError{})
	}
	store.export = func(context.Context, repository.ExportQuery, func(*entity.Message) error) error {
		return fmt.Errorf("export: %w", &repository.TooBroadError{})
	}
	f.index(nil)
	f.over(store).open()
	for _, target := range []string{"/api/v1/messages?q=abc", "/api/v1/archive?q=abc", "/api/v1/export?q=abc"} {
		w := f.do("GET", target, "")
		wantEnvelope(t, w, 400, "filter")
		wantStatus(t, w, 400, "narrow it") // the error tells the caller how to change the request
	}
}

// Lists and exports do not include a payload of ten megabytes, but its size and its URL.
func TestTenMegabytesAreNotShippedInLists(t *testing.T) {
	t.Parallel()
	big, payload := `"`+strings.Repeat("x", 10<<20)+`"`, oneA+"/payload"
	f := newFixture(message(idA, withValue(big))).open()
	for _, target := range []string{"/api/v1/messages", "/api/v1/dlq/orders.dlq.v1", "/api/v1/export", "/api/v1/export?format=csv"} {
		if body := wantStatus(t, f.do("GET", target, ""), 200, "too_large", fmt.Sprint(len(big)), payload); len(body) > 8<<10 {
			t.Errorf("GET %s has %d bytes, want a small answer", target, len(body))
		}
	}
	if w := f.do("GET", payload, ""); w.Body.String() != big {
		t.Errorf("the payload route has %d bytes, want %d", w.Body.Len(), len(big))
	}
}

// A principal with roles on some topics finds no messages of other topics, neither in pages nor in counts or exports.
func TestSearch_ShowsOnlyWhatOneMaySee(t *testing.T) {
	t.Parallel()
	f := searchFixture(t).guarded(person("ana", "payments.*", "viewer"))
	for _, target := range []string{"/api/v1/messages?count=exact", "/api/v1/messages?count=exact&topic=*"} {
		w := f.by("ana", "GET", target, "")
		wantStatus(t, w, 200, `"count":{"messages":1,`)
		if got := ids(t, w, "messages"); !slices.Equal(got, []string{sixth(3).String()}) {
			t.Errorf("GET %s = %v, want message 3 alone", target, got)
		}
	}
	if lines := strings.Count(f.by("ana", "GET", "/api/v1/export", "").Body.String(), "\n"); lines != 1 {
		t.Errorf("the export has %d lines, want 1", lines)
	}
}

// Injection strings are text like any other.
func TestSearch_InjectionFindsNothing(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for _, evil := range []string{`' OR 1=1 --`, `"); DROP TABLE dlq.dlq_messages; --`, `%' OR '1'='1`, `\x00`, `$.a') OR true --`, "\u202eabc"} {
		quoted := url.QueryEscape(evil)
		for _, name := range []string{"error_class", "consumer_group", "dialect", "key", "header", "topic"} {
			if got := f.search(t, "/api/v1/messages?"+name+"="+quoted).ids(); got != "" {
				t.Errorf("%s=%s finds %q", name, evil, got)
			}
		}
		if w := f.do("GET", "/api/v1/messages?q="+quoted, ""); w.Code != 200 && w.Code != 400 {
			t.Errorf("q=%s = %d", evil, w.Code)
		}
	}
	if got := f.search(t, "/api/v1/messages?limit=1000").ids(); got != "543210" {
		t.Errorf("afterwards there are %q", got)
	}
}
